/**
 * The role that requests are served as. Every pooled connection takes it, even if the same login migrates:
 * Postgres withholds from it whatever must not be changed, whatever a statement says. Contract: "Grant answer
 * (beat 4)" (both sides hold the receipt).
 */
import type { ClientBase } from 'pg'

/** One name for all databases of a cluster. The log-in of the authority must be a member of it. */
export const RUNTIME_ROLE = 'usher_runtime'
/** What the role may do with a party's tables: anything, except what is named here. */
export interface Privileges {
  /** Tables that it may add to and read, and nothing else. */
  readonly appendOnly: readonly string[]
  /** Sequences that it takes numbers from. */
  readonly sequences: readonly string[]
}

/** It may read these alone. */
const READ_ONLY = ['schema_migrations']

/**
 * Makes the role if there is none, and gives it the privileges that it needs in this database. Does nothing
 * if everything is in place, so that a start changes nothing. @throws Error saying what to do if the login
 * may not make roles.
 */
export async function ensureRuntimeRole(
  client: ClientBase,
  { appendOnly, sequences }: Privileges,
  { migrated }: { migrated: boolean },
): Promise<void> {
  if (!(await exists(client))) await createRole(client)
  if (!(await isMember(client))) await client.query(`GRANT ${RUNTIME_ROLE} TO CURRENT_USER`)
  if (!migrated && (await hasItsPrivileges(client, appendOnly))) return
  const { rows } = await client.query<{ schema: string; tables: string[] }>(
    `SELECT quote_ident(current_schema()) AS schema, ARRAY(SELECT quote_ident(tablename) FROM pg_tables
      WHERE schemaname = current_schema() AND tableowner = current_user) AS tables`,
  )
  const { schema, tables } = rows[0]!
  await client.query(`
    GRANT USAGE ON SCHEMA ${schema} TO ${RUNTIME_ROLE};
    ${sequences.length === 0 ? '' : `GRANT USAGE ON SEQUENCE ${sequences.join(', ')} TO ${RUNTIME_ROLE};`}
    GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables.join(', ')} TO ${RUNTIME_ROLE};
    REVOKE UPDATE, DELETE, TRUNCATE ON ${appendOnly.join(', ')} FROM ${RUNTIME_ROLE};
    REVOKE INSERT, UPDATE, DELETE ON ${READ_ONLY.join(', ')} FROM ${RUNTIME_ROLE}`)
}

/** Makes a new connection work as the role. @throws Error saying what to do if it may not. */
export async function workAsRuntimeRole(client: ClientBase): Promise<void> {
  try {
    await client.query(`SET ROLE ${RUNTIME_ROLE}`)
  } catch (error) {
    // 22023: there is no such role; 42501: the log-in is not a member.
    if (!['22023', '42501'].includes((error as { code?: string }).code ?? '')) throw error
    throw new Error(
      `The log-in of DATABASE_URL cannot work as the role ${RUNTIME_ROLE}: run \`usher migrate\`, or have an administrator run GRANT ${RUNTIME_ROLE} TO it.`,
      { cause: error },
    )
  }
}

async function exists(client: ClientBase): Promise<boolean> {
  const { rowCount } = await client.query('SELECT FROM pg_roles WHERE rolname = $1', [RUNTIME_ROLE])
  return rowCount !== 0
}

async function createRole(client: ClientBase): Promise<void> {
  try {
    await client.query(`CREATE ROLE ${RUNTIME_ROLE} NOLOGIN`)
  } catch (error) {
    // Another database of this cluster was quicker: roles are the cluster's.
    if (await exists(client)) return
    throw new Error(
      `The log-in may not make the role ${RUNTIME_ROLE}: have an administrator run CREATE ROLE ${RUNTIME_ROLE} NOLOGIN and GRANT ${RUNTIME_ROLE} TO it.`,
      { cause: error },
    )
  }
}

/** From Postgres 16 on a member may be one that cannot become the role. */
async function isMember(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ version: number }>(
    `SELECT current_setting('server_version_num')::int AS version`,
  )
  const how = rows[0]!.version >= 160_000 ? 'SET' : 'MEMBER'
  const { rows: found } = await client.query<{ member: boolean }>(
    'SELECT pg_has_role(current_user, $1, $2) AS member',
    [RUNTIME_ROLE, how],
  )
  return found[0]!.member
}

/** Asked of every table, because tables that were restored from a dump may lack privileges. */
async function hasItsPrivileges(client: ClientBase, appendOnly: readonly string[]): Promise<boolean> {
  const { rows } = await client.query<{ has: boolean }>(
    `SELECT bool_and(CASE
        WHEN tablename = ANY($2) THEN has_table_privilege($1, oid, 'INSERT')
          AND NOT has_table_privilege($1, oid, 'UPDATE, DELETE, TRUNCATE')
        ELSE has_table_privilege($1, oid, 'UPDATE') END) AS has
      FROM (SELECT tablename, format('%I.%I', schemaname, tablename)::regclass::oid AS oid FROM pg_tables
        WHERE schemaname = current_schema() AND tableowner = current_user AND tablename <> ALL($3)) ours`,
    [RUNTIME_ROLE, appendOnly, READ_ONLY],
  )
  return rows[0]!.has
}
