/**
 * Locks by name that end with the process that holds them: a row, locked by a transaction that stays open
 * on a connection of its own.
 * Contract: "What the service does": what several replicas begin at once, one does.
 */
import { escapeLiteral } from 'pg'
import { sqlState } from './database.ts'
import { openConnection } from './connection.ts'

export interface SessionLock {
  release(): Promise<void>
}

/** Another holds it; or another is just making the table, or the row. */
const NOT_NOW = new Set(['55P03', '23505', '42P07', '42710', '40001', '40P01'])

/**
 * Takes the lock of this name in the database, unless another process has it: undefined. Makes the table of
 * locks if there is none, so it needs the log-in that owns the tables.
 */
export async function tryLock(url: string, name: string): Promise<SessionLock | undefined> {
  const connection = await openConnection({ url, name: 'usher-lock' })
  const { client } = connection
  try {
    // The transaction does nothing for as long as the lock is held.
    await client.query('SET idle_in_transaction_session_timeout = 0')
    await client.query('CREATE TABLE IF NOT EXISTS locks (name text PRIMARY KEY)')
    await client.query('INSERT INTO locks (name) VALUES ($1) ON CONFLICT DO NOTHING', [name])
    await client.query('BEGIN')
    // Without parameters, for a statement with some keeps its snapshot while the transaction is open, and an
    // index that is made concurrently waits for everybody who has one.
    const { rowCount } = await client.query(
      `SELECT FROM locks WHERE name = ${escapeLiteral(name)} FOR UPDATE NOWAIT`,
    )
    if (rowCount === 1) return { release: () => connection.close() }
  } catch (error) {
    if (!NOT_NOW.has(sqlState(error) ?? '')) {
      connection.drop()
      throw error
    }
  }
  await connection.close()
  return undefined
}
