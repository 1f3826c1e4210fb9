/**
 * Owns what a holder's authorization server answers to a tally: her terms over one resource, and the state of
 * her verdict. Contract: "Tally for a jointly held resource" (`/joint/quote`, `/joint/verdict`). The requests
 * and the signed verdict are joint/verdict.ts.
 */
import { z } from 'zod'
import type { Family, Owner } from '../identifiers.ts'
import { isCompact } from '../json-members.ts'
import { refuse } from '../refusal.ts'

/** Why she offers or allows nothing. Her rules, her record and what is attested about her stay with her. */
export const WITHHELD = [
  'not_agreed',
  'mandate_changed',
  'no_tier',
  'terms',
  'operator',
  'clearance',
  'policy',
  'denied',
  'expired',
] as const
export type Withheld = (typeof WITHHELD)[number]

const text = z.string().min(1).max(8_192)
const texts = z.array(text).max(256)
/** Described as text, and to the compiler the name that it is. */
const named: z.ZodType<string> = text
const owner = named as z.ZodType<Owner>

/** Her terms over the one resource in question; `expires_in` in seconds. */
export const QUOTE = z.union([
  z.object({ owner, tier: z.null(), because: z.enum(WITHHELD) }),
  z.object({
    owner,
    tier_id: text,
    tier: z.object({
      name: text,
      resources: texts,
      ask_me: z.boolean(),
      terms: z.object({
        expires_in: z.int().min(1),
        scope: texts,
        prohibited: texts,
        per_operation: z.boolean(),
      }),
    }),
  }),
])
export type Quote = z.output<typeof QUOTE>

/**
 * A received quote of one holder for one resource; unknown members are dropped. Refuses (`invalid_request`) a
 * quote of another form or holder, or for another resource.
 */
export function parseQuote(value: unknown, of: { owner: Owner; resource_id: string }): Quote {
  const quote = parsed(QUOTE, value)
  if (quote.owner !== of.owner) refuse('invalid_request', 'Quote for the holder who was asked.')
  if (quote.tier === null) return quote
  const [resource, ...more] = quote.tier.resources
  if (resource !== of.resource_id || more.length > 0)
    refuse('invalid_request', 'Quote for the one resource that was asked about.')
  return quote
}

/**
 * The state of a verdict: her signed verdict; or nothing yet, with `ready` if she would allow it at the final
 * question. `family` is the name under which she is asked, and only her own negotiation has it.
 */
export const VERDICT_ANSWER = z.union([
  z.object({ verdict: z.string().refine(isCompact, 'give a compact JWS') }),
  z.object({ pending: z.literal(true), family: named as z.ZodType<Family>, ready: z.boolean() }),
  z.object({ closed: z.literal(true) }),
])
export type VerdictAnswer = z.output<typeof VERDICT_ANSWER>

/**
 * A received answer to a question for a verdict. Refuses (`invalid_request`) any other form. The verdict in
 * it is not verified.
 */
export const parseVerdictAnswer = (value: unknown): VerdictAnswer => parsed(VERDICT_ANSWER, value)

function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const read = schema.safeParse(value)
  return read.success
    ? read.data
    : refuse('invalid_request', `Answer as described: ${z.prettifyError(read.error)}`)
}
