/**
 * Owns the sending of reports: in batches, off the call's path, each outbox in its order and by one sender,
 * until the authority has taken them. Contract: "Events", 2. An outage is waited out; what the authority
 * refuses is dropped, alone and not with the rest of its batch.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import { UnwantedAnswer, type AuthorityClient } from '../authorities/authority-client.ts'
import { deadlineAt, type Deadline } from '../deadline.ts'
import type { AccessEntry, Outbox } from './outbox.ts'

/** An outbox on its way to an authority. */
export interface Mail {
  client: AuthorityClient
  outbox: Outbox
  /**
   * Of a run that is over, what is said of it once all of it is sent: that it ended, or only how far it came.
   * Left out while it goes on.
   */
  lastWord?: { ended: boolean }
  /** What this process cannot send stays for the next one. */
  isKept: boolean
  /** All was sent, and the last word of its run was taken. */
  onDelivered?: () => void
}

export interface DeliveryOptions {
  /** Entries in one request; 100 when left out. */
  batchMax?: number | undefined
  /** How long an entry may wait for others to go with it, in milliseconds; 200 when left out. */
  gatherMs?: number | undefined
  /** Pauses between attempts, each twice the one before, in milliseconds; 250 to 10,000 when left out. */
  retryMs?: { first: number; most: number } | undefined
  /**
   * How long a run may have nothing to say before it says how far it has come, in milliseconds; three minutes
   * when left out.
   */
  quietMs?: number | undefined
  /** Milliseconds since the epoch. */
  clock: () => number
  onSent?: ((count: number) => void) | undefined
  onDropped: (count: number, why: string) => void
  /** What waits could not be read. */
  onFault: (error: unknown) => void
}

export interface Delivery {
  /** Sends what waits there, and what is put there later once this is called again. */
  send(mail: Mail): void
  /** Sends nothing more of it: it is another process's now. */
  forget(mail: Mail): void
  /** Reports that wait, those on their way among them. */
  waiting(): number
  /** Sends what waits and says goodbye, for at most so many milliseconds. */
  close(withinMs: number): Promise<void>
}

const SEND_MS = 5_000
const RETRY_MS = { first: 250, most: 10_000 }
const QUIET_MS = 180_000
/** Between attempts once there is little time left. */
const CLOSING_RETRY_MS = 100
/** Of the time for closing, what is kept for saying goodbye. */
const GOODBYE_SHARE = 0.2

/** A mail, its sender while it has work, and when its authority last took something of it. */
interface Round {
  mail: Mail
  job?: Promise<void> | undefined
  heardAt: number
}
type Asked<T> = { taken: T } | 'refused' | 'out of time'

/**
 * Until when there is time, and whether there is little: all of it changes when the process is about to end.
 */
interface Ending {
  sendUntil: number
  closedAt: number
  closing: AbortController
}

/** Asks until there is an answer, or no time: `until` may move while it is waited for. */
function createAsk({ clock, retryMs = RETRY_MS }: DeliveryOptions, { closing }: Ending) {
  return async <T>(what: (deadline: Deadline) => Promise<T>, until: () => number): Promise<Asked<T>> => {
    for (let attempt = 0; clock() < until(); attempt++) {
      try {
        return { taken: await what(deadlineAt(Math.min(clock() + SEND_MS, until()), clock)) }
      } catch (error) {
        if (isRefusal(error)) return 'refused'
        const pauseMs = Math.min(retryMs.most, retryMs.first * 2 ** Math.min(attempt, 16))
        await (closing.signal.aborted ? pause(CLOSING_RETRY_MS) : pause(pauseMs, closing.signal))
      }
    }
    return 'out of time'
  }
}

/** Sends what waits in one outbox, or says how far its run has come. */
function createSender(options: DeliveryOptions, rounds: Map<Outbox, Round>, ending: Ending) {
  const { batchMax = 100, clock, onDropped, onSent } = options
  const ask = createAsk(options, ending)

  /** @returns whether it is done with, however it ended. */
  const sendBatch = async (round: Round, batch: AccessEntry[]): Promise<boolean> => {
    const { client, outbox } = round.mail
    const send = (deadline: Deadline) => client.reportAccess(batch, deadline)
    const asked = await ask(send, () => ending.sendUntil)
    if (asked === 'out of time') return false
    if (asked === 'refused' && batch.length > 1) {
      const half = Math.ceil(batch.length / 2)
      return (await sendBatch(round, batch.slice(0, half))) && sendBatch(round, batch.slice(half))
    }
    if (!rounds.has(outbox)) return false
    outbox.done(batch.length)
    if (asked === 'refused') onDropped(batch.length, 'the authority refused them')
    else {
      const { unknown } = asked.taken
      round.heardAt = clock()
      onSent?.(batch.length - unknown)
      if (unknown > 0) onDropped(unknown, 'the authority knows no such grant')
    }
    return true
  }
  const say = async (round: Round, ended: boolean): Promise<void> => {
    const { client, outbox, onDelivered, lastWord } = round.mail
    const n = outbox.last()
    const tell = (deadline: Deadline) => client.reportRun({ instance: outbox.instance, n, ended }, deadline)
    if (n > 0 && (await ask(tell, () => ending.closedAt)) === 'out of time') return
    round.heardAt = clock()
    if ((!ended && lastWord === undefined) || !rounds.has(outbox)) return
    rounds.delete(outbox)
    onDelivered?.()
  }
  const sendAll = async (round: Round): Promise<void> => {
    const { outbox, lastWord } = round.mail
    for (;;) {
      if (!rounds.has(outbox)) return
      const batch = outbox.peek(batchMax)
      if (batch.length === 0) break
      if (!(await sendBatch(round, batch))) return
    }
    if (lastWord !== undefined) await say(round, lastWord.ended)
  }
  return { say, sendAll }
}

export function createDelivery(options: DeliveryOptions): Delivery {
  const { gatherMs = 200, quietMs = QUIET_MS, clock, onDropped, onFault } = options
  const rounds = new Map<Outbox, Round>()
  const closing = new AbortController()
  const ending: Ending = { sendUntil: Infinity, closedAt: Infinity, closing }
  const { say, sendAll } = createSender(options, rounds, ending)

  /** One job of a mail at a time. What is put there while it ends is the next one's. */
  const start = (round: Round, job: () => Promise<void>): void => {
    if (round.job !== undefined || closing.signal.aborted) return
    round.job = (async () => {
      let isWell = false
      try {
        await job()
        isWell = true
      } catch (error) {
        onFault(error)
      }
      round.job = undefined
      if (isWell && rounds.has(round.mail.outbox) && round.mail.outbox.waiting() > 0) wake(round)
    })()
  }
  const wake = (round: Round): void =>
    start(round, async () => {
      await pause(gatherMs, closing.signal)
      await sendAll(round)
    })
  const timer = setInterval(() => {
    for (const round of rounds.values()) {
      if (round.mail.outbox.waiting() > 0 || round.mail.lastWord !== undefined) wake(round)
      else if (clock() - round.heardAt >= quietMs) start(round, () => say(round, false))
    }
  }, quietMs / 6).unref()

  const end = async (round: Round): Promise<void> => {
    await round.job
    const { outbox, isKept, lastWord } = round.mail
    await sendAll(round).catch(onFault)
    const isWhole = outbox.waiting() === 0
    if (lastWord === undefined && (isWhole || !isKept)) await say(round, true)
  }
  return {
    send: mail => {
      const round = rounds.get(mail.outbox) ?? { mail, heardAt: clock() }
      rounds.set(mail.outbox, round)
      wake(round)
    },
    forget: mail => void rounds.delete(mail.outbox),
    waiting: () => [...rounds.keys()].reduce((sum, outbox) => sum + outbox.waiting(), 0),
    close: async withinMs => {
      clearInterval(timer)
      ending.closedAt = clock() + withinMs
      ending.sendUntil = ending.closedAt - withinMs * GOODBYE_SHARE
      closing.abort()
      const all = [...rounds.values()]
      await waitAtMost(withinMs, Promise.all(all.map(end)))
      const lost = all.reduce((sum, { mail }) => sum + (mail.isKept ? 0 : mail.outbox.waiting()), 0)
      if (lost > 0) onDropped(lost, 'there was no time left to send them')
    },
  }
}

/**
 * The authority read them and will not have them: sending them again is no use. A PAT that it will not have
 * is another matter.
 */
function isRefusal(error: unknown): boolean {
  const status = error instanceof Error && error.cause instanceof UnwantedAnswer ? error.cause.status : 0
  return status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status)
}

/** Waits, or until the signal says that there is no more time for it. */
async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ref: false, ...(signal && { signal }) }).catch(() => undefined)
}
