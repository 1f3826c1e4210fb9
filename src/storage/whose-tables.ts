/**
 * Whose tables a database has, before anything of ours is done to it. docs/choices.md, "Storage": names such
 * as `schema_migrations` or `locks` are common, so a table is known by its columns, not by its name. Also
 * what a log-in lacks that may not make or change them.
 */
import type { Client } from 'pg'
import { sqlState } from './core/database.ts'
import type { Migration } from './migrations.ts'

/** Columns that the table of migrations has had ever since there was one. */
const ALWAYS = ['number', 'name', 'sha256']
/** Every column that it ever had, before the first release or since. */
const EVER = new Set([...ALWAYS, 'party', 'needs', 'applied_at'])

interface Relation {
  name: string
  isTable: boolean
  columns: string[]
}

/**
 * @throws Error saying what to do if the database has another program's tables, or was made by usher before
 * its first release. Changes nothing.
 * @param migrations ours: where none is applied yet, the names that they make must be free.
 */
export async function assertOurTables(client: Client, migrations: readonly Migration[]): Promise<void> {
  const found = await relations(client, ['schema_migrations', 'locks', ...migrations.flatMap(namesMadeBy)])
  const applied = found.find(({ name }) => name === 'schema_migrations')
  if (applied !== undefined) return assertOurMigrations(applied)
  // The lock is taken before the first migration, so it may be there without any.
  const others = found.filter(one => !isOurLocks(one)).map(({ name }) => name)
  if (others.length > 0) throw foreign(`it has ${others.slice(0, 3).join(', ')} and no migration of usher`)
}

/** A privilege is missing; no schema of the search path may be used. */
const WITHOUT_RIGHTS = new Set(['42501', '3F000'])

/** What a log-in may do with the tables here; names are identifiers in SQL, for an administrator to copy. */
interface Rights {
  login: string
  database: string
  schema: string
  /** Whether it may make tables in that schema. */
  creates: boolean
  /** To whom our tables belong, if that is another log-in. */
  owner: string | null
}

/**
 * What to throw if a statement that makes or changes tables failed with `error`: if the log-in of `client`
 * lacks the rights for it, an Error that says what to do. Otherwise `error` itself.
 */
export async function withRemedy(client: Client, error: unknown): Promise<unknown> {
  const { message, cause } = error as Error
  // A migration that failed has the error of Postgres as its cause.
  if (!WITHOUT_RIGHTS.has(sqlState(error) ?? sqlState(cause) ?? '')) return error
  const { rows } = await client.query<Rights>(
    `SELECT quote_ident(session_user) AS login, quote_ident(current_database()) AS database,
      quote_ident(coalesce(current_schema(), 'public')) AS schema,
      coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS creates,
      (SELECT quote_ident(tableowner) FROM pg_tables WHERE schemaname = current_schema()
        AND tablename IN ('locks', 'schema_migrations') AND NOT pg_has_role(tableowner, 'USAGE') LIMIT 1) AS owner`,
  )
  const { login, database, schema, creates, owner } = rows[0]!
  if (owner !== null)
    return new Error(
      `${message}. The tables of this database belong to ${owner}, and only that log-in may migrate them: name it in DATABASE_URL.`,
      { cause: error },
    )
  if (creates) return error
  return new Error(
    `${message}. The log-in may make no tables here: have an administrator run ALTER DATABASE ${database} OWNER TO ${login}; or, in that database, GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${login};`,
    { cause: error },
  )
}

/**
 * The migrations began anew with the first release: before that they did not say which party they belonged
 * to.
 */
function assertOurMigrations({ isTable, columns }: Relation): void {
  if (!isTable || !ALWAYS.every(column => columns.includes(column)) || !columns.every(one => EVER.has(one)))
    throw foreign(`its schema_migrations has the columns ${columns.slice(0, 5).join(', ')}`)
  if (!columns.includes('party'))
    throw new Error(
      'The database was made by usher before its first release, and is not brought up to date: make a new, empty database and name that in DATABASE_URL.',
    )
}

const isOurLocks = ({ name, isTable, columns }: Relation): boolean =>
  name === 'locks' && isTable && columns.join() === 'name'

const foreign = (because: string): Error =>
  new Error(
    `DATABASE_URL leads to another program's tables: give usher a database of its own (CREATE DATABASE usher), and name that. Nothing was changed there; ${because}.`,
  )

const MAKES = /^\s*CREATE (?:TABLE|SEQUENCE|(?:UNIQUE )?INDEX)(?: CONCURRENTLY)?(?: IF NOT EXISTS)? (\w+)/gm

/** The tables, sequences and indexes that a migration makes: they share one space of names. */
function namesMadeBy({ sql }: Migration): string[] {
  return [...sql.matchAll(MAKES)].map(([, name]) => name!).filter(name => name !== 'ON')
}

async function relations(client: Client, names: string[]): Promise<Relation[]> {
  const { rows } = await client.query<Relation>(
    `SELECT relname::text AS name, relkind IN ('r', 'p') AS "isTable", ARRAY(SELECT attname::text FROM pg_attribute
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum) AS columns
      FROM pg_class c WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relname = ANY($1)
      ORDER BY relname`,
    [names],
  )
  return rows
}
