/**
 * Opens Postgres, runs transactions, and listens for notifications. Knows no table.
 * Contract: "What the service does" (row 9: revocation is atomic and immediate) rests on READ COMMITTED
 * with row locks; every statement here goes to the primary.
 */
import { channel } from 'node:diagnostics_channel'
import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Client, type CustomTypesConfig, type Pool, types as pgTypes } from 'pg'
import { CompiledQuery, Kysely, PostgresDialect, type QueryResult, type Transaction } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import { assertTakesWrites } from './connection.ts'
import { workAsRuntimeRole } from './runtime-role.ts'
import { settleSession } from './session.ts'
import { tellAfterCommit } from './after-commit.ts'
import { holderOf, sharePool, waysTo, type SharedPool } from './shares.ts'
import { watchReads } from './usable.ts'
import { tellNobody } from './notify.ts'
import { withStandby, WAITS_FOR_STANDBY } from './replicated.ts'
import type { StandbyWatch } from './standby.ts'
import { SteadyPool } from './steady-pool.ts'

/** A connection or a transaction over a party's tables: the first parameter of every storage function. */
export type Db<Tables> = Kysely<Tables>
/** A transaction: the first parameter of what must not be done alone. */
export type Tx<Tables> = Transaction<Tables>
/** Either of them, where no table is named: it serves every party, whatever its tables are. */
export interface Runner {
  readonly isTransaction: boolean
  executeQuery<Row>(query: CompiledQuery<Row>): Promise<QueryResult<Row>>
}

export interface DatabaseOptions {
  /** `postgres://…` */
  url: string
  /** Maximum number of connections held at once, beside those of the call path. */
  poolMax: number
  /** Maximum number of connections held at once by the call path; the same number when left out. */
  callPoolMax?: number | undefined
  /** How long a caller waits for a free connection or for the server to answer a connect. */
  connectTimeoutMs?: number
  /**
   * How long a statement may wait for a row that another transaction holds, before it is given up as an
   * outage.
   */
  lockTimeoutMs?: number | undefined
  /** How long one statement may run before Postgres ends it; a server silent for 2 s more is given up. */
  statementTimeoutMs?: number
  /** Called when a connection is lost (the server went away); the pool heals by itself. */
  onConnectionError?: (error: Error) => void
  /** Called when the product's reads begin to fail for another reason than an outage. */
  onReadFault?: (error: Error) => void
  /** Whether NOTIFY tells other processes what is done here; true when left out. */
  notifies?: boolean | undefined
  /** If given, nothing is answered that a synchronous standby does not have; closed with the pools. */
  standby?: StandbyWatch | undefined
}

/**
 * What serves many owners: whoever takes a connection says on whose behalf, because one owner has at most
 * half of a pool, and what counts for nobody has no such bound.
 */
export interface Pools<Tables> {
  /** Everything but the call path, on behalf of an owner: each statement and each transaction counts once. */
  readonly of: (owner: Owner) => Db<Tables>
  /**
   * The same on nobody's behalf: for rounds over all owners, for operators, and to find out which owner a
   * request is about.
   */
  readonly ofNobody: Db<Tables>
  /**
   * The call path, introspect and consume, and nothing else, so that no negotiation keeps a call waiting;
   * shared in the same way. It runs single statements.
   */
  readonly callsOf: (owner: Owner) => Runner
  /** The connections of either pool: to count them, and for callers that act for no owner. */
  readonly pool: Pool
  readonly callPool: Pool
  readonly url: string
  /** Why reads fail that should not, as `watchReads` says; undefined if they do not. */
  readonly readFault: () => Promise<string | undefined>
  /** Undefined if answers need none. */
  readonly standby: StandbyWatch | undefined
  close(): Promise<void>
}

/** The pools of a command, which serves nobody: everything counts for nobody. */
export interface Database<Tables> extends Pools<Tables> {
  readonly db: Db<Tables>
  readonly calls: Runner
}

const INT8 = 20
const TIMESTAMPTZ = 1184

/** The last time that was read. What one statement wrote has one time, and is read one after the other. */
const lastTime = { text: '', iso: '' }

function isoTime(text: string): string {
  if (text !== lastTime.text) Object.assign(lastTime, { text, iso: new Date(text).toISOString() })
  return lastTime.iso
}

/** int8 as a number (our sequences stay far below 2^53) and timestamps as ISO 8601 in UTC. */
const types: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text') => {
    if (oid === INT8) return Number
    if (oid === TIMESTAMPTZ) return isoTime
    return (pgTypes.getTypeParser as (oid: number, format?: 'text') => unknown)(oid, format)
  }) as CustomTypesConfig['getTypeParser'],
}

/** The time for an answer to arrive after Postgres itself should have ended the statement. */
const ANSWER_GRACE_MS = 2_000

/**
 * Ends when nothing came or went for so long. A server that is frozen, or behind a network that drops
 * everything, ends no statement: its callers, and the connections they hold, would wait for ever.
 */
function impatientSocket(silenceMs: number): Socket {
  const socket = new Socket()
  socket.setTimeout(silenceMs, () => socket.destroy())
  return socket
}

/**
 * Runs one statement; `affected` are the rows written, undefined for a statement that answers rows without
 * being an INSERT or the like.
 */
export type Prepared<Row> = (
  db: Runner,
  values: readonly unknown[],
) => Promise<{ rows: Row[]; affected: bigint | undefined }>

/**
 * Declares a statement that Postgres plans once per connection and not at every use. It is for statements of
 * the call path and of negotiations, which find rows by the whole key, so that one plan suits all values.
 * Names are unique: Postgres would refuse a second text under the name of another. The name stands at the end
 * of the text, where whoever sends it finds it.
 */
export function prepared<Row = never>(name: string, text: string): Prepared<Row> {
  const named = `${text}\n/* prepared as ${name} */`
  return async (db, values) => {
    const { rows, numAffectedRows } = await db.executeQuery<Row>(CompiledQuery.raw(named, [...values]))
    return { rows, affected: numAffectedRows }
  }
}

/** The name that the statement was declared `prepared` under; undefined if it was not. */
function nameIn(text: string): string | undefined {
  return text.endsWith(' */') ? /\/\* prepared as ([a-z-]+) \*\/$/.exec(text)?.[1] : undefined
}

/**
 * Publishes each statement of every pool as it is sent, to listeners in this process
 * (node:diagnostics_channel); costs nothing if there are none.
 */
export const STATEMENTS_CHANNEL = 'usher:statements'
const statements = channel(STATEMENTS_CHANNEL)

/** What is published about a statement. Its values are people's: to be counted or explained, never logged. */
export interface SentStatement {
  text: string
  values: readonly unknown[]
  /** Whose share its connection is of; undefined: nobody's. */
  owner: string | undefined
}

function tell(client: Client, [first, second]: unknown[]): void {
  const { text, values } =
    typeof first === 'string' ? { text: first, values: second } : (first as SentStatement)
  const sent = { text, values: Array.isArray(values) ? values : [], owner: holderOf(client) }
  statements.publish(sent satisfies SentStatement)
}

/**
 * Sends a statement that was declared `prepared` under its name. If Postgres took it back and it was a
 * transaction by itself, sends it again, as `retried` says. Within one, only the whole can be tried again.
 */
class PreparingClient extends Client {
  override query(...args: unknown[]): never {
    if (statements.hasSubscribers) tell(this, args)
    const [text, values, ...rest] = args
    const name = typeof text === 'string' ? nameIn(text) : undefined
    // oxlint-disable-next-line typescript/unbound-method -- called on this client
    const query = super.query as unknown as (this: Client, ...args: unknown[]) => unknown
    const send = (): unknown =>
      name === undefined ? query.apply(this, args) : query.call(this, { name, text, values }, ...rest)
    const isAlone = this.getTransactionStatus() === 'I'
    const isAnswered = !args.some(one => typeof one === 'function' || hasSubmit(one))
    return (isAlone && isAnswered ? retried(async () => send()) : send()) as never
  }
}

/** A query that says itself how it is sent, and answers no promise. */
const hasSubmit = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'submit' in value

/** Opens the pools. Nothing is connected until first use. */
export function openDatabase<Tables>(options: DatabaseOptions): Database<Tables> {
  const pool = openPool(options, options.poolMax)
  const callPool = openPool(options, options.callPoolMax ?? options.poolMax)
  const shares = {
    waitMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    survives: survivesOnItsConnection,
    fault: () => options.standby?.fault(),
  }
  const { of, ofNobody } = waysTo(
    sharePool(pool, shares),
    share => new Kysely<Tables>({ dialect: new PostgresDialect({ pool: share }) }),
  )
  const { of: callsOf, ofNobody: calls } = waysTo(sharePool(callPool, shares), runnerOf)
  if (options.notifies === false) tellNobody(ofNobody)
  const close = async (): Promise<void> => {
    await Promise.all([pool.end(), callPool.end(), options.standby?.close()])
  }
  const { url, standby } = options
  const onFault = options.onReadFault ?? (() => undefined)
  const readFault = watchReads(pool, { isOutage, onFault })
  const ways = { of, ofNobody, db: ofNobody, callsOf, calls }
  return { ...ways, pool, callPool, url, readFault, standby, close }
}

/** Each statement is a transaction by itself, and a connection that one broke is not used again. */
function runnerOf(pool: SharedPool): Runner {
  return {
    isTransaction: false,
    executeQuery: async <Row>({ sql: text, parameters }: CompiledQuery<Row>) => {
      const name = nameIn(text)
      const named = name === undefined ? {} : { name }
      const { rows } = await pool.query<Row & object>({ ...named, text, values: [...parameters] })
      return { rows }
    },
  }
}

const CONNECT_TIMEOUT_MS = 5_000
const STATEMENT_TIMEOUT_MS = 10_000
/**
 * A little longer than Postgres takes to look for a deadlock, so that a deadlock is reported as one, and
 * tried again.
 */
const LOCK_TIMEOUT_MS = 1_200

/** A transaction of ours that says nothing for so long has lost its caller. */
const IDLE_IN_TRANSACTION_MS = 15_000

function openPool(options: DatabaseOptions, max: number): Pool {
  const { standby, statementTimeoutMs = STATEMENT_TIMEOUT_MS } = options
  const limits = {
    statementMs: statementTimeoutMs,
    lockMs: options.lockTimeoutMs ?? LOCK_TIMEOUT_MS,
    idleInTransactionMs: IDLE_IN_TRANSACTION_MS,
  }
  const pool = new SteadyPool({
    Client: standby === undefined ? PreparingClient : withStandby(PreparingClient, standby),
    connectionString: options.url,
    stream: () => impatientSocket(statementTimeoutMs + ANSWER_GRACE_MS),
    // Sooner than a socket with nothing to do would lose its patience.
    idleTimeoutMillis: statementTimeoutMs,
    max,
    connectionTimeoutMillis: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
    application_name: 'usher',
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it, and gives up the connection where it rejects
    onConnect: async client => {
      await assertTakesWrites(client)
      await settleSession(client, limits)
      if (standby !== undefined) await client.query(WAITS_FOR_STANDBY)
      await workAsRuntimeRole(client)
    },
    types,
  })
  // Without a listener the process dies when Postgres ends a session that no statement is waiting on: one
  // that is idle (told by the pool), or one between two statements of a transaction (told by the connection
  // alone).
  pool.on('error', () => undefined)
  pool.on('connect', client => client.on('error', error => options.onConnectionError?.(error)))
  return pool
}

/**
 * What Postgres gave up for another statement and took back whole: a serialization failure, or a deadlock.
 */
const RETRYABLE = new Set(['40001', '40P01'])
const ATTEMPTS_MAX = 4
/** No attempt begins later, because callers here wait no longer for an answer. */
const RETRY_WITHIN_MS = 5_000
/** Doubled with each attempt; the pause is anything up to it, so that those who met do not meet again. */
const RETRY_PAUSE_MS = 20

/**
 * Runs `work` in one READ COMMITTED transaction; its return commits, its throw rolls back. A deadlock or
 * serialization failure is tried again as `retried` says, so `work` must have no effect outside the
 * transaction. Where something ended with it (`endsLeases`), returns once nobody relies on it any more.
 */
export function inTransaction<Tables, T>(db: Db<Tables>, work: (tx: Tx<Tables>) => Promise<T>): Promise<T> {
  const run = (once: (tx: Tx<Tables>) => Promise<T>): Promise<T> =>
    retried(() => db.transaction().setIsolationLevel('read committed').execute(once))
  // Work that follows the commit is not tried again.
  return tellAfterCommit(db, run, work)
}

/** Lets this transaction wait longer for rows that others hold: one that is in no caller's way. */
export async function waitLongerForRows(tx: Runner, ms: number): Promise<void> {
  await tx.executeQuery(CompiledQuery.raw(`SELECT set_config('lock_timeout', $1, true)`, [String(ms)]))
}

/**
 * Runs a whole transaction, or one statement that is one by itself, and runs it again if Postgres took it
 * back (40001, 40P01): four times at most, within 5 seconds, with pauses. Nothing else is tried again, least
 * of all after a lost connection: whether that committed is not known. A final failure is an outage by
 * `isOutage`.
 */
export async function retried<T>(work: () => Promise<T>): Promise<T> {
  const until = performance.now() + RETRY_WITHIN_MS
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!RETRYABLE.has(sqlState(error) ?? '')) throw error
      const pauseMs = Math.random() * RETRY_PAUSE_MS * 2 ** attempt
      if (attempt >= ATTEMPTS_MAX || performance.now() + pauseMs > until) throw error
      await delay(pauseMs)
    }
  }
}

/** Five signs, at least one of them a digit: what tells it from EPIPE. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/

/** The SQLSTATE of an error that Postgres answered with; undefined for one of the connection. */
export function sqlState(error: unknown): string | undefined {
  const code = codeOf(error)
  return code !== undefined && SQLSTATE.test(code) ? code : undefined
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/**
 * Whether an error says that Postgres could not be reached or gave up, rather than that a statement was
 * wrong: such an error is an outage (503), never a refusal.
 */
export function isOutage(error: unknown): boolean {
  const code = codeOf(error)
  if (code === undefined) return error instanceof Error && /connection|timeout|terminat/i.test(error.message)
  // Class 08 connection, 53 resources, 57 operator intervention (shutdown, statement timeout), 58 system;
  // 25006 is a standby's. A statement that was tried as often as allowed counts as an outage too: the next
  // request may succeed.
  return /^(08|53|57|58|25006)/.test(code) || TAKEN_BACK.has(code) || isOfConnection(code)
}

/** Another transaction kept a row for longer than `lock_timeout`. */
const LOCK_NOT_AVAILABLE = '55P03'
/** Nothing of the statement was done, and its connection is as good as before. */
const TAKEN_BACK = new Set([...RETRYABLE, LOCK_NOT_AVAILABLE])

function survivesOnItsConnection(error: unknown): boolean {
  return TAKEN_BACK.has(sqlState(error) ?? '') || !isOutage(error)
}

/** What the system, the stream, TLS or a file that the URL names reports about a connection. */
function isOfConnection(code: string): boolean {
  if (SQLSTATE.test(code)) return false
  return (
    OF_CERTIFICATE.test(code) ||
    /^(?:E[A-Z]+$|EAI_|ERR_(?:SSL|TLS|STREAM|SOCKET|OSSL_PEM|OSSL_X509)_)/.test(code)
  )
}

/** What OpenSSL, or Node about a host name, says of a certificate; these codes have no prefix in common. */
const OF_CERTIFICATE =
  /^(?:CERT_|CRL_|UNABLE_TO_|(?:DEPTH_ZERO_)?SELF_SIGNED_CERT|INVALID_(?:CA|PURPOSE)$|PATH_LENGTH_EXCEEDED$|ERR_TLS_CERT_)/

/** Whether an error says that the certificate of Postgres was not taken. It is an outage, too. */
export function isOfCertificate(error: unknown): boolean {
  return OF_CERTIFICATE.test(codeOf(error) ?? '')
}
