/**
 * Applies a party's migrations (migrations/<party>/*.sql) in order, forward only, each in a transaction of
 * its own. Safe when many replicas start at once: one advisory lock is held throughout, and the others find
 * nothing left to do. docs/choices.md, "Storage": a migration is never edited, which is checked by digest.
 */
import { createHash } from 'node:crypto'
import { readFile, readdir } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { openConnection } from './core/connection.ts'
import { ensureRuntimeRole, type Privileges } from './core/runtime-role.ts'
import { telling } from './core/database-wait.ts'

const MIGRATIONS = new URL('../../migrations/', import.meta.url)
/** Any constant: the lock's name within the database. */
const LOCK = 7_348_201_165
const LOCK_PAUSE_MS = 100
const LOCK_MS_MAX = 600_000
/** An index of a large table takes minutes; for ever takes none. */
const STATEMENT_MS_MAX = 600_000

/** What a party keeps in its database. Each has one of its own. */
export interface Schema extends Privileges {
  /** The folder of its migrations. */
  readonly party: string
}

interface Migration {
  number: number
  name: string
  sql: string
  sha256: string
}

/**
 * Brings the database at `url` up to date.
 * @param tell told every 5 seconds what is waited for.
 * @returns the names applied by this call (empty where another replica was first).
 * @throws Error when an applied migration has since been edited, when the database is newer than this
 * program, and as `refuseEarlier` does.
 */
export async function migrate(
  url: string,
  schema: Schema,
  tell: (line: string) => void = () => undefined,
): Promise<string[]> {
  const migrations = await readMigrations(schema.party)
  let doing = 'opening the database'
  const work = async (): Promise<string[]> => {
    const connection = await openConnection({ url, name: 'usher-migrate', statementMs: STATEMENT_MS_MAX })
    try {
      doing = 'another process that migrates'
      await lock(connection.client)
      doing = 'the migrations'
      await assertReleased(connection.client)
      const applied = await applyAll(connection.client, schema.party, migrations)
      await ensureRuntimeRole(connection.client, schema, { migrated: applied.length > 0 })
      return applied
    } finally {
      await connection.close()
    }
  }
  return telling(() => `waiting for ${doing}, to bring the database up to date`, tell, work)
}

/**
 * For a start that does not migrate. @throws Error saying what to do where the database was made before the
 * first release.
 */
export async function refuseEarlier(url: string): Promise<void> {
  const connection = await openConnection({ url, name: 'usher-start' })
  try {
    await assertReleased(connection.client)
  } finally {
    await connection.close()
  }
}

/** The migrations began anew with the first release: until then they did not say whose they were. */
async function assertReleased(client: Client): Promise<void> {
  const { rows } = await client.query<{ earlier: boolean }>(
    `SELECT to_regclass('schema_migrations') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_attribute
      WHERE attrelid = to_regclass('schema_migrations') AND attname = 'party' AND NOT attisdropped) AS earlier`,
  )
  if (rows[0]?.earlier === true)
    throw new Error(
      'The database was made by usher before its first release, and is not brought up to date: make a new, empty database and name that in DATABASE_URL.',
    )
}

/**
 * Asked for again and again: a statement that waits would not be heard to end where the server falls silent.
 */
async function lock(client: Client): Promise<void> {
  const until = performance.now() + LOCK_MS_MAX
  for (;;) {
    const { rows } = await client.query<{ had: boolean }>('SELECT pg_try_advisory_lock($1) AS had', [LOCK])
    if (rows[0]?.had === true) return
    if (performance.now() > until)
      throw new Error(
        'Another process has been migrating the database for 10 minutes: see what it waits for.',
      )
    await delay(LOCK_PAUSE_MS)
  }
}

async function applyAll(client: Client, party: string, migrations: Migration[]): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migrations (number integer PRIMARY KEY, party text NOT NULL,
    name text NOT NULL, sha256 text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
  const { rows } = await client.query<{ number: number; party: string; name: string; sha256: string }>(
    'SELECT number, party, name, sha256 FROM schema_migrations ORDER BY number',
  )
  const another = rows.find(row => row.party !== party)
  if (another !== undefined)
    throw new Error(
      `DATABASE_URL leads to a database of another party (${another.party}): ${party} needs one of its own.`,
    )
  const applied = new Map(rows.map(row => [row.number, row]))
  const known = new Set(migrations.map(migration => migration.number))
  for (const row of rows) {
    if (!known.has(row.number))
      throw new Error(`The database holds migration ${row.name}, unknown to this program: run a newer usher.`)
  }
  const done: string[] = []
  for (const migration of migrations) {
    const before = applied.get(migration.number)
    if (before !== undefined) {
      if (before.sha256 !== migration.sha256)
        throw new Error(`Migration ${migration.name} was edited after it was applied: add a new one instead.`)
      continue
    }
    await apply(client, party, migration)
    done.push(migration.name)
  }
  return done
}

async function apply(client: Client, party: string, migration: Migration): Promise<void> {
  await client.query('BEGIN')
  try {
    await client.query(migration.sql)
    const { number, name, sha256 } = migration
    await client.query(
      'INSERT INTO schema_migrations (number, party, name, sha256) VALUES ($1, $2, $3, $4)',
      [number, party, name, sha256],
    )
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw new Error(`Migration ${migration.name} failed: ${(error as Error).message}`, { cause: error })
  }
}

async function readMigrations(party: string): Promise<Migration[]> {
  const folder = new URL(`${party}/`, MIGRATIONS)
  const names = (await readdir(folder)).filter(name => /^\d{4}_\w+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async name => {
      const sql = await readFile(new URL(name, folder), 'utf8')
      const sha256 = createHash('sha256').update(sql).digest('hex')
      return { number: Number(name.slice(0, 4)), name, sql, sha256 }
    }),
  )
}
