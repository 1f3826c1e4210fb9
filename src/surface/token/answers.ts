/**
 * The answers of the token endpoint as values: `need_info` and `request_submitted` are answers, never thrown.
 * Contract: "Token endpoint", "Errors".
 */
import { z } from 'zod'

const text = z.string()
const seconds = z.int()

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
export const TOKEN_ANSWER = z.union([
  z.object({ access_token: text, token_type: z.literal('PoP'), expires_in: seconds, receipt: text }),
  z.object({
    access_token: text,
    token_type: z.literal('Bearer'),
    expires_in: seconds,
    scope: z.literal('uma_protection'),
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

export interface Answer {
  status: number
  body: object
}

/**
 * A refusal of the negotiation, with a sentence for the agent's developer. 429 where the party has no room
 * for it now.
 */
export function denied(description: string, status: 403 | 429 = 403): Answer {
  return { status, body: { error: 'request_denied', error_description: description } }
}
