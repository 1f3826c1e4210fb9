/**
 * What every session of ours is set to, whatever the database, the log-in or the server is set to. Contract:
 * "What the service does": what is read and written means the same everywhere. Statements set it, because a
 * pooler between us and Postgres refuses start-up parameters that it does not know.
 */
import type { ClientBase } from 'pg'

/** How long what a session does may take, in milliseconds; 0 where nothing ends it. */
export interface SessionLimits {
  statementMs: number
  lockMs?: number
  idleInTransactionMs?: number
}

/**
 * What statements, and the reading of their answers, rely on. Not among them is whether writes are taken: a
 * primary that was retired is made read-only by such a setting, and must stay so.
 */
const SETTINGS = {
  // The driver reads dates, intervals, arrays, bytes and floats in these forms alone.
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  client_encoding: 'UTF8',
  bytea_output: 'hex',
  extra_float_digits: '1',
  // Statements are written for these.
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  // Two cells are compared by the names of their columns.
  quote_all_identifiers: 'off',
  // Rows that a policy keeps back are a fault, and not rows that are not there.
  row_security: 'off',
  // A statement that is refused is an answer, and not the end of the session.
  exit_on_error: 'off',
  // A warning is how Postgres tells of a commit that no standby has.
  client_min_messages: 'notice',
  // We end what is idle, and what takes too long, ourselves.
  idle_session_timeout: '0',
  transaction_timeout: '0',
}

/** A setting that a version of Postgres does not know has no current value, and is left out. */
const SET = `SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS wanted (name, value)
  WHERE current_setting(name, true) <> value`

/**
 * `used`: a pooler that resets nothing gave us a session of another client of ours, with its role, and with
 * its prepared statements. `ours`: the schema of our tables, first of the search path, else `public`.
 */
const FACTS = `SELECT current_user <> session_user AND current_user LIKE 'usher\\_runtime%' AS used,
  current_setting('server_encoding') AS encoding,
  current_setting('synchronous_commit') AS commits, current_setting('fsync')::boolean AS fsync,
  current_setting('session_replication_role') AS replication, current_setting('search_path') AS path,
  nullif(current_schema()::text, 'pg_catalog') AS first, (SELECT n.nspname::text FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE relname = 'schema_migrations' AND relkind IN ('r', 'p')
      AND (nspname = 'public' OR nspname = ANY(current_schemas(false)))
      AND EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = c.oid AND attname = 'sha256')
    ORDER BY array_position(current_schemas(false), nspname) LIMIT 1) AS ours,
  current_schemas(false)::text[] AS schemas`

interface Facts {
  used: boolean
  encoding: string
  commits: string
  fsync: boolean
  replication: string
  path: string
  first: string | null
  ours: string | null
  schemas: string[]
}

/** A database that answers, set so that it cannot be used: an outage to `isOutage` that no waiting mends. */
export class Unusable extends Error {
  readonly code = 'EUNUSABLE'
}

/**
 * Sets a new session to what we rely on; to be called before anything else is asked of it. @throws Unusable
 * naming the setting, and what to do, if the database cannot be used as it is.
 */
export async function settleSession(client: ClientBase, limits: SessionLimits): Promise<void> {
  let facts = await factsOf(client)
  if (facts.used) {
    await client.query('DISCARD ALL')
    facts = await factsOf(client)
  }
  const settings = { ...SETTINGS, ...limitSettings(limits), ...settingsFor(facts) }
  await client.query(SET, [Object.keys(settings), Object.values(settings)])
}

async function factsOf(client: ClientBase): Promise<Facts> {
  const { rows } = await client.query<Facts>(FACTS)
  return rows[0]!
}

function limitSettings({ statementMs, lockMs = 0, idleInTransactionMs = 0 }: SessionLimits): object {
  return {
    statement_timeout: String(statementMs),
    lock_timeout: String(lockMs),
    idle_in_transaction_session_timeout: String(idleInTransactionMs),
  }
}

function settingsFor(facts: Facts): object {
  const path = { search_path: `"${schemaOf(facts).replaceAll('"', '""')}"` }
  // Everything that is acknowledged must be on disk. A server without fsync keeps nothing there.
  return facts.commits === 'off' && facts.fsync ? { ...path, synchronous_commit: 'local' } : path
}

/** The one schema that the session works in; it stays the same once the session takes another role. */
function schemaOf({ encoding, replication, path, first, ours, schemas }: Facts): string {
  if (encoding !== 'UTF8')
    throw new Unusable(
      `the encoding of the database is ${encoding}, which cannot hold every text: make one with ENCODING 'UTF8'`,
    )
  if (replication !== 'origin')
    throw new Unusable(
      `session_replication_role is ${replication}, with which Postgres checks no foreign key: RESET it for this role and database`,
    )
  if (ours !== null && (first === null || schemas.includes(ours))) return ours
  if (ours !== null)
    throw new Unusable(
      `search_path (${path}) leads to the schema ${first}, and usher's tables are in ${ours}: ALTER ROLE … SET search_path = ${ours}, or give usher a database of its own`,
    )
  if (first === null)
    throw new Unusable(
      `search_path (${path}) names no schema that is there and that we may use: ALTER ROLE … SET search_path = public, or CREATE SCHEMA`,
    )
  return first
}
