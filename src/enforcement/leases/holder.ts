/**
 * Owns when an enforcement point holds a lease of one owner's authority: from the first use of a standing
 * grant of hers until nobody has used one for a minute. Contract: "Introspection and consume answers"
 * (leases, docs/choices.md, ADR 0021). Without a lease, the authority is asked about each call.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import type { LeaseDoor } from '../authorities/lease-calls.ts'
import type { LiveGrant } from '../introspection.ts'
import { createLeasedAnswers, type LeaseClocks, type CacheQuestion } from './leased-answers.ts'
import { holdLease, type LeaseEnd } from './lease.ts'

export interface LeaseHolder {
  /** The id that questions name; undefined while no lease is held. */
  id(): string | undefined
  /** The grant, if a call that begins now may be judged by what was answered of it. */
  find(token: string): LiveGrant | undefined
  /** Call this before a question is sent. */
  asking(): CacheQuestion
  /** Call this with every answer about a standing grant; `leaseMs` is 0 if it has no lease. */
  answered(question: CacheQuestion, token: string, answer: { grant: LiveGrant; leaseMs: number }): void
  /** Ends the lease, for good: the authority is told that nothing is used any more. */
  stop(): Promise<void>
}

export interface HolderOptions {
  door: LeaseDoor
  clocks: LeaseClocks
  /** Whether the authority offers leases, as far as is known now. */
  isOffered: () => boolean
  /** Takes one of the places for leases, if one is free; what it answers gives the place back. */
  takePlace: () => (() => void) | undefined
  observer: LeaseObserver
}

export interface LeaseObserver {
  /** A call was judged by a kept answer, or the authority was asked about it. */
  judged(by: 'kept' | 'asked'): void
  /** A lease is held, or has ended. */
  registered(): void
  ended(): void
  /** Everything was dropped, because the authority asked for it. */
  invalidated(): void
  /** No lease could be had. */
  failed(why: string): void
}

const LEASE_IDLE_MS = 60_000
/** The time to tell the authority. If it is not told, acts wait for us as for a sidecar that was killed. */
const STOP_TIMEOUT_MS = 1_500
const RETRY_MS = { first: 200, most: 30_000 }
/** A lease that was held for so long does not count as a failure, whatever ended it. */
const STEADY_LEASE_MS = 5_000

/** Asks for nothing until the first answer about a standing grant. */
export function createLeaseHolder(options: HolderOptions): LeaseHolder {
  const { door, clocks, isOffered, takePlace, observer } = options
  const answers = createLeasedAnswers(clocks)
  const stopping = new AbortController()
  // The work beside the calls belongs to no call's trace.
  const outside = AsyncLocalStorage.snapshot()
  let usedAt = -Infinity
  let id: string | undefined
  let session: Promise<void> | undefined

  const isInUse = (): boolean => !stopping.signal.aborted && clocks.forward() - usedAt < LEASE_IDLE_MS
  const hold = async (givePlace: () => void): Promise<void> => {
    let replaces: string | undefined
    let failures = 0
    while (isInUse() && isOffered()) {
      const began = clocks.forward()
      const onLease = (leaseId: string): void => {
        id = leaseId
        observer.registered()
      }
      const ended = await holdLease({
        door,
        answers,
        replaces,
        isInUse,
        onLease,
        onInvalidated: () => observer.invalidated(),
        signal: stopping.signal,
      }).catch(unopened)
      id = undefined
      if (ended.id === undefined) observer.failed(ended.why)
      else observer.ended()
      replaces = ended.id ?? replaces
      failures = ended.id !== undefined && clocks.forward() - began > STEADY_LEASE_MS ? 0 : failures + 1
      if (isInUse()) await pause(failures, stopping.signal)
    }
    session = undefined
    givePlace()
  }

  return {
    id: () => id,
    find: token => {
      const grant = answers.find(token)
      if (grant === undefined) return undefined
      usedAt = clocks.forward()
      observer.judged('kept')
      return grant
    },
    asking: () => answers.asking(),
    answered: (question, token, answer) => {
      usedAt = clocks.forward()
      observer.judged('asked')
      if (answer.leaseMs > 0) answers.keep(question, token, answer)
      if (session !== undefined || stopping.signal.aborted || !isOffered()) return
      const givePlace = takePlace()
      if (givePlace !== undefined) session = outside(() => hold(givePlace))
    },
    stop: async () => {
      stopping.abort()
      if (session !== undefined) await waitAtMost(STOP_TIMEOUT_MS, session)
    },
  }
}

function unopened(error: unknown): LeaseEnd {
  return { id: undefined, why: error instanceof Error ? error.message : String(error) }
}

/** Each pause is random, so that sidecars that lost a replica do not all ask the next one at once. */
async function pause(failures: number, signal: AbortSignal): Promise<void> {
  const most = Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** Math.min(failures, 16))
  await delay(Math.random() * most, undefined, { signal, ref: false }).catch(() => undefined)
}
