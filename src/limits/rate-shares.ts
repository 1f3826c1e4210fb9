/**
 * Owns how often one source may do what costs us something. Contract: "Limits" (rate limits are ours to
 * choose): token buckets.
 */
import { BoundedMap } from './bounded-map.ts'

export interface RateSharesOptions {
  /** What a source has at most, and gets back in a minute, steadily. */
  perMinute: number
  /** Sources remembered; the one longest unseen is forgotten first. */
  sourcesMax: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface RateShares {
  /** Seconds until the source has one left; 0: now. Takes nothing. */
  wait(source: string): number
  /**
   * Takes one where one is left, and answers 0; else takes nothing, and answers the seconds until there is
   * one.
   */
  take(source: string): number
  /** Gives one back that was taken. */
  give(source: string): void
  /** Takes one, or what is left of one. */
  charge(source: string): void
}

/** A share per source. */
export function createRateShares({ perMinute, sourcesMax, clock }: RateSharesOptions): RateShares {
  const shares = new BoundedMap<string, { left: number; at: number }>(sourcesMax)
  const perMs = perMinute / 60_000
  const leftAt = (source: string, now: number): number => {
    const share = shares.get(source)
    return share === undefined ? perMinute : Math.min(perMinute, share.left + (now - share.at) * perMs)
  }
  const secondsUntilOne = (left: number): number =>
    left >= 1 ? 0 : Math.max(1, Math.ceil((1 - left) / perMs / 1_000))
  return {
    wait: source => secondsUntilOne(leftAt(source, clock())),
    take: source => {
      const now = clock()
      const left = leftAt(source, now)
      // One that is refused is seen, too: it is not to be forgotten before those that keep quiet.
      shares.set(source, { left: left >= 1 ? left - 1 : left, at: now })
      return secondsUntilOne(left)
    },
    give: source => {
      const now = clock()
      shares.set(source, { left: Math.min(perMinute, leftAt(source, now) + 1), at: now })
    },
    charge: source => {
      const now = clock()
      shares.set(source, { left: Math.max(0, leftAt(source, now) - 1), at: now })
    },
  }
}
