/**
 * Owns how many challenges one source may cause. contract, "Limits" (rate limits are ours to choose): strangers can cause any number of
 * them, and each asks the owner's authority for a ticket.
 */
import { isIP } from 'node:net'
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
  if (trustedHops === 0) return network(call.peer)
  const hops = (call.headers.get('x-forwarded-for') ?? [])
    .flatMap(line => line.split(','))
    .map(hop => hop.trim())
  const seen = hops.at(-trustedHops)
  return seen !== undefined && isIP(seen) !== 0 ? network(seen) : network(call.peer)
}

function network(address: string): string {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = address.toLowerCase().split('%', 1)[0]!.split('::')
  const groups = head === '' ? [] : head.split(':')
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length)
  const first = [
    ...groups,
    ...Array<string>(Math.max(0, missing)).fill('0'),
    ...(tail ?? '').split(':'),
  ].slice(0, 4)
  return `${first.map(group => group.replace(/^0+(?=.)/, '')).join(':')}::/64`
}
