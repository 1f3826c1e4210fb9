/**
 * Whether a synchronous standby has what this process acknowledges. A commit that returned was flushed there
 * too, so each second one is made that writes nothing but itself, and its return is a word from the standby.
 * Contract: "What the service does" (row 9: revocation is immediate), "Errors": without that word the answer
 * is 503, for a primary that hears of no standby may have been replaced by it.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { openConnection, type DedicatedConnection } from './connection.ts'

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
 * Makes commits of this session wait until a standby flushed them, whatever the server is set to. A session
 * that waits for more, until they are applied there, keeps doing so.
 */
export const WAITS_FOR_STANDBY = `SELECT set_config('synchronous_commit',
  CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)`

/**
 * A transaction of its own that writes one record to the log and nothing to a table. Without names Postgres
 * waits for nobody.
 */
const BEAT = `SELECT current_setting('synchronous_standby_names') AS names,
  pg_logical_emit_message(true, 'usher', '')`

/** The routine of Postgres that ends a wait for the standby, and leaves the commit on the primary alone. */
const WAIT_CANCELLED = 'SyncRepWaitForLSN'

/** An outage to `isOutage`. */
function noStandby(because: string): Error {
  const message = `no synchronous standby has what would be acknowledged: ${because}`
  return Object.assign(new Error(message), { code: 'ENOSTANDBY' })
}

/**
 * Asks for a word of the standby each second, by a connection of its own, until it is closed. Resolves with
 * the first report. @throws Error if none came in time; it says what is wrong.
 */
export async function watchStandby({ url, waitSeconds, onTurn }: StandbyWatchOptions): Promise<StandbyWatch> {
  const closing = new AbortController()
  let connection: DedicatedConnection | undefined
  /** By `performance.now()`: when the beat was sent that was answered last. */
  let heardAt = -Infinity
  let because = 'it has not been asked yet'
  let silent = false

  const silentMs = (): number => performance.now() - heardAt
  const fault = (): Error | undefined =>
    silentMs() <= SILENT_MS_MAX ? undefined : noStandby(`${because}, for ${saidSeconds(silentMs())}`)

  async function beat(): Promise<void> {
    try {
      connection ??= await openBeating(url)
      const sent = performance.now()
      const names = await sendBeat(connection.client)
      if (names === '') because = 'synchronous_standby_names of the primary is empty'
      else heardAt = sent
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
  for (await beat(); heardAt < 0; await beat()) {
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

const saidSeconds = (ms: number): string => (ms === Infinity ? 'ever' : `${Math.round(ms / 1_000)} s`)

async function openBeating(url: string): Promise<DedicatedConnection> {
  const limits = { connectMs: ANSWER_MS_MAX, statementMs: ANSWER_MS_MAX }
  const connection = await openConnection({ url, name: 'usher-standby', ...limits })
  try {
    await connection.client.query(WAITS_FOR_STANDBY)
    return connection
  } catch (error) {
    connection.drop()
    throw error
  }
}

/** A commit of which the standby said nothing. */
class Unreplicated extends Error {}

/** @returns the standbys that the primary waits for. @throws Unreplicated if it gave the wait up. */
async function sendBeat(client: Client): Promise<string> {
  let cancelled = false
  const onNotice = (notice: { routine?: string | undefined }): void => {
    if (notice.routine === WAIT_CANCELLED) cancelled = true
  }
  client.on('notice', onNotice)
  try {
    const { rows } = await client.query<{ names: string }>(BEAT)
    if (cancelled) throw new Unreplicated()
    return rows[0]!.names
  } finally {
    client.off('notice', onNotice)
  }
}

/**
 * Connections of this class give an answer out only while the standby is heard from, and no commit that it
 * does not have: one whose wait was ended (a statement timeout, `pg_cancel_backend`) succeeds to Postgres,
 * with a warning. The caller gets an outage, after which nobody knows whether it was done.
 */
export function heardByStandby(Base: typeof Client, standby: StandbyWatch): typeof Client {
  return class extends Base {
    #unreplicated = false
    constructor(...given: ConstructorParameters<typeof Client>) {
      super(...given)
      this.on('notice', ({ routine }: { routine?: string | undefined }) => {
        if (routine === WAIT_CANCELLED) this.#unreplicated = true
      })
    }
    override query(...given: never): never {
      const answer: unknown = super.query(...(given as [never]))
      if (!(answer instanceof Promise)) return answer as never
      return answer.then((result: unknown) => {
        const fault = this.#unreplicated ? noStandby('it did not answer a commit in time') : standby.fault()
        this.#unreplicated = false
        if (fault !== undefined) throw fault
        return result
      }) as never
    }
  }
}
