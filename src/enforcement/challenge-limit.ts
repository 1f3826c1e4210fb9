/**
 * Owns how often one source may have an authority asked for nothing. Contract: "Limits" (rate limits are ours
 * to choose): strangers can cause any number of challenges, and invent any number of tokens; each asks the
 * owner's authority for a ticket, or about the token.
 */
import { forwardedAddress, peerNetwork } from '../http/peer-network.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { createRateShares } from '../limits/rate-shares.ts'
import { sha256 } from '../wire/encoding.ts'
import type { Call } from './call.ts'

export interface ChallengeLimitOptions {
  perMinute: number
  /** Sources remembered; the one longest unseen is forgotten first. 10,000 when left out. */
  sourcesMax?: number
  /** Tokens remembered as seen active, likewise. 10,000 when left out. */
  tokensMax?: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface ChallengeLimit {
  /** Takes one challenge from a source's share: 0 when there was one, else the seconds until there is. */
  take(source: string): number
  /**
   * As `take`, for a token that is about to be introspected. One that was seen active for that resource takes
   * nothing.
   */
  takeFor(use: TokenUse, source: string): TakenFor
}

/**
 * A token, and the resource that it is used at: whoever is known to one owner is a stranger to another, whose
 * authority is asked there.
 */
export interface TokenUse {
  token: string
  /** The RFC 9728 resource value of the route. */
  resource: string
}

export interface TakenFor {
  waitSeconds: number
  /**
   * To be told what the authority said of it. A token that is active gives back what it took, and takes
   * nothing from now on.
   */
  told(active: boolean): void
}

/**
 * A share of `perMinute` per source that refills steadily. Of tokens it keeps hashes alone, and says nothing
 * of whether one is live: every use is introspected.
 */
export function createChallengeLimit({
  tokensMax = 10_000,
  ...options
}: ChallengeLimitOptions): ChallengeLimit {
  const shares = createRateShares({ sourcesMax: 10_000, ...options })
  const seenActive = new BoundedMap<string, true>(tokensMax)
  const nameOf = ({ token, resource }: TokenUse): string => `${sha256(token).toString('base64')} ${resource}`
  return {
    take: source => shares.take(source),
    takeFor: (use, source) => {
      const name = nameOf(use)
      const exempt = seenActive.has(name)
      const told = (active: boolean): void => {
        if (!active) return void seenActive.delete(name)
        if (!exempt) shares.give(source)
        seenActive.set(name, true)
      }
      return { waitSeconds: exempt ? 0 : shares.take(source), told }
    },
  }
}

/**
 * Whom a call's challenges are counted against: the proxy's peer, or with `trustedHops` proxies in front of
 * it the address that the outermost of them saw. An IPv6 source is its /64, as one subscriber has all of
 * that.
 */
export function sourceOf(call: Pick<Call, 'peer' | 'headers'>, trustedHops: number): string {
  const lines = call.headers.get('x-forwarded-for') ?? []
  const seen = trustedHops === 0 ? undefined : forwardedAddress(lines, trustedHops)
  return peerNetwork(seen ?? call.peer)
}
