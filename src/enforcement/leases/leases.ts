/**
 * Owns the leases of one enforcement point (`liveness: leased`): how many it holds, and what is said of them.
 * Contract: "Introspection and consume answers" (leases, docs/choices.md, ADR 0021).
 */
import type { Logger } from '../../http/telemetry/log.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { AuthorityOffers } from '../authorities/authority-offers.ts'
import type { LeaseDoor } from '../authorities/lease-calls.ts'
import { createLeaseHolder, type LeaseHolder, type LeaseObserver } from './holder.ts'
import type { LeaseClocks } from './leased-answers.ts'

export interface Leases {
  /** A holder for one owner at her authority. */
  of(about: { owner: Owner; authority: string }, door: LeaseDoor): LeaseHolder
  /** Ends them all. */
  close(): Promise<void>
}

export interface LeasesOptions {
  clocks: LeaseClocks
  offers: Pick<AuthorityOffers, 'introspectionLeaseMs'>
  logger: Pick<Logger, 'info' | 'warn'>
  metrics: Pick<LeaseObserver, 'judged' | 'registered' | 'ended' | 'invalidated'>
}

/** Each lease has a connection of its own. For further owners, the authority is asked about each call. */
const HELD_MAX = 1_000

/** Holds none yet. */
export function createLeases({ clocks, offers, logger, metrics }: LeasesOptions): Leases {
  /** Those that take a place: a holder that was made for a route and never used is kept by nobody. */
  const holders = new Set<LeaseHolder>()
  const withoutOffer = new Set<string>()
  let isClosed = false
  const takePlace = (holder: LeaseHolder): (() => void) | undefined => {
    if (isClosed || holders.size >= HELD_MAX) return undefined
    holders.add(holder)
    return () => void holders.delete(holder)
  }
  const isOffered = (authority: string): boolean => {
    const leaseMs = offers.introspectionLeaseMs(authority)
    if (leaseMs === 0 && !withoutOffer.has(authority)) {
      withoutOffer.add(authority)
      logger.warn({ authority }, 'the authority offers no leases: it is asked about every call')
    }
    return leaseMs !== undefined && leaseMs > 0
  }
  return {
    of: (about, door) => {
      const observer = { ...metrics, ...announcerOf(about, logger, metrics) }
      const holder: LeaseHolder = createLeaseHolder({
        door,
        clocks,
        isOffered: () => isOffered(about.authority),
        takePlace: () => takePlace(holder),
        observer,
      })
      return holder
    },
    close: async () => {
      isClosed = true
      await Promise.all([...holders].map(holder => holder.stop()))
    },
  }
}

/** One line when there is no lease to be had, and one when there is again. */
function announcerOf(
  about: object,
  logger: LeasesOptions['logger'],
  metrics: LeasesOptions['metrics'],
): Pick<LeaseObserver, 'registered' | 'failed'> {
  let hasFault = false
  return {
    registered: () => {
      metrics.registered()
      if (hasFault) logger.info(about, 'a lease is held again')
      hasFault = false
    },
    failed: why => {
      if (!hasFault)
        logger.warn({ ...about, why }, 'no lease is to be had: the authority is asked about every call')
      hasFault = true
    },
  }
}
