/**
 * Owns what the sentences of a ledger are made of. Contract: "Events" (row 5).
 */
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'

/** What a sentence needs: `who` is how the owner calls the agent, `"Tax bot"` or `Agent jkt:VWo19Q8H`. */
export interface SentenceParts {
  entry: LedgerEntry
  who: string
  /** The same within a sentence. */
  whom: string
  /** A member as text; `-` if there is none. */
  of: (member: string) => string
  /** The resource as she knows it; `-` if there is none. */
  resource: string
}

/** Who decided. An authority of another version may know others. */
export function decider({ entry: { by, actor } }: SentenceParts): string {
  if (by === undefined || by === 'owner') return 'You'
  const { name, admin } = (actor ?? {}) as { name?: unknown; admin?: unknown }
  if (typeof admin === 'string' && typeof name === 'string') return `${admin} of ${name}`
  if (by === 'organization') return typeof name === 'string' ? name : 'Your organization'
  return by === 'administrator' ? 'An administrator of your organization' : 'Your authority'
}

/** How often it happened, in brackets; empty for once. */
export function timesText({ count }: LedgerEntry): string {
  return typeof count === 'number' && count > 1 ? ` (${count} times)` : ''
}
