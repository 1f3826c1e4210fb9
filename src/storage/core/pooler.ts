/**
 * Whether a pooler between us and Postgres keeps a session together. Locks, LISTEN, the role that requests
 * are served as and the settings of a session all end with it, so one whose statements go to several
 * connections serves nobody. Contract: "What the service does".
 */
import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { Unusable } from './session.ts'

const ROUNDS = 3

/** What PgBouncer answers where it means its own rules. */
const PROTOCOL_VIOLATION = '08P01'

/** Whether a pooler refuses us because of what a connection begins with: waiting mends nothing. */
export function refusesStartUp(error: unknown): boolean {
  return isProtocolViolation(error) && /startup parameter/i.test((error as Error).message)
}

function isProtocolViolation(error: unknown): boolean {
  return (error as { code?: string }).code === PROTOCOL_VIOLATION
}

/**
 * @throws Unusable if the statements of one session go to several connections, or several sessions share one
 * (PgBouncer's pool modes `transaction` and `statement`).
 * @param second a session beside it.
 */
export async function assertKeepsSessions(first: Client, second: () => Promise<Client>): Promise<void> {
  if (await leadsToPostgresItself(first)) return
  const other = await second()
  for (let round = 0; round < ROUNDS; round++) if (!(await staysApart(first, other))) throw poolerUnusable()
}

/** A pooler cannot give Postgres' own number of a process to its clients, which cancel statements by it. */
async function leadsToPostgresItself(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return rows[0]?.pid === (client as Client & { processID?: number | null }).processID
}

/** Each session sees only its own settings, even while the other keeps a connection to itself. */
async function staysApart(first: Client, other: Client): Promise<boolean> {
  const mark = randomUUID()
  await first.query(`SELECT set_config('usher.session', $1, false)`, [mark])
  try {
    await other.query('BEGIN')
    try {
      if ((await markOf(other)) === mark) return false
      return (await markOf(first)) === mark
    } finally {
      await other.query('COMMIT')
    }
  } catch (error) {
    // In statement mode no transaction may begin.
    if (isProtocolViolation(error)) return false
    throw error
  }
}

async function markOf(client: Client): Promise<string | null> {
  const { rows } = await client.query<{ mark: string | null }>(
    `SELECT current_setting('usher.session', true) AS mark`,
  )
  return rows[0]?.mark ?? null
}

const poolerUnusable = (): Unusable =>
  new Unusable(
    'a pooler there (PgBouncer) gives the statements of one session to several connections, and locks, notifications and roles do not outlive a transaction: set pool_mode = session for this database, or name Postgres itself in DATABASE_URL',
  )
