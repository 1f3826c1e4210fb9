/**
 * LISTEN on a connection of its own, kept open for as long as the process lives. A notification carries only
 * a name; what happened is read back, so one lost while reconnecting loses nothing. The same connection is
 * asked for the time now and then: so a server that is gone without a word is noticed, and so is a clock that
 * differs. Contract: "Events".
 */
import type { ClockReading } from '../../limits/clock-reading.ts'
import { escapeIdentifier } from 'pg'
import { openConnection, TAKES_NO_WRITES, takesNoWrites, type DedicatedConnection } from './connection.ts'

export interface Listener {
  close(): Promise<void>
}

export interface ListenOptions {
  url: string
  channel: string
  /** Called with the payload of each notification. */
  onNotify: (payload: string) => void
  /** Further channels on the same connection. */
  others?: Readonly<Record<string, (payload: string) => void>>
  /** Called after every (re)connect, because whatever was missed meanwhile must be read now. */
  onConnect?: () => void
  onError?: (error: Error) => void
  /** Called with the database's time, at every (re)connect and after every beat. */
  onClock?: (reading: ClockReading) => void
  /** Pause between two beats; 10 s when left out, so that a lost server is noticed within 16 s. */
  beatMs?: number
  /** How long a connection, and the answer to a beat, is waited for; 5 s when left out. */
  answerMs?: number
  /** If given, nobody notifies: `onConnect` is called after every beat, each second when left out. */
  polls?: boolean | undefined
}

const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000
const BEAT_MS = 10_000
const POLL_MS = 1_000

/**
 * Starts listening; resolves once the first LISTEN is in force (rejects if that one fails). Afterwards a lost
 * connection is opened again, for ever, with growing pauses. A standby, reached during a failover, is not
 * listened to.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  const listener = new DatabaseListener(options)
  await listener.connect()
  return listener
}

/** Listens on one connection at a time. */
class DatabaseListener implements Listener {
  readonly #options: ListenOptions
  readonly #polls: boolean
  readonly #beatMs: number
  #current: DedicatedConnection | undefined
  #retry: NodeJS.Timeout | undefined
  #beat: NodeJS.Timeout | undefined
  #closed = false
  #retryMs = RETRY_MS_MIN

  constructor(options: ListenOptions) {
    const { polls = false, beatMs = polls ? POLL_MS : BEAT_MS } = options
    this.#options = options
    this.#polls = polls
    this.#beatMs = beatMs
  }

  async connect(): Promise<void> {
    const { url, onError, answerMs } = this.#options
    const waits = answerMs === undefined ? {} : { connectMs: answerMs, statementMs: answerMs }
    const next = await openConnection({ url, name: 'usher-listen', onError, ...waits })
    try {
      await follow(next, this.#options)
      this.#options.onClock?.(await readClock(next, true))
    } catch (error) {
      next.drop()
      throw error
    }
    if (this.#closed) return next.drop()
    this.#current = next
    void next.ended.then(() => {
      if (this.#current === next) this.#connectAgain()
    })
    this.#retryMs = RETRY_MS_MIN
    this.#options.onConnect?.()
    this.#beatLater(next)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    clearTimeout(this.#beat)
    const last = this.#current
    this.#current = undefined
    await last?.close()
  }

  #beatLater(connection: DedicatedConnection): void {
    const { onClock, onConnect, onError } = this.#options
    this.#beat = setTimeout(() => {
      readClock(connection, false).then(
        reading => {
          onClock?.(reading)
          if (connection !== this.#current) return
          if (this.#polls) onConnect?.()
          this.#beatLater(connection)
        },
        (error: Error) => {
          if (connection !== this.#current) return
          onError?.(error)
          connection.drop()
        },
      )
    }, this.#beatMs).unref()
  }

  #connectAgain(): void {
    this.#current = undefined
    clearTimeout(this.#beat)
    if (this.#closed) return
    this.#retry = setTimeout(() => {
      this.connect().catch((error: Error) => {
        this.#options.onError?.(error)
        this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
        this.#connectAgain()
      })
    }, this.#retryMs)
  }
}

async function follow(
  { client }: DedicatedConnection,
  { channel: first, onNotify, others, polls }: ListenOptions,
): Promise<void> {
  const channels = { [first]: onNotify, ...others }
  client.on('notification', ({ channel, payload = '' }) => channels[channel]?.(payload))
  if (polls !== true)
    for (const channel of Object.keys(channels)) await client.query(`LISTEN ${escapeIdentifier(channel)}`)
}

/** @throws also if the server takes no writes (any more). */
async function readClock({ client }: DedicatedConnection, fresh: boolean): Promise<ClockReading> {
  const sentAt = performance.now()
  const { rows } = await client.query<{ ms: number; standby: boolean }>(
    `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms, ${TAKES_NO_WRITES} AS standby`,
  )
  const answeredAt = performance.now()
  const { ms, standby } = rows[0]!
  if (standby) throw takesNoWrites()
  return { databaseMs: ms, sentAt, answeredAt, fresh }
}
