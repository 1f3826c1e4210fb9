/**
 * Owns how many challenges one source may cause. contract, "Limits" (rate limits are ours to choose): strangers can cause any number of
 * them, and each asks the owner's authority for a ticket.
 */
import { forwardedAddress, peerNetwork } from '../http/peer-network.ts'
import { createRateShares, type RateShares } from '../limits/rate-shares.ts'
import type { Call } from './call.ts'

export interface ChallengeLimitOptions {
  perMinute: number
  /** Sources remembered; the one longest unseen is forgotten first. 10,000 when left out. */
  sourcesMax?: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** `take` takes one challenge from a source's share: 0 when there was one, else the seconds until there is. */
export type ChallengeLimit = Pick<RateShares, 'take'>

/** A share of `perMinute` per source that refills steadily. */
export function createChallengeLimit(options: ChallengeLimitOptions): ChallengeLimit {
  return createRateShares({ sourcesMax: 10_000, ...options })
}

/**
 * Whom a call's challenges are counted against: the proxy's peer, or with `trustedHops` proxies in front of it the address that
 * the outermost of them saw. An IPv6 source is its /64, as one subscriber has all of that.
 */
export function sourceOf(call: Pick<Call, 'peer' | 'headers'>, trustedHops: number): string {
  const lines = call.headers.get('x-forwarded-for') ?? []
  const seen = trustedHops === 0 ? undefined : forwardedAddress(lines, trustedHops)
  return peerNetwork(seen ?? call.peer)
}
