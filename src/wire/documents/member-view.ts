/**
 * Owns the document in which an organization describes itself to one member: for the organization that writes
 * it, for her server that reads and shows it, and for the descriptions of both. Contract: "The organization's
 * authority" (preview, join, envelope).
 */
import { z } from 'zod'
import { PERIODS } from '../allowance-words.ts'
import { DECIMAL } from '../decimal.ts'
import { CHARTER_LIST_MAX, DELEGATIONS, VIEW_SENTENCES_MAX, VIEW_TEXT_MAX } from '../organization/charter.ts'

/** Accepts only what could be in a charter, because it is shown to people. */
const text = z
  .string()
  .max(VIEW_TEXT_MAX)
  .regex(/^[^\p{Cc}\p{Cs}]+$/u)
const texts = z.array(text).max(VIEW_SENTENCES_MAX)
/** No more than a charter can hold, because each is compared with each. */
const patterns = z.array(text).max(CHARTER_LIST_MAX)
/**
 * How much one allowance of hers may let through there. An entry with a further member is none: nobody here
 * knows how it bounds.
 */
export const ALLOWANCE_CEILING = z
  .strictObject({ unit: text, per: z.enum(PERIODS), max: z.string().regex(DECIMAL) })
  .meta({ examples: [{ unit: 'EUR', per: 'day', max: '200' }] })
/** Each is one thing that joining brings about. */
const powers = z.array(z.object({ what: text, detail: text })).max(VIEW_SENTENCES_MAX)

/** Members that are not named here are dropped when a view is read. */
export const MEMBER_VIEW = z
  .object({
    org: text,
    name: text,
    issuer: text,
    /** Every change for her increments it; the highest seen is in force. */
    view: z.int(),
    charter_version: z.int(),
    published_at: text,
    charter_name: text,
    claims: patterns,
    /** The provider that vouches for her, and its name for her; null means none. */
    identity_provider: z.object({ issuer: text, subject: text.nullable() }).nullable(),
    max_expires_in: z.int(),
    allowed_scopes: texts.nullable(),
    require_prohibited: texts,
    always_ask: patterns,
    require_clearance: z.record(text, texts),
    /** Left out: the organization bounds no allowance. */
    max_allowance: z.array(ALLOWANCE_CEILING).max(CHARTER_LIST_MAX).exactOptional(),
    break_glass: z.object({
      enabled: z.boolean(),
      resources: patterns,
      max_expires_in: z.int(),
      require_reason: z.boolean(),
      invokers: patterns,
    }),
    summary: texts,
    powers: z.object({ gets: powers, can: powers, cannot: powers }),
    role: text.nullable(),
    role_name: text.nullable(),
    grants: patterns,
    delegation: z.enum(DELEGATIONS),
    /** The digest of what she agrees to. */
    binds_s256: text,
  })
  .meta({ id: 'MemberView' })

export type MemberView = z.output<typeof MEMBER_VIEW>
