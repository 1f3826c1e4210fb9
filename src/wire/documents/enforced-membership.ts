/**
 * Owns what an organization tells an enforcement point about an owner, for the organization that writes and
 * describes it and for the sidecar that reads it. Contract: "The organization's authority"
 * (`/membership/{owner}`: governed here, what is shared, the ceiling): never her group, and no free text.
 */
import { z } from 'zod'
import { DELEGATIONS } from '../organization/charter.ts'
import { refuse } from '../refusal.ts'

/** The intersection of two charters may need as many patterns as both have together. */
const patterns = z.array(z.string().min(1)).max(1_000)
const text = z.string().min(1).max(8_192)
const count = z.int().min(0)
const time = text.refine(one => !Number.isNaN(Date.parse(one)), 'give a time')

/**
 * For a member: since when (ISO 8601), at which authorization server, the number of her view, and the
 * ceiling, with patterns of resource ids; `allowed_scopes` null means any. For another owner: what is claimed
 * of her resources.
 */
export const MEMBERSHIP_ANSWER = z.union([
  z.object({
    member: z.literal(true),
    since: time,
    as_uri: text,
    view: count,
    charter_version: count,
    claims: patterns,
    grants: patterns,
    delegation: z.enum(DELEGATIONS),
    max_expires_in: count,
    allowed_scopes: patterns.nullable(),
    always_ask: patterns,
    break_glass: z.object({ enabled: z.boolean(), resources: patterns, max_expires_in: count }),
  }),
  z.object({ member: z.literal(false), claims: patterns }),
])

export type EnforcedMembership = z.output<typeof MEMBERSHIP_ANSWER>

/** Reads an answer; refuses (`invalid_request`) every other form. */
export function parseEnforcedMembership(value: unknown): EnforcedMembership {
  const read = MEMBERSHIP_ANSWER.safeParse(value)
  return read.success
    ? read.data
    : refuse('invalid_request', `Give a membership: ${z.prettifyError(read.error)}`)
}
