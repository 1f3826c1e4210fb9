/**
 * The answers of the token endpoint as values: `need_info` and `request_submitted` are answers, never thrown.
 * Contract: "Token endpoint", "Errors".
 */
import { z } from 'zod'
import { refuse } from '../../wire/refusal.ts'

const text = z.string()
const seconds = z.int()

const TERMS_TEMPLATE = z
  .object({
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
  .meta({ id: 'TermsTemplate' })

const IDENTITY_PROVIDER = z
  .object({
    issuer: text,
    token_endpoint: text,
    grant_type: text,
    requested_token_type: text,
    subject_token_types_supported: z.array(text),
  })
  .meta({ id: 'IdentityProvider' })

/** 200 of POST /token: a PAT, or a grant with its receipt. */
export const TOKEN_ANSWER = z.union([
  z.object({ access_token: text, token_type: z.literal('PoP'), expires_in: seconds, receipt: text }),
  z.object({
    access_token: text,
    token_type: z.literal('Bearer'),
    expires_in: seconds,
    scope: z.literal('uma_protection'),
    resource_uri: text,
  }),
])

/** 403 of POST /token: terms to sign, the owner's tap to wait for, or a refusal. */
export const NEGOTIATING = z.union([
  z.object({
    error: z.literal('need_info'),
    ticket: text,
    required_claims: z.array(
      z.object({
        claim_type: text,
        claim_token_format: z.array(text),
        friendly_name: text,
        // The first is for terms, the others for an identity assertion.
        terms_template: TERMS_TEMPLATE.optional(),
        identity_provider: IDENTITY_PROVIDER.optional(),
        audience: text.optional(),
        resource: text.optional(),
        scope: text.optional(),
      }),
    ),
  }),
  z.object({
    error: z.literal('request_submitted'),
    kind: z.enum(['connection', 'operation']),
    ticket: text,
    interval: z.int().min(0),
    reason_shown: z
      .literal(false)
      .optional()
      .describe('The request joined one that waits already, and the owner reads the reason of that one.'),
  }),
  z.object({
    error: z.enum(['request_denied', 'authorization_pending', 'access_denied']),
    error_description: text,
    reason: text.optional(),
    owner_reason: text.optional(),
  }),
])

export interface TokenReply {
  status: number
  body: object
}

/** Refuses a ticket that is worth nothing, or no longer anything. Nobody has denied the request. */
export function invalidGrant(): never {
  return refuse(
    'invalid_grant',
    'The ticket is unknown, already presented or expired: make the call again for a fresh challenge.',
  )
}

/**
 * A refusal of the negotiation, with a sentence for the agent's developer and, if there are any, a code for
 * its program and the owner's own words. 429 if the party has no room for it now.
 */
export function denied(
  description: string,
  details: { reason?: string | undefined; ownerReason?: string | undefined; status?: 429 } = {},
): TokenReply {
  const { reason, ownerReason, status = 403 } = details
  const words = {
    ...(reason !== undefined && { reason }),
    ...(ownerReason !== undefined && { owner_reason: ownerReason }),
  }
  return { status, body: { error: 'request_denied', error_description: description, ...words } }
}
