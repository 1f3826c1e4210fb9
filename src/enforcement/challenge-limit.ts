/**
 * Owns how often one source may cause useless requests to an authority. Contract: "Limits" (rate limits are
 * ours to choose): strangers can cause any number of challenges, and invent any number of tokens. Each of
 * these makes a request to the owner's authority, for a ticket or about the token.
 */
import { forwardedAddress, peerNetwork } from '../http/peer-network.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { createRateShares } from '../limits/rate-shares.ts'
import { sha256Text } from '../wire/encoding.ts'
import type { Call } from './call.ts'

export interface ChallengeLimitOptions {
  perMinute: number
  /**
   * How many sources are remembered; the one that was not seen for the longest time is forgotten first.
   * 10,000 if left out.
   */
  sourcesMax?: number
  /** How many tokens are remembered as seen active; the oldest is forgotten first. 10,000 if left out. */
  tokensMax?: number
  /** Milliseconds since the epoch. */
  clock: () => number
}

export interface ChallengeLimit {
  /**
   * Takes one challenge from a source's share. Returns 0 if there was one, otherwise the seconds until there
   * is.
   */
  take(source: string): number
  /**
   * Like `take`, for a token that is about to be introspected. A token that was seen active for that resource
   * takes nothing.
   */
  takeFor(use: TokenUse, source: string): TokenCharge
}

/**
 * A token, and the resource that it is used at. An agent that one owner knows is a stranger to another owner,
 * because another authority is asked there.
 */
export interface TokenUse {
  token: string
  /** The RFC 9728 resource value of the route. */
  resource: string
}

export interface TokenCharge {
  waitSeconds: number
  /**
   * Takes note of the authority's answer. An active token gives back what it took, and takes nothing from now
   * on.
   */
  note(active: boolean): void
}

/**
 * A share of `perMinute` per source that refills steadily. It keeps only hashes of tokens, and does not say
 * whether a token is live: every use is introspected.
 */
export function createChallengeLimit({
  tokensMax = 10_000,
  ...options
}: ChallengeLimitOptions): ChallengeLimit {
  const shares = createRateShares({ sourcesMax: 10_000, ...options })
  const activeTokens = new BoundedMap<string, true>(tokensMax)
  const nameOf = ({ token, resource }: TokenUse): string => `${sha256Text(token)} ${resource}`
  return {
    take: source => shares.take(source),
    takeFor: (use, source) => {
      const name = nameOf(use)
      const exempt = activeTokens.has(name)
      const note = (active: boolean): void => {
        if (!active) return void activeTokens.delete(name)
        if (!exempt) shares.give(source)
        activeTokens.set(name, true)
      }
      return { waitSeconds: exempt ? 0 : shares.take(source), note }
    },
  }
}

/**
 * The source that a call's challenges are counted against: the proxy's peer, or, with `trustedHops` proxies
 * in front of it, the address that the outermost of them saw. An IPv6 source is its /64, because one
 * subscriber has a whole /64.
 */
export function sourceOf(call: Pick<Call, 'peer' | 'headers'>, trustedHops: number): string {
  const lines = call.headers.get('x-forwarded-for') ?? []
  const { peer } = call
  const address = trustedHops === 0 ? undefined : forwardedAddress(lines, { hops: trustedHops, peer })
  return peerNetwork(address ?? peer)
}
