/**
 * One migration: what its file says about it, and how it is applied while earlier programs go on serving.
 * docs/upgrading.md: a schema is expanded first, and contracted when nobody needs the old part. Contract:
 * "What the service does", meanwhile too.
 */
import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { sqlState } from './core/database.ts'

export interface Migration {
  number: number
  name: string
  sql: string
  sha256: string
  /**
   * A program works with the resulting schema if it knows the migration of this number: 0 if any program
   * works, its own number if only programs that bring it do.
   */
  needs: number
  /** Whether it is one statement that Postgres refuses inside a transaction. */
  alone: boolean
}

/** `-- expand`, `-- contract: needs 0025`, either with `, alone`. */
const HEADER = /^-- (?:expand|contract: needs (\d{4}))(, alone)?$/m
/** Statements that may run alone, because they can be repeated after an interruption. */
const INDEX = /^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)\s[^;]*;?\s*$/

/**
 * The migrations of a folder, in order. A file without a header counts as needed by every program. @throws
 * Error if one runs a statement alone that cannot be repeated.
 */
export async function readMigrations(folder: URL): Promise<Migration[]> {
  const names = (await readdir(folder)).filter(name => /^\d{4}_\w+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async name => {
      const sql = await readFile(new URL(name, folder), 'utf8')
      const sha256 = createHash('sha256').update(sql).digest('hex')
      const number = Number(name.slice(0, 4))
      const header = HEADER.exec(sql)
      const needs = header === null ? number : Number(header[1] ?? 0)
      const alone = header?.[2] !== undefined
      if (alone && !INDEX.test(statementOf(sql)))
        throw new Error(
          `Migration ${name} is to run alone: make it one CREATE INDEX CONCURRENTLY IF NOT EXISTS.`,
        )
      return { number, name, sql, sha256, needs, alone }
    }),
  )
}

const statementOf = (sql: string): string => sql.replaceAll(/^--.*\n/gm, '').trim()

/** A statement that waits for a table blocks everybody else behind it. */
const TABLE_WAIT_MS = 1_000
/** Others use the table meanwhile. */
const PAUSE_MS = 1_000
/** With the pause after each, ten minutes in all. */
const WAITS_MAX = 300
/** A table in use, a deadlock, a serialization failure: what Postgres took back whole, or left invalid. */
const TAKEN_BACK = new Set(['55P03', '40P01', '40001'])

/**
 * Applies it, and records it as the party's. If a table is in use, it waits one second at a time, for ten
 * minutes in all. @throws Error with the name of the migration.
 */
export async function applyMigration(client: Client, party: string, migration: Migration): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await (migration.alone
        ? applyAlone(client, party, migration)
        : applyWhole(client, party, migration))
    } catch (error) {
      if (!TAKEN_BACK.has(sqlState(error) ?? '') || attempt === WAITS_MAX)
        throw new Error(`Migration ${migration.name} failed: ${(error as Error).message}`, { cause: error })
      await delay(PAUSE_MS)
    }
  }
}

async function applyWhole(client: Client, party: string, migration: Migration): Promise<void> {
  await client.query('BEGIN')
  try {
    await client.query(`SET LOCAL lock_timeout = ${TABLE_WAIT_MS}`)
    await client.query(migration.sql)
    await record(client, party, migration)
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  }
}

/** An index whose creation was interrupted exists but is invalid, so it is dropped and created again. */
async function applyAlone(client: Client, party: string, migration: Migration): Promise<void> {
  const statement = statementOf(migration.sql)
  const index = INDEX.exec(statement)![1]!
  const { rows } = await client.query<{ valid: boolean }>(
    'SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass($1)',
    [index],
  )
  if (rows[0]?.valid === false) await client.query(`DROP INDEX CONCURRENTLY ${index}`)
  await client.query(statement)
  await record(client, party, migration)
}

async function record(client: Client, party: string, migration: Migration): Promise<void> {
  const { number, name, sha256, needs } = migration
  await client.query(
    'INSERT INTO schema_migrations (number, party, name, sha256, needs) VALUES ($1, $2, $3, $4, $5)',
    [number, party, name, sha256, needs],
  )
}
