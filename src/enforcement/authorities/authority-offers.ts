/**
 * Owns what an authority says that it offers beside the contract. Contract: "Authorization server metadata
 * members"; docs/choices.md. Nobody waits for it: what is not known is not used.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { isJsonObject } from '../../wire/json.ts'
import { LEASE_OFFER } from '../../wire/resources/leases.ts'
import { parseAuthorizationServerMetadata } from '../../wire/resources/authorization-server-metadata.ts'
import { WELL_KNOWN } from '../../wire/names.ts'

export interface AuthorityOffers {
  /** How many tokens one request to /introspect may name, as far as is known now; 1: the contract's one. */
  introspectionTokensMax(authority: string): number
  /** The same of /consume. */
  consumeTokensMax(authority: string): number
  /**
   * For how long an answer about a grant may be used again, at most, in milliseconds; 0: it offers no leases;
   * undefined: that is not known yet.
   */
  introspectionLeaseMs(authority: string): number | undefined
  /** An authority did otherwise than it offers: nothing more is made of the offer until it is read again. */
  disappointed(authority: string): void
}

interface AuthorityOffer {
  tokensMax: { introspect: number; consume: number }
  /** Undefined until it is read. */
  leaseMs: number | undefined
  readAgainAt: number
}

const OFFER_AGE_MS = 300_000
/** This is longer than its answer takes, so that it is read once at a time. */
const OFFER_RETRY_MS = 30_000
const AUTHORITIES_MAX = 1_000
const ONE_BY_ONE = { introspect: 1, consume: 1 }

/** Reads the metadata of an authority when it is first asked about, and every five minutes while it is. */
export function createAuthorityOffers({
  outbound,
  clock,
}: {
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
}): AuthorityOffers {
  const offers = new BoundedMap<string, AuthorityOffer>(AUTHORITIES_MAX)
  const read = async (authority: string): Promise<void> => {
    const json = await outbound.getJson(authority + WELL_KNOWN.agentsConfiguration)
    parseAuthorizationServerMetadata(json, authority)
    const tokensMax = {
      introspect: Math.max(1, wholeOf(json, 'introspection_tokens_max') ?? 1),
      consume: Math.max(1, wholeOf(json, 'consume_tokens_max') ?? 1),
    }
    const leaseMs = Math.max(0, wholeOf(json, LEASE_OFFER) ?? 0)
    offers.set(authority, { tokensMax, leaseMs, readAgainAt: clock() + OFFER_AGE_MS })
  }
  /** The offer as it is known now. Reads it again, beside the call, if it was read long ago. */
  const current = (authority: string): AuthorityOffer => {
    const known = offers.get(authority)
    const now = clock()
    if (known !== undefined && now < known.readAgainAt) return known
    const { tokensMax = ONE_BY_ONE, leaseMs } = known ?? {}
    const old = { tokensMax, leaseMs, readAgainAt: now + OFFER_RETRY_MS }
    offers.set(authority, old)
    read(authority).catch(() => undefined)
    return old
  }
  return {
    introspectionTokensMax: authority => current(authority).tokensMax.introspect,
    consumeTokensMax: authority => current(authority).tokensMax.consume,
    introspectionLeaseMs: authority => current(authority).leaseMs,
    disappointed: authority => {
      const leaseMs = offers.get(authority)?.leaseMs
      offers.set(authority, { tokensMax: ONE_BY_ONE, leaseMs, readAgainAt: clock() + OFFER_RETRY_MS })
    },
  }
}

/** A member that is a whole number; undefined if it is none. */
function wholeOf(json: unknown, name: string): number | undefined {
  const value = isJsonObject(json) ? json[name] : undefined
  return Number.isSafeInteger(value) ? Number(value) : undefined
}
