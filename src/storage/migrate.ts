/**
 * Applies a party's migrations (migrations/<party>/*.sql) in order, forward only, each in a transaction of
 * its own. Safe when many replicas start at once: one lock is held throughout, and the others find nothing
 * left to do. docs/choices.md, "Storage": a migration is never edited, which is checked by digest.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { openConnection } from './core/connection.ts'
import { grantPrivileges, isRoleShared, obtainRuntimeRole, type Privileges } from './core/runtime-role.ts'
import { tryLock, type SessionLock } from './core/lock.ts'
import { withProgress } from './core/database-wait.ts'
import { applyMigration, readMigrations, type Migration } from './migrations.ts'
import { assertOurTables, withRemedy } from './whose-tables.ts'

const MIGRATIONS = new URL('../../migrations/', import.meta.url)
const LOCK = 'migrations'
const LOCK_PAUSE_MS = 100
const LOCK_MS_MAX = 600_000
/** Building an index of a large table takes minutes, but must not take for ever. */
const STATEMENT_MS_MAX = 600_000

/** The migrations and roles of one party's database. Each party has its own database. */
export interface PartySchema extends Privileges {
  /** The folder of the party's migrations, inside the folder of all migrations. */
  readonly party: string
}

const folderOf = (party: string): URL => new URL(`${party}/`, MIGRATIONS)

/**
 * Brings the database at `url` up to date.
 * @param tell called after a second, and then every 5, with what is waited for, and with what there is to
 * say about the role.
 * @returns the names applied by this call (empty if another replica was first).
 * @throws Error when an applied migration has since been edited, when the database is so new that this
 * program does not work with it, when the log-in may not make or change the tables, saying what to do, and
 * like `refuseEarlier`.
 */
export async function migrate(
  url: string,
  schema: PartySchema,
  tell: (line: string) => void = () => undefined,
  folder: URL = folderOf(schema.party),
): Promise<string[]> {
  const migrations = await readMigrations(folder)
  let doing = 'opening the database'
  const work = async (): Promise<string[]> => {
    const connection = await openConnection({ url, name: 'usher-migrate', statementMs: STATEMENT_MS_MAX })
    const { client } = connection
    let migrationLock: SessionLock | undefined
    const refused = async (error: unknown): Promise<never> => {
      throw await withRemedy(client, error)
    }
    try {
      await assertOurTables(client, migrations)
      doing = 'another process that migrates'
      migrationLock = await lock(url).catch(refused)
      doing = 'the migrations'
      await assertOurTables(client, migrations)
      const obtained = await obtainRuntimeRole(client)
      if (obtained.notice !== undefined) tell(obtained.notice)
      const applied = await applyAll(client, schema.party, migrations).catch(refused)
      await grantPrivileges(client, obtained, { ...schema, migrated: applied.length > 0 })
      return applied
    } finally {
      await connection.close()
      await migrationLock?.release()
    }
  }
  return withProgress(() => `waiting for ${doing}, to bring the database up to date`, tell, work)
}

/**
 * For a start that does not migrate. @throws Error saying what to do if the database was made before the
 * first release, is another program's or another party's, lacks a migration that this program needs, or has
 * one that this program does not work with. Other newer ones are accepted, because replicas are replaced one
 * by one.
 * @param by the setting that keeps this start from migrating, and the command that migrates.
 */
export async function refuseEarlier(
  url: string,
  { party }: Pick<PartySchema, 'party'>,
  by: { setting: string; command: string },
  folder: URL = folderOf(party),
): Promise<void> {
  const connection = await openConnection({ url, name: 'usher-start' })
  try {
    const migrations = await readMigrations(folder)
    await assertOurTables(connection.client, migrations)
    const rows = await appliedRows(connection.client, party)
    assertWorksWith(rows, migrations)
    const missing = missingOf(rows, migrations)
    if (missing.length > 0)
      throw new Error(
        `${by.setting} is false, and the database of DATABASE_URL lacks ${missing.length} of our migrations, from ${missing[0]} on: run \`${by.command}\` first, or set ${by.setting}=true.`,
      )
  } finally {
    await connection.close()
  }
}

/** What an inspection of a database found. */
export interface DatabaseLook {
  /** Names of the migrations that it lacks. */
  missing: string[]
  /** The database's clock minus this machine's, in seconds, accurate to half of `roundTripMs`. */
  clockAhead: number
  roundTripMs: number
  /** Whether the role that other databases of the cluster may share has rights in this one. */
  sharedRole: boolean
}

/**
 * Inspects a database without changing it. @throws Error like `refuseEarlier`, except for missing migrations.
 */
export async function lookAt(url: string, party: string): Promise<DatabaseLook> {
  const connection = await openConnection({ url, name: 'usher-doctor' })
  try {
    const migrations = await readMigrations(folderOf(party))
    await assertOurTables(connection.client, migrations)
    const sentAt = Date.now()
    const { rows } = await connection.client.query<{ now: number }>(
      'SELECT extract(epoch FROM clock_timestamp())::float8 AS now',
    )
    const answered = Date.now()
    const clockAhead = rows[0]!.now - (sentAt + answered) / 2_000
    const applied = await appliedRows(connection.client, party)
    const missing = missingOf(applied, migrations)
    const sharedRole = await isRoleShared(connection.client)
    return { missing, clockAhead, roundTripMs: answered - sentAt, sharedRole }
  } finally {
    await connection.close()
  }
}

function missingOf(rows: AppliedRow[], migrations: Migration[]): string[] {
  const applied = new Set(rows.map(row => row.number))
  return migrations.filter(({ number }) => !applied.has(number)).map(({ name }) => name)
}

/** @throws Error if the database has a migration that only works with programs that know a later one. */
function assertWorksWith(rows: AppliedRow[], migrations: Migration[]): void {
  const known = new Set(migrations.map(({ number }) => number))
  const row = rows.find(({ number, needs }) => !known.has(number) && needs !== 0 && !known.has(needs))
  if (row !== undefined)
    throw new Error(
      `The database holds migration ${row.name}, unknown to this program, which does not work with it: run a newer usher.`,
    )
}

interface AppliedRow {
  number: number
  party: string
  name: string
  sha256: string
  /** The same as for a migration. */
  needs: number
}

/** The applied migrations; none if the database is new. @throws Error if it is another party's. */
async function appliedRows(client: Client, party: string): Promise<AppliedRow[]> {
  const { rows: found } = await client.query<{ made: boolean }>(
    `SELECT to_regclass('schema_migrations') IS NOT NULL AS made`,
  )
  if (found[0]?.made !== true) return []
  const { rows } = await client.query<AppliedRow>(
    // A table from before 0.2.0 does not say which program a migration needs: there it is the migration
    // itself.
    `SELECT number, party, name, sha256, coalesce((to_jsonb(m) ->> 'needs')::int, number) AS needs
      FROM schema_migrations m ORDER BY number`,
  )
  const another = rows.find(row => row.party !== party)
  if (another !== undefined)
    throw new Error(
      `DATABASE_URL leads to a database of another party (${another.party}): ${party} needs one of its own.`,
    )
  return rows
}

/** Tries again and again, because a waiting statement would not notice that the server falls silent. */
async function lock(url: string): Promise<SessionLock> {
  const until = performance.now() + LOCK_MS_MAX
  for (;;) {
    const migrationLock = await tryLock(url, LOCK)
    if (migrationLock !== undefined) return migrationLock
    if (performance.now() > until)
      throw new Error(
        'Another process has been migrating the database for 10 minutes: check what it waits for.',
      )
    await delay(LOCK_PAUSE_MS)
  }
}

async function applyAll(client: Client, party: string, migrations: Migration[]): Promise<string[]> {
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migrations (number integer PRIMARY KEY, party text NOT NULL,
    name text NOT NULL, sha256 text NOT NULL, needs integer, applied_at timestamptz NOT NULL DEFAULT now())`)
  // From before 0.2.0.
  const { rowCount } = await client.query(
    `SELECT FROM pg_attribute WHERE attrelid = 'schema_migrations'::regclass AND attname = 'needs'`,
  )
  if (rowCount === 0) await client.query('ALTER TABLE schema_migrations ADD COLUMN needs integer')
  const rows = await appliedRows(client, party)
  const applied = new Map(rows.map(row => [row.number, row]))
  assertWorksWith(rows, migrations)
  const done: string[] = []
  for (const migration of migrations) {
    const before = applied.get(migration.number)
    if (before !== undefined) {
      if (before.sha256 !== migration.sha256)
        throw new Error(`Migration ${migration.name} was edited after it was applied: add a new one instead.`)
      continue
    }
    await applyMigration(client, party, migration)
    done.push(migration.name)
  }
  return done
}
