/**
 * Endpoints of the public listener that are not declared where they are served yet, for the OpenAPI document. Request schemas
 * are the ones that validate. Contract: "Endpoints".
 */
import { z } from 'zod'
import { REPORT } from '../surface/access-reports.ts'
import type { CredentialNames, Described } from '../http/endpoint.ts'
import { TOKEN_QUERY } from '../surface/introspection.ts'
import { PERM_REQUEST } from '../surface/permission.ts'
import { ROSTER_QUERY, TERMS_QUERY } from '../surface/terms.ts'
import { TOKEN_REQUEST } from '../surface/token/token-request.ts'

const text = z.string()
const seconds = z.int()
const anything = z.looseObject({})
const pat = { names: ['pat'] as CredentialNames }

const TERMS_TEMPLATE = z.object({
  template_id: text,
  terms_uri: text,
  proffered_by: text,
  purpose: text,
  scope: z.array(text),
  expires_in: seconds,
  prohibited: z.array(text),
  resource_id: text,
  family: text,
  nonce: text,
  per_operation: z.literal(true).optional(),
})

/** 200 of POST /token: a PAT, or a grant with its receipt. */
const TOKEN_ANSWER = z.union([
  z.object({ access_token: text, token_type: z.literal('PoP'), expires_in: seconds, receipt: text }),
  z.object({
    access_token: text,
    token_type: z.literal('Bearer'),
    expires_in: seconds,
    scope: z.literal('uma_protection'),
  }),
])

/** 403 of POST /token: terms to sign, the owner's tap to wait for, or a refusal. */
const NEGOTIATING = z.union([
  z.object({
    error: z.literal('need_info'),
    ticket: text,
    required_claims: z.array(
      z.object({
        claim_type: text,
        claim_token_format: z.array(text),
        friendly_name: text,
        terms_template: TERMS_TEMPLATE,
      }),
    ),
  }),
  z.object({
    error: z.literal('request_submitted'),
    kind: z.enum(['connection', 'operation']),
    ticket: text,
    interval: z.int().min(0),
  }),
  z.object({
    error: z.enum(['request_denied', 'authorization_pending', 'access_denied']),
    error_description: text,
  }),
])

const INTROSPECTION = z.union([
  z.object({ active: z.literal(false), reason: text, error: text }),
  z.looseObject({
    active: z.literal(true),
    iss: text,
    sub: text,
    client_id: text,
    aud: text,
    exp: seconds,
    iat: seconds,
    owner: text,
    family: text,
    permissions: z.array(
      z.object({
        resource_id: text,
        resource_scopes: z.array(text),
        exp: seconds,
        nbf: seconds.optional(),
      }),
    ),
    cnf: z.object({ jwk: anything }),
    contract: text,
    single_use: z.boolean(),
    operation: z.object({ tool: text, params_s256: text }).optional(),
    consequence: text.optional(),
  }),
])

const CONSUMPTION = z.union([
  z.object({ consumed: z.literal(true), family: text }),
  z.object({ consumed: z.literal(false), error: text }),
])

const DISCOVERY: Described[] = [
  ...(
    [
      ['/.well-known/agents-configuration', ['get-agents-configuration']],
      ['/.well-known/uma2-configuration', { addedUnder: 'Authorization server metadata members' }],
    ] as const
  ).map(([path, rows]) => ({
    method: 'get' as const,
    path,
    rows,
    summary: 'Authorization server metadata',
    answers: { 200: { says: 'The metadata.', schema: z.looseObject({ issuer: text, jwks_uri: text }) } },
  })),
  {
    method: 'get',
    path: '/jwks',
    rows: ['get-jwks'],
    summary: 'Signing keys for RPTs, receipts and PATs',
    answers: { 200: { says: 'A JWK set.', schema: z.object({ keys: z.array(anything) }) } },
  },
  {
    method: 'get',
    path: '/terms',
    rows: ['get-terms'],
    summary: "The owner's roster of terms",
    query: ROSTER_QUERY,
    answers: {
      200: {
        says: 'Her terms that stand.',
        schema: z.looseObject({ owner: text, proffered_by: text, terms: z.array(anything) }),
      },
    },
  },
  {
    method: 'get',
    path: '/terms/{owner}/{tier}/{version}',
    rows: ['get-terms-document'],
    summary: 'One version of the terms: JSON, HTML or JSON-LD with ODRL',
    query: TERMS_QUERY,
    answers: {
      200: { says: 'The document, in the representation asked for.' },
      304: { says: 'The caller has it already (If-None-Match).' },
    },
  },
]

const PROTECTION: Described[] = [
  {
    method: 'post',
    path: '/token',
    rows: ['token-uma-ticket', 'token-client-credentials'],
    summary: 'The uma-ticket grant (agents) and client_credentials (resource servers)',
    body: { schema: TOKEN_REQUEST, form: true },
    answers: {
      200: { says: 'A grant with its receipt, or a PAT.', schema: TOKEN_ANSWER },
      403: { says: 'Terms to sign, a decision to wait for, or a refusal.', schema: NEGOTIATING },
    },
  },
  {
    method: 'post',
    path: '/perm',
    rows: ['post-perm'],
    summary: 'A ticket for the permissions a refused call needed',
    credential: pat,
    body: { schema: PERM_REQUEST },
    answers: { 201: { says: 'The ticket.', schema: z.object({ ticket: text }) } },
  },
  {
    method: 'post',
    path: '/introspect',
    rows: ['post-introspect'],
    summary: 'Whether a grant is live (RFC 7662); never consumes',
    credential: pat,
    body: { schema: TOKEN_QUERY, form: true },
    answers: { 200: { says: 'Live with its permissions, or why not.', schema: INTROSPECTION } },
  },
  {
    method: 'post',
    path: '/consume',
    rows: ['post-consume'],
    summary: 'Spends a single-use grant; atomic',
    credential: pat,
    body: { schema: TOKEN_QUERY, form: true },
    answers: { 200: { says: 'Spent by this call, or why not.', schema: CONSUMPTION } },
  },
  {
    method: 'post',
    path: '/audit/access',
    rows: ['post-audit-access'],
    summary: 'Reports allowed calls; idempotent by id',
    credential: pat,
    body: { schema: REPORT },
    answers: {
      200: {
        says: 'How many were newly recorded.',
        schema: z.object({
          recorded: z.int().min(0),
          error: text.optional(),
          unknown: z.array(text).optional(),
        }),
      },
    },
  },
]

/** Of the public listener. */
export const PUBLIC_OPERATIONS: readonly Described[] = [...DISCOVERY, ...PROTECTION]
