/**
 * Owns how often one source may do something that costs us work. Contract: "Limits" (rate limits are ours to
 * choose): token buckets.
 */
import { BoundedMap } from './bounded-map.ts'

export interface RateSharesOptions {
  /** How many tokens a source has at most, and how many it regains steadily in a minute. */
  perMinute: number
  /** How many sources are remembered; the one that was not seen for the longest time is forgotten first. */
  sourcesMax: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface RateShares {
  /** Seconds until the source has one left; 0 means now. Takes nothing. */
  wait(source: string): number
  /**
   * Takes one if one is left, and returns 0; otherwise takes nothing, and returns the seconds until there is
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
      // A refused source counts as seen, too, so that it is not forgotten before quiet ones.
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
