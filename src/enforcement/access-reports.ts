/**
 * Owns the way of allowed calls into the owner's ledger. contract, "Events", 2: the enforcement point posts `/audit/access` for an allowed
 * call; off the call's path, in batches, each entry under an id so that sending twice records once.
 */
import type { AccessEntry, AuthorityClient } from './authority-client.ts'
import { deadlineOf } from './deadline.ts'

export interface AccessReportsOptions {
  /** Entries waiting for all owners together; beyond, new ones are dropped and counted. 10,000 when left out. */
  queueMax?: number
  /** Entries in one request; 100 when left out. */
  batchMax?: number
  /** How long an entry may wait for others to go with it, in milliseconds; 200 when left out. */
  gatherMs?: number
  /** Milliseconds since the epoch. */
  clock: () => number
  onDropped: (count: number, why: string) => void
}

export interface AccessReports {
  /** Queues one entry; never waits and never throws. */
  add(client: AuthorityClient, entry: AccessEntry): void
  /** Sends what waits, for at most so many milliseconds; the rest is dropped and counted. Takes no more afterwards. */
  close(withinMs: number): Promise<void>
}

const SEND_MS = 5_000
const ATTEMPTS_MAX = 8
const RETRY_MS = { first: 250, most: 10_000 }

/** A queue per owner's authority, each sent in order by one sender. */
export function createAccessReports(options: AccessReportsOptions): AccessReports {
  const { queueMax = 10_000, batchMax = 100, gatherMs = 200, clock, onDropped } = options
  const queues = new Map<AuthorityClient, AccessEntry[]>()
  const senders = new Map<AuthorityClient, Promise<void>>()
  const closing = new AbortController()
  let waiting = 0
  let closedAt = Infinity

  const sendBatch = async (client: AuthorityClient, batch: AccessEntry[]): Promise<void> => {
    for (let attempt = 0; ; attempt++) {
      const at = Math.min(clock() + SEND_MS, closedAt)
      try {
        await client.reportAccess(batch, deadlineOf({ at, marginMs: 0, clock }))
        waiting -= batch.length
        return
      } catch (error) {
        if (clock() >= closedAt) return // `close` counts what is left
        if (attempt + 1 >= ATTEMPTS_MAX) {
          waiting -= batch.length
          return onDropped(batch.length, error instanceof Error ? error.message : String(error))
        }
        await pause(Math.min(RETRY_MS.most, RETRY_MS.first * 2 ** attempt), closing.signal)
      }
    }
  }
  const drain = async (client: AuthorityClient, queue: AccessEntry[]): Promise<void> => {
    await pause(gatherMs, closing.signal)
    while (queue.length > 0) {
      await sendBatch(client, queue.splice(0, batchMax))
    }
    senders.delete(client)
  }
  return {
    add: (client, entry) => {
      if (waiting >= queueMax || closing.signal.aborted)
        return onDropped(1, 'the queue of access reports is full')
      waiting++
      const queue = queues.get(client) ?? []
      queues.set(client, queue)
      queue.push(entry)
      if (!senders.has(client)) senders.set(client, drain(client, queue))
    },
    close: async withinMs => {
      closedAt = clock() + withinMs
      closing.abort()
      await Promise.race([Promise.all(senders.values()), timePassed(withinMs)])
      if (waiting > 0) onDropped(waiting, 'there was no time left to send them')
    },
  }
}

async function timePassed(ms: number): Promise<void> {
  await new Promise<void>(resolve => void setTimeout(resolve, ms).unref())
}

/** Waits, or until the signal says that there is no more time for it. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>(resolve => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    timer.unref()
    signal.addEventListener('abort', done)
  })
}
