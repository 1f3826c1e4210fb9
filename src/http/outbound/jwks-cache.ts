/**
 * Owns keys published by others, kept for a while. Contract: "Authentication": signatures are verified
 * against published keys; an unknown kid causes one more fetch, at a limited rate, because it may be a key
 * that was just rotated in.
 */
import { BoundedMap } from '../../limits/bounded-map.ts'
import { keyNamed, parseJwks, type KeyImportOptions, type PublishedKey } from '../../wire/signatures/keys.ts'
import type { Outbound } from './outbound.ts'

export interface JwksCacheOptions extends KeyImportOptions {
  outbound: Outbound
  /** Milliseconds since the epoch. */
  clock: () => number
  /** How long a fetched set is used; 300 if left out. */
  keepSeconds?: number
  /** How long a failed fetch is remembered; 5 if left out. */
  failureSeconds?: number
  /** The least time between two fetches of a set because of unknown kids; 30 if left out. */
  refetchSeconds?: number
}

export interface JwksCache {
  /** The keys at a URL. Throws what the fetch or the parsing threw. */
  keys(url: string): Promise<PublishedKey[]>
  /** The key published under `kid` (or whose thumbprint it is); one refetch, rate-limited, if none is. */
  find(url: string, kid: string): Promise<PublishedKey | undefined>
  /** Fetches the keys anew; until they are there, callers get those that were there before. */
  refresh(url: string): Promise<void>
  /** Until when the keys from a URL are used, in milliseconds since the epoch; 0 if they are not cached. */
  freshUntil(url: string): number
}

interface KeySetEntry {
  keys: Promise<PublishedKey[]>
  fetchedAt: number
  freshUntil: number
}

const ENTRIES_MAX = 1_000

/** A cache that fetches each URL at most once at a time, and forgets the oldest of 1,000. */
export function createJwksCache(options: JwksCacheOptions): JwksCache {
  const entries = new BoundedMap<string, KeySetEntry>(ENTRIES_MAX)
  const refetchMs = (options.refetchSeconds ?? 30) * 1000

  const entryOf = (url: string): KeySetEntry => {
    const now = options.clock()
    const keys = options.outbound.getJson(url).then(json => parseJwks(json, options))
    return { keys, fetchedAt: now, freshUntil: now + (options.keepSeconds ?? 300) * 1000 }
  }
  const fetchKeys = (url: string): KeySetEntry => {
    const previous = entries.get(url)
    const entry = entryOf(url)
    entry.keys.catch(() => {
      const stillGood = previous !== undefined && options.clock() < previous.freshUntil
      if (stillGood && entries.get(url) === entry)
        entries.set(url, { ...previous, fetchedAt: entry.fetchedAt })
      entry.freshUntil = Math.min(entry.freshUntil, options.clock() + (options.failureSeconds ?? 5) * 1000)
    })
    entries.set(url, entry)
    return entry
  }
  const current = (url: string): KeySetEntry => {
    const known = entries.get(url)
    return known !== undefined && options.clock() < known.freshUntil ? known : fetchKeys(url)
  }
  return {
    keys: url => current(url).keys,
    find: async (url, kid) => {
      const entry = current(url)
      const found = keyNamed(await entry.keys, kid)
      if (found !== undefined) return found
      const newest = current(url) // another caller may have fetched it meanwhile
      if (newest !== entry) return keyNamed(await newest.keys, kid)
      return options.clock() - entry.fetchedAt < refetchMs
        ? undefined
        : keyNamed(await fetchKeys(url).keys, kid)
    },
    refresh: async url => {
      const before = entries.get(url)
      if (before === undefined || options.clock() >= before.freshUntil)
        return void (await fetchKeys(url).keys)
      const fetched = entryOf(url)
      await fetched.keys
      // What another caller fetched meanwhile, for a kid that it missed, may be newer.
      if (entries.get(url) === before) entries.set(url, fetched)
    },
    freshUntil: url => entries.get(url)?.freshUntil ?? 0,
  }
}
