/**
 * Every endpoint of the authorization server and what it answers, for the OpenAPI document. Request schemas
 * are the ones that validate. Contract: "Endpoints".
 */
import { z } from 'zod'
import { REPORT } from './protection/audit.ts'
import type { Operation } from './openapi.ts'
import { PERM_REQUEST, TOKEN_QUERY } from './protection/protection.ts'
import { OWNER_OPERATIONS } from './owner/operations.ts'
import { REGISTRATION } from './protection/registration.ts'
import { ROSTER_QUERY, TERMS_QUERY } from '../surface/terms.ts'
import { TOKEN_REQUEST } from './negotiation/token-request.ts'

const text = z.string()
const seconds = z.int()
const anything = z.looseObject({})
const publicly = { listener: 'public' } as const

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

const DISCOVERY: Operation[] = [
  ...['/.well-known/agents-configuration', '/.well-known/uma2-configuration'].map(path => ({
    ...publicly,
    method: 'get' as const,
    path,
    summary: 'Authorization server metadata',
    answers: { 200: { says: 'The metadata.', schema: z.looseObject({ issuer: text, jwks_uri: text }) } },
  })),
  {
    ...publicly,
    method: 'get',
    path: '/jwks',
    summary: 'Signing keys for RPTs, receipts and PATs',
    answers: { 200: { says: 'A JWK set.', schema: z.object({ keys: z.array(anything) }) } },
  },
  {
    ...publicly,
    method: 'get',
    path: '/terms',
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
    ...publicly,
    method: 'get',
    path: '/terms/{owner}/{tier}/{version}',
    summary: 'One version of the terms: JSON, HTML or JSON-LD with ODRL',
    query: TERMS_QUERY,
    answers: {
      200: { says: 'The document, in the representation asked for.' },
      304: { says: 'The caller has it already (If-None-Match).' },
    },
  },
  {
    ...publicly,
    method: 'get',
    path: '/health/registry',
    summary: 'Whether the registry has landed; never a readiness probe',
    answers: {
      200: {
        says: 'Whether every active resource server has landed, and how the last pulls went.',
        schema: z.object({
          landed: z.boolean(),
          resource_servers: z.int().min(0),
          waiting: z.int().min(0),
          sources: z.array(
            z.object({
              state: z.enum(['landed', 'failed', 'waiting']),
              reason: text.optional(),
              count: z.int().min(1),
              at: text.optional(),
            }),
          ),
        }),
      },
    },
  },
]

const ESTABLISHMENT: Operation[] = [
  {
    ...publicly,
    method: 'post',
    path: '/rs/register',
    summary: 'A resource server asks to serve an owner; she decides',
    auth: 'signature',
    body: { schema: REGISTRATION },
    answers: {
      200: {
        says: 'She has approved it before.',
        schema: z.object({ client_id: text, status: z.literal('active') }),
      },
      202: {
        says: 'It waits for her.',
        schema: z.object({ client_id: text, status: z.literal('pending') }),
      },
    },
  },
]

const PROTECTION: Operation[] = [
  {
    ...publicly,
    method: 'post',
    path: '/token',
    summary: 'The uma-ticket grant (agents) and client_credentials (resource servers)',
    body: { schema: TOKEN_REQUEST, form: true },
    answers: {
      200: { says: 'A grant with its receipt, or a PAT.', schema: TOKEN_ANSWER },
      403: { says: 'Terms to sign, a decision to wait for, or a refusal.', schema: NEGOTIATING },
    },
  },
  {
    ...publicly,
    method: 'post',
    path: '/perm',
    summary: 'A ticket for the permissions a refused call needed',
    auth: 'pat',
    body: { schema: PERM_REQUEST },
    answers: { 201: { says: 'The ticket.', schema: z.object({ ticket: text }) } },
  },
  {
    ...publicly,
    method: 'post',
    path: '/introspect',
    summary: 'Whether a grant is live (RFC 7662); never consumes',
    auth: 'pat',
    body: { schema: TOKEN_QUERY, form: true },
    answers: { 200: { says: 'Live with its permissions, or why not.', schema: INTROSPECTION } },
  },
  {
    ...publicly,
    method: 'post',
    path: '/consume',
    summary: 'Spends a single-use grant; atomic',
    auth: 'pat',
    body: { schema: TOKEN_QUERY, form: true },
    answers: { 200: { says: 'Spent by this call, or why not.', schema: CONSUMPTION } },
  },
  {
    ...publicly,
    method: 'post',
    path: '/audit/access',
    summary: 'Reports allowed calls; idempotent by id',
    auth: 'pat',
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

const HEALTH: Operation[] = (['public', 'owner'] as const).flatMap(listener =>
  [
    { path: '/health', summary: 'Local liveness', schema: z.object({ status: z.enum(['ok', 'draining']) }) },
    {
      path: '/ready',
      summary: 'Whether requests should come to this replica; 503 with the reason where not',
      schema: z.object({ status: z.literal('ready') }),
    },
    { path: '/openapi.json', summary: 'This document', schema: anything },
  ].map(({ path, summary, schema }) => ({
    listener,
    method: 'get' as const,
    path,
    summary,
    answers: { 200: { says: summary, schema } },
  })),
)

/** All of them, both listeners. */
export const OPERATIONS: readonly Operation[] = [
  ...DISCOVERY,
  ...ESTABLISHMENT,
  ...PROTECTION,
  ...HEALTH,
  ...OWNER_OPERATIONS,
]
