/**
 * Owns how often one source may ask what anybody may ask. Contract: "Limits" (rate limits are ours to
 * choose).
 */
import { createRateShares, type RateShares } from '../limits/rate-shares.ts'
import { askLater } from '../wire/refusal.ts'
import { peerNetwork } from './peer-network.ts'

const SOURCES_MAX = 10_000

/** A share for each source. */
export function sourceShares(perMinute: number): RateShares {
  return createRateShares({ perMinute, sourcesMax: SOURCES_MAX, clock: () => Date.now() })
}

/**
 * Takes one of the share of whoever asks from this address; refuses 429 if none is left. `most` is what a
 * share is, as in `60 proofs`.
 */
export function takeShare(shares: Pick<RateShares, 'take'>, ip: string, most: string): void {
  const seconds = shares.take(peerNetwork(ip))
  if (seconds > 0) throw askLater(`Ask again in ${seconds} seconds: at most ${most} a minute.`, seconds)
}
