/**
 * Owns how long a grant within an allowance may live: what is taken in a window is spent in it or not at all.
 * Contract: "Policy vocabulary and tiers", "RPT claims" (`exp`).
 */
import type { AllowancePeriod, OwnerAllowance } from '../../wire/documents/allowance.ts'

/** A window, and when the next one begins, in seconds since the epoch; null if none does. */
interface EndingWindow {
  readonly per: AllowancePeriod
  readonly endsAt: number | null
}

/**
 * The latest end of a grant that is issued at `now`, in whole seconds since the epoch; undefined if no whole
 * second is left before it. Only a window of the whole life of an allowance has no end: no other window is
 * taken to have none.
 */
export function latestExpiry(
  { hold_s, until }: Pick<OwnerAllowance, 'hold_s' | 'until'>,
  windows: readonly EndingWindow[],
  now: number,
): number | undefined {
  const ends = windows.map(({ per, endsAt }) => endsAt ?? (per === 'all' ? Infinity : -Infinity))
  const over = until === null ? Infinity : Date.parse(until) / 1_000
  const latest = Math.floor(Math.min(now + hold_s, over, ...ends))
  return latest >= now + 1 ? latest : undefined
}
