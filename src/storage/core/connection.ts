/**
 * Connections outside the pools, and what every connection must be: to the primary, open to writing.
 * Contract: "What the service does" (row 9: revocation is immediate). A standby still has revoked grants as
 * live, so its answers do not count.
 */
import { Socket } from 'node:net'
import { Client, type ClientBase } from 'pg'
import { withStandby, WAITS_FOR_STANDBY } from './replicated.ts'
import { settleSession } from './session.ts'

/** SQLSTATE of a write if none is taken. */
const READ_ONLY = '25006'

/**
 * SQL that is true on a standby, and on a connection that takes no writes. For the statement itself whose
 * answer must not be stale.
 */
export const TAKES_NO_WRITES = `(pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean)`

/** An outage to `isOutage`. */
export function takesNoWrites(): Error {
  const message =
    'the database takes no writes: it is a standby, or read-only (DATABASE_URL must lead to the primary)'
  return Object.assign(new Error(message), { code: READ_ONLY })
}

/** Rejects if the connection leads to a standby or takes no writes. */
export async function assertTakesWrites(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>(`SELECT ${TAKES_NO_WRITES} AS standby`)
  if (rows[0]?.standby !== false) throw takesNoWrites()
}

export interface DedicatedOptions {
  url: string
  /** The name that Postgres shows for it. */
  name: string
  /** How long connecting may take; 5 s when left out. */
  connectMs?: number
  /** How long each statement may take; 5 s when left out. */
  statementMs?: number
  /**
   * Whether its commits wait for a synchronous standby, where the primary has one: one whose wait was given
   * up is an outage then.
   */
  waitsForStandby?: boolean
  onError?: ((error: Error) => void) | undefined
}

const Replicated = withStandby(Client, { fault: () => undefined })

/** A connection of its own, to a primary. A caller that gets a failure from it gives it up. */
export interface DedicatedConnection {
  readonly client: Client
  /** Resolves once the connection has ended, from either side. */
  readonly ended: Promise<void>
  /** Ends it in good order, or by force if the server does not answer. */
  close(): Promise<void>
  /** Ends it at once. */
  drop(): void
}

const TIMEOUT_MS = 5_000
/** The answer of Postgres that it ended a statement comes after the time for it. */
const GRACE_MS = 500
const GOODBYE_MS = 1_000

/**
 * Connects; if anything fails, nothing stays open. @throws what Postgres or the network said; if it reached a
 * standby, or got no answer in time, an outage by `isOutage`; `Unusable` if the database is set so that
 * nobody can rely on it.
 */
export async function openConnection(options: DedicatedOptions): Promise<DedicatedConnection> {
  const { url, name, connectMs = TIMEOUT_MS, statementMs = TIMEOUT_MS, onError } = options
  const { waitsForStandby = false } = options
  const socket = new Socket()
  const client = new (waitsForStandby ? Replicated : Client)({
    connectionString: url,
    application_name: name,
    // A server that is gone is noticed while nothing is asked of it.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: connectMs,
    query_timeout: statementMs + GRACE_MS,
    stream: () => socket,
  })
  client.on('error', error => onError?.(error))
  const ended = new Promise<void>(resolve => client.once('end', () => resolve()))
  const drop = (): void => {
    // Said first, so that its end is not told as an error.
    client.end().catch(() => undefined)
    socket.destroy()
  }
  try {
    await client.connect()
    await assertTakesWrites(client)
    await settleSession(client, { statementMs })
    if (waitsForStandby) await client.query(WAITS_FOR_STANDBY)
  } catch (error) {
    drop()
    throw error
  }
  const close = async (): Promise<void> => {
    const late = setTimeout(() => socket.destroy(), GOODBYE_MS)
    await client.end().catch(() => undefined)
    clearTimeout(late)
  }
  return { client, ended, close, drop }
}
