/**
 * Owns the way of allowed calls into the owner's ledger. Contract: "Events", 2: the enforcement point posts
 * `/audit/access` for an allowed call; off the call's path, in batches, each entry numbered so that a repeat
 * is recorded once and a loss is noticed.
 */
import { outage } from '../outage.ts'
import { createDelivery, type DeliveryOptions } from '../reports/delivery.ts'
import type { AccessReport } from '../reports/outbox.ts'
import { createMemoryStore, openFileStore } from '../reports/stores.ts'
import type { AuthorityClient } from './authority-client.ts'

export interface AccessReportsOptions extends Omit<DeliveryOptions, 'onFault'> {
  /**
   * Entries that wait in memory for all owners together; beyond, those of the longest queue are dropped and
   * counted. 10,000 when left out.
   */
  queueMax?: number | undefined
  /**
   * Where they wait in files, and how many bytes of them; left out, they wait in memory and are lost with
   * this process.
   */
  state?: { path: string; bytesMax: number; lifeMs?: number | undefined } | undefined
  /** The clients of all owners served here: what another process left in `state` is sent for these. */
  clients?: readonly AuthorityClient[]
  /** A call was not let through, for its report could not be kept. */
  onUnkept?: () => void
  /** What another process left cannot be sent from here, and why. */
  onLeft?: (path: string, why: string) => void
  onFault?: (error: unknown) => void
}

export interface AccessReports {
  /**
   * Throws 503 if the report of a call could not be kept now: to be asked before a grant is spent. If reports
   * wait in memory, only once this is closed.
   */
  ready(client: AuthorityClient): void
  /**
   * Keeps one report until the authority has taken it; never waits. To be called before the call is let
   * through: throws 503 if the report cannot be kept. If reports wait in memory, only once this is closed.
   */
  add(client: AuthorityClient, report: AccessReport): void
  /** Reports that are not told yet, those on their way among them. */
  waiting(): number
  /** Bytes of reports in files. */
  bytes(): number
  /** Journals of other processes that nobody here can send. */
  left(): number
  /**
   * Sends what waits, for at most so many milliseconds, and says goodbye; what is in memory then is dropped
   * and counted. Takes no more afterwards.
   */
  close(withinMs: number): Promise<void>
}

const ENDING = 'This enforcement point is about to end: try again.'

/**
 * A queue per owner's authority, each sent in order by one sender. Throws if the directory of `state`
 * cannot be written.
 */
export function createAccessReports(options: AccessReportsOptions): AccessReports {
  const { state, queueMax = 10_000, clients = [], onDropped } = options
  const onFault = options.onFault ?? (() => undefined)
  const delivery = createDelivery({ ...options, onFault })
  const store =
    state === undefined
      ? createMemoryStore({ delivery, queueMax, onDropped })
      : openFileStore({
          ...state,
          delivery,
          clients,
          clock: options.clock,
          onDropped,
          onUnkept: options.onUnkept ?? (() => undefined),
          onLeft: options.onLeft ?? (() => undefined),
          onFault,
        })
  let isClosed = false
  return {
    ready: client => {
      if (isClosed) throw outage(ENDING)
      store.ready(client)
    },
    add: (client, report) => {
      if (isClosed) throw outage(ENDING)
      store.add(client, report)
    },
    waiting: () => delivery.waiting(),
    bytes: () => store.bytes(),
    left: () => store.left(),
    close: async withinMs => {
      isClosed = true
      await delivery.close(withinMs)
      store.close()
    },
  }
}
