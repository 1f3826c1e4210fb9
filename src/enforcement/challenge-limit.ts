/**
 * Owns how many challenges one source may cause. contract, "Limits" (rate limits are ours to choose): strangers can cause any number of
 * them, and each asks the owner's authority for a ticket.
 */
import { forwardedAddress, peerNetwork } from '../http/peer-network.ts'
import type { Call } from './call.ts'

export interface ChallengeLimitOptions {
  perMinute: number
  /** Sources remembered; the one longest unseen is forgotten first. 10,000 when left out. */
  sourcesMax?: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface ChallengeLimit {
  /** Takes one challenge from a source's share: 0 when there was one, else the seconds until there is. */
  take(source: string): number
}

interface Share {
  left: number
  at: number
}

/** A share of `perMinute` per source that refills steadily. */
export function createChallengeLimit({
  perMinute,
  sourcesMax = 10_000,
  clock,
}: ChallengeLimitOptions): ChallengeLimit {
  const shares = new Map<string, Share>()
  const perMs = perMinute / 60_000
  return {
    take: source => {
      const now = clock()
      const known = shares.get(source)
      const left =
        known === undefined ? perMinute : Math.min(perMinute, known.left + (now - known.at) * perMs)
      const granted = left >= 1
      shares.delete(source)
      shares.set(source, { left: granted ? left - 1 : left, at: now })
      if (shares.size > sourcesMax) shares.delete(shares.keys().next().value!)
      return granted ? 0 : Math.max(1, Math.ceil((1 - left) / perMs / 1000))
    },
  }
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
