/**
 * Owns the way of allowed calls into the owner's ledger. contract, "Events", 2: the enforcement point posts `/audit/access` for an allowed
 * call; off the call's path, in batches, each entry under an id so that sending twice records once.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import { UnwantedAnswer, type AccessEntry, type AuthorityClient } from './authority-client.ts'
import { deadlineAt } from '../deadline.ts'

export interface AccessReportsOptions {
  /** Entries waiting for all owners together; beyond, those of the longest queue are dropped and counted. 10,000 when left out. */
  queueMax?: number
  /** Entries in one request; 100 when left out. */
  batchMax?: number
  /** How long an entry may wait for others to go with it, in milliseconds; 200 when left out. */
  gatherMs?: number
  /** Pauses between attempts, each twice the one before, in milliseconds; 250 to 10,000 when left out. */
  retryMs?: { first: number; most: number }
  /** Milliseconds since the epoch. */
  clock: () => number
  onSent?: (count: number) => void
  onDropped: (count: number, why: string) => void
}

export interface AccessReports {
  /** Queues one entry; never waits and never throws. */
  add(client: AuthorityClient, entry: AccessEntry): void
  /** Entries that are not told yet, those on their way among them. */
  waiting(): number
  /** Sends what waits, for at most so many milliseconds; the rest is dropped and counted. Takes no more afterwards. */
  close(withinMs: number): Promise<void>
}

const SEND_MS = 5_000
const RETRY_MS = { first: 250, most: 10_000 }
/** Between attempts once there is little time left. */
const CLOSING_RETRY_MS = 100

type Sent = 'sent' | 'refused' | 'out of time'

/**
 * A queue per owner's authority, each sent in order by one sender. An outage is waited out, for as long as the queue has room; what the
 * authority refuses is dropped, alone and not with the rest of its batch.
 */
export function createAccessReports(options: AccessReportsOptions): AccessReports {
  const { queueMax = 10_000, batchMax = 100, gatherMs = 200, retryMs = RETRY_MS } = options
  const { clock, onDropped, onSent } = options
  const queues = new Map<AuthorityClient, AccessEntry[]>()
  const senders = new Map<AuthorityClient, Promise<void>>()
  const closing = new AbortController()
  let waiting = 0
  let closedAt = Infinity

  const sendOnce = async (client: AuthorityClient, batch: AccessEntry[]): Promise<Sent> => {
    for (let attempt = 0; clock() < closedAt; attempt++) {
      const at = Math.min(clock() + SEND_MS, closedAt)
      try {
        await client.reportAccess(batch, deadlineAt(at, clock))
        return 'sent'
      } catch (error) {
        if (isRefusal(error)) return 'refused'
        const pauseMs = Math.min(retryMs.most, retryMs.first * 2 ** Math.min(attempt, 16))
        await (closing.signal.aborted ? pause(CLOSING_RETRY_MS) : pause(pauseMs, closing.signal))
      }
    }
    return 'out of time'
  }
  const send = async (client: AuthorityClient, batch: AccessEntry[]): Promise<void> => {
    const how = await sendOnce(client, batch)
    if (how === 'out of time') return // `close` counts what is left
    if (how === 'refused' && batch.length > 1) {
      const half = Math.ceil(batch.length / 2)
      await send(client, batch.slice(0, half))
      return send(client, batch.slice(half))
    }
    waiting -= batch.length
    if (how === 'sent') onSent?.(batch.length)
    else onDropped(batch.length, 'the authority refused them')
  }
  const drain = async (client: AuthorityClient, queue: AccessEntry[]): Promise<void> => {
    await pause(gatherMs, closing.signal)
    while (queue.length > 0) await send(client, queue.splice(0, batchMax))
    senders.delete(client)
  }
  /** An authority that is away must not cost the others their room. */
  const makeRoom = (asking: AccessEntry[]): boolean => {
    let longest = asking
    for (const queue of queues.values()) if (queue.length > longest.length) longest = queue
    if (longest === asking) return false
    longest.pop()
    waiting--
    onDropped(1, 'the queue of access reports is full')
    return true
  }
  return {
    add: (client, entry) => {
      const queue = queues.get(client) ?? []
      if (closing.signal.aborted || (waiting >= queueMax && !makeRoom(queue)))
        return onDropped(1, 'the queue of access reports is full')
      waiting++
      queues.set(client, queue)
      queue.push(entry)
      if (!senders.has(client)) senders.set(client, drain(client, queue))
    },
    waiting: () => waiting,
    close: async withinMs => {
      closedAt = clock() + withinMs
      closing.abort()
      await waitAtMost(withinMs, Promise.all(senders.values()))
      if (waiting > 0) onDropped(waiting, 'there was no time left to send them')
    },
  }
}

/** The authority read them and will not have them: sending them again is no use. A PAT that it will not have is another matter. */
function isRefusal(error: unknown): boolean {
  const status = error instanceof Error && error.cause instanceof UnwantedAnswer ? error.cause.status : 0
  return status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status)
}

/** Waits, or until the signal says that there is no more time for it. */
async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ref: false, ...(signal && { signal }) }).catch(() => undefined)
}
