/**
 * Whether a synchronous standby has what this process acknowledges. A commit that returned was flushed there
 * too, so each second one is made that writes nothing but itself, and its return is a word from the standby.
 * Contract: "What the service does" (row 9: revocation is immediate), "Errors": without that word the answer
 * is 503, for a primary that hears of no standby may have been replaced by it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { openConnection, type DedicatedConnection } from './connection.ts'
import { noStandby, Unreplicated } from './replicated.ts'

/** What a serving connection must know before its answers are given out. */
export interface StandbyWatch {
  /** Why nothing may be answered now, an outage to `isOutage`; undefined while a standby is heard from. */
  fault(): Error | undefined
  /** Since the last word of a standby was asked for; Infinity before the first. */
  silentSeconds(): number
  close(): Promise<void>
}

export interface StandbyWatchOptions {
  /** `postgres://…` of the primary. */
  url: string
  /** How long to wait for the first word of a standby. */
  waitSeconds: number
  /** Told whenever the standby falls silent, with the reason, and when it is heard again. */
  onTurn: (fault: Error | undefined) => void
}

/** Between two beats. */
const BEAT_MS = 1_000
/** An answer that rests on an older word does not count. */
const SILENT_MS_MAX = 5_000
/** How long a beat may wait for the standby: shorter than a word is good for, so that the next is in time. */
const ANSWER_MS_MAX = 3_000

/**
 * A transaction of its own that writes one record to the log and nothing to a table. `waits_for_nobody`: why
 * Postgres waits for no standby; null if it waits. Without places for a sender it waits for no standby
 * either, whatever names it has.
 */
const BEAT = `SELECT CASE WHEN current_setting('synchronous_standby_names') = '' THEN 'synchronous_standby_names of the primary is empty'
    WHEN current_setting('max_wal_senders') = '0' THEN 'max_wal_senders of the primary is 0' END AS waits_for_nobody,
  pg_logical_emit_message(true, 'usher', '')`

/**
 * Asks for a word of the standby each second, by a connection of its own, until it is closed. Resolves with
 * the first report. @throws Error if none came in time; it says what is wrong.
 */
export async function watchStandby({ url, waitSeconds, onTurn }: StandbyWatchOptions): Promise<StandbyWatch> {
  const closing = new AbortController()
  let connection: DedicatedConnection | undefined
  /** When the beat was sent that was answered last, by `performance.now()`. */
  let contactAt = -Infinity
  let because = 'it has not been asked yet'
  let silent = false

  const silentMs = (): number => performance.now() - contactAt
  const fault = (): Error | undefined =>
    silentMs() <= SILENT_MS_MAX ? undefined : noStandby(`${because}, for ${secondsText(silentMs())}`)

  async function beat(): Promise<void> {
    try {
      connection ??= await openBeating(url)
      const sent = performance.now()
      const waitsForNobody = await sendBeat(connection.client)
      if (waitsForNobody === null) contactAt = sent
      else because = waitsForNobody
    } catch (error) {
      because = error instanceof Unreplicated ? 'it does not answer the primary' : (error as Error).message
      connection?.drop()
      connection = undefined
    }
    const now = fault()
    if ((now !== undefined) === silent) return
    silent = now !== undefined
    onTurn(now)
  }

  async function beatOnAndOn(): Promise<void> {
    while (!closing.signal.aborted) {
      await delay(BEAT_MS, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      if (!closing.signal.aborted) await beat()
    }
  }

  const until = performance.now() + waitSeconds * 1_000
  for (await beat(); contactAt < 0; await beat()) {
    if (performance.now() + BEAT_MS > until) {
      connection?.drop()
      throw noStandby(because)
    }
    await delay(BEAT_MS)
  }
  const beating = beatOnAndOn()
  return {
    fault,
    silentSeconds: () => silentMs() / 1_000,
    close: async () => {
      closing.abort()
      connection?.drop()
      await beating
    },
  }
}

function openBeating(url: string): Promise<DedicatedConnection> {
  const limits = { connectMs: ANSWER_MS_MAX, statementMs: ANSWER_MS_MAX }
  return openConnection({ url, name: 'usher-standby', waitsForStandby: true, ...limits })
}

/** @returns why the primary waits for no standby; null if it waited. @throws if it gave the wait up. */
async function sendBeat(client: Client): Promise<string | null> {
  const { rows } = await client.query<{ waits_for_nobody: string | null }>(BEAT)
  return rows[0]!.waits_for_nobody
}

const secondsText = (ms: number): string => (ms === Infinity ? 'ever' : `${Math.round(ms / 1_000)} s`)
