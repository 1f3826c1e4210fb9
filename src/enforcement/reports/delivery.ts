/**
 * Owns the sending of reports: in batches, or one by one to an authority that reads no batches, in the
 * background, each outbox in order and by one sender, until the authority has accepted them. Contract:
 * "Events", 2. During an outage, reports wait. A report that the authority refuses is dropped, but the rest
 * of its batch is not.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { waitAtMost } from '../../limits/patience.ts'
import type { AuthorityClient } from '../authorities/authority-client.ts'
import { UnwantedAnswer } from '../authorities/protected-calls.ts'
import { deadlineAt, type Deadline } from '../deadline.ts'
import type { AccessEntry, Outbox } from './outbox.ts'

/** An outbox that is sent to an authority. */
export interface Mail {
  client: AuthorityClient
  outbox: Outbox
  /**
   * For a run that is over: what is reported about it when all of it is sent, either that it ended or only
   * how far it came. Left out while it goes on.
   */
  lastWord?: { ended: boolean }
  /** Reports that this process cannot send stay for the next one. */
  isDurable: boolean
  /** Everything was sent, and the authority accepted the last message about the run. */
  onDelivered?: () => void
}

export interface DeliveryOptions {
  /** How many entries one request has; 100 if left out. */
  batchMax?: number | undefined
  /** How long an entry may wait for others to join its batch, in milliseconds; 200 if left out. */
  gatherMs?: number | undefined
  /** The pauses between attempts, each twice the one before, in milliseconds; 250 to 10,000 if left out. */
  retryMs?: { first: number; most: number } | undefined
  /**
   * After how long without reports a run says how far it has come, in milliseconds; three minutes if left
   * out.
   */
  quietMs?: number | undefined
  /** Milliseconds since the epoch. */
  clock: () => number
  onSent?: ((count: number) => void) | undefined
  onDropped: (count: number, why: string) => void
  /** Called if waiting reports could not be read. */
  onFault: (error: unknown) => void
}

export interface Delivery {
  /** Sends what waits there. Call this again after more is put there. */
  send(mail: Mail): void
  /** Sends nothing more from it, because another process has it now. */
  forget(mail: Mail): void
  /** The number of waiting reports, including those that are being sent. */
  waiting(): number
  /** Sends what waits and says that the run ends, for at most this many milliseconds. */
  close(withinMs: number): Promise<void>
}

const SEND_TIMEOUT_MS = 5_000
const RETRY_MS = { first: 250, most: 10_000 }
const QUIET_MS = 180_000
/** The pause between attempts when little time is left. */
const CLOSING_RETRY_MS = 100
/** The part of the closing time that is reserved for saying that the run ends. */
const GOODBYE_SHARE = 0.2

/** A mail, its sender while it has work, and when its authority last accepted something from it. */
interface DeliveryRound {
  mail: Mail
  job?: Promise<void> | undefined
  contactAt: number
}
/**
 * How sending reports ended: with all of them taken or dropped, with none because the authority reads no
 * several, or with some that are to be sent later.
 */
type SendState = 'finished' | 'unread' | 'not now'
type SendAttempt<T> = { answer: T } | 'refused' | 'out of time'

/** How long there is time, and whether little is left. Both change when the process is about to end. */
interface DeliveryEnd {
  sendUntil: number
  closedAt: number
  closing: AbortController
}

/** Sends until there is an answer or no time is left. `until` may move meanwhile. */
function createAsk({ clock, retryMs = RETRY_MS }: DeliveryOptions, { closing }: DeliveryEnd) {
  return async <T>(
    what: (deadline: Deadline) => Promise<T>,
    until: () => number,
  ): Promise<SendAttempt<T>> => {
    for (let attempt = 0; clock() < until(); attempt++) {
      try {
        return { answer: await what(deadlineAt(Math.min(clock() + SEND_TIMEOUT_MS, until()), clock)) }
      } catch (error) {
        if (isRefusal(error)) return 'refused'
        const pauseMs = Math.min(retryMs.most, retryMs.first * 2 ** Math.min(attempt, 16))
        await (closing.signal.aborted ? pause(CLOSING_RETRY_MS) : pause(pauseMs, closing.signal))
      }
    }
    return 'out of time'
  }
}

/** Sends what waits in one outbox, or reports how far its run has come. */
function createSender(options: DeliveryOptions, rounds: Map<Outbox, DeliveryRound>, ending: DeliveryEnd) {
  const { batchMax = 100, clock, onDropped, onSent } = options
  const ask = createAsk(options, ending)

  const sendBatch = async (round: DeliveryRound, batch: AccessEntry[]): Promise<SendState> => {
    const { client, outbox } = round.mail
    if (batch.length > 1 && client.countsReports() !== true) return 'unread'
    const send = (deadline: Deadline) => client.reportAccess(batch, deadline)
    const attempt = await ask(send, () => ending.sendUntil)
    if (attempt === 'out of time') return 'not now'
    if (attempt === 'refused' && batch.length > 1) {
      const half = Math.ceil(batch.length / 2)
      const first = await sendBatch(round, batch.slice(0, half))
      return first === 'finished' ? sendBatch(round, batch.slice(half)) : first
    }
    const answer = attempt === 'refused' ? attempt : attempt.answer
    if (answer === 'unread') return answer
    if (!rounds.has(outbox)) return 'not now'
    outbox.done(batch.length)
    if (answer === 'refused') onDropped(batch.length, 'the authority refused them')
    else {
      const { unknown } = answer
      round.contactAt = clock()
      onSent?.(batch.length - unknown)
      if (unknown > 0) onDropped(unknown, 'the authority knows no such grant')
    }
    return 'finished'
  }
  const say = async (round: DeliveryRound, ended: boolean): Promise<void> => {
    const { client, outbox, onDelivered, lastWord } = round.mail
    const n = outbox.last()
    const counts = client.countsReports()
    // A run that is over can wait with its last word until it is known whether the authority reads it.
    if (counts === undefined && lastWord !== undefined) return
    const needsReport = n > 0 && counts === true
    const tell = (deadline: Deadline) => client.reportRun({ instance: outbox.instance, n, ended }, deadline)
    if (needsReport && (await ask(tell, () => ending.closedAt)) === 'out of time') return
    round.contactAt = clock()
    if ((!ended && lastWord === undefined) || !rounds.has(outbox)) return
    rounds.delete(outbox)
    onDelivered?.()
  }
  /** @returns whether there is nothing more of it to send now. */
  const sendWhile = async (round: DeliveryRound, isDue: (waiting: number) => boolean): Promise<boolean> => {
    const { outbox, client } = round.mail
    while (isDue(outbox.waiting())) {
      if (!rounds.has(outbox)) return false
      const batch = outbox.peek(client.countsReports() === true ? batchMax : 1)
      if (batch.length === 0) break
      if ((await sendBatch(round, batch)) === 'not now') return false
    }
    return true
  }
  const sendAll = async (round: DeliveryRound): Promise<void> => {
    const { lastWord } = round.mail
    if ((await sendWhile(round, () => true)) && lastWord !== undefined) await say(round, lastWord.ended)
  }
  /**
   * Sends one batch, and more only while they are full. Reports that came meanwhile wait for others again:
   * under steady calls, each request would otherwise carry only the few that came during the one before it.
   * To an authority that takes them one by one, nothing is gained by that.
   */
  const sendGathered = async (round: DeliveryRound): Promise<void> => {
    if (round.mail.lastWord !== undefined) return sendAll(round)
    let least = 1
    await sendWhile(round, waiting => {
      const isDue = waiting >= least
      least = round.mail.client.countsReports() === true ? batchMax : 1
      return isDue
    })
  }
  return { say, sendAll, sendGathered }
}

export function createDelivery(options: DeliveryOptions): Delivery {
  const { gatherMs = 200, quietMs = QUIET_MS, clock, onDropped, onFault } = options
  const rounds = new Map<Outbox, DeliveryRound>()
  const closing = new AbortController()
  const ending: DeliveryEnd = { sendUntil: Infinity, closedAt: Infinity, closing }
  const { say, sendAll, sendGathered } = createSender(options, rounds, ending)

  /** A mail has one job at a time. A report that is added while a job ends goes to the next job. */
  const start = (round: DeliveryRound, job: () => Promise<void>): void => {
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
  const wake = (round: DeliveryRound): void =>
    start(round, async () => {
      await pause(gatherMs, closing.signal)
      await sendGathered(round)
    })
  const timer = setInterval(() => {
    for (const round of rounds.values()) {
      if (round.mail.outbox.waiting() > 0 || round.mail.lastWord !== undefined) wake(round)
      else if (clock() - round.contactAt >= quietMs) start(round, () => say(round, false))
    }
  }, quietMs / 6).unref()

  const end = async (round: DeliveryRound): Promise<void> => {
    await round.job
    const { outbox, isDurable, lastWord } = round.mail
    await sendAll(round).catch(onFault)
    const isWhole = outbox.waiting() === 0
    if (lastWord === undefined && (isWhole || !isDurable)) await say(round, true)
  }
  return {
    send: mail => {
      const round = rounds.get(mail.outbox) ?? { mail, contactAt: clock() }
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
      const lost = all.reduce((sum, { mail }) => sum + (mail.isDurable ? 0 : mail.outbox.waiting()), 0)
      if (lost > 0) onDropped(lost, 'there was no time left to send them')
    },
  }
}

/**
 * The authority read the reports and refuses them, so sending them again is useless. This does not apply to a
 * refused PAT.
 */
function isRefusal(error: unknown): boolean {
  const status = error instanceof Error && error.cause instanceof UnwantedAnswer ? error.cause.status : 0
  return status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status)
}

/** Waits this long, or until the signal says that no time is left. */
async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await delay(ms, undefined, { ref: false, ...(signal && { signal }) }).catch(() => undefined)
}
