/**
 * The role that requests are served as. Every pooled connection takes it, even if the same login migrates:
 * Postgres withholds from it whatever must not be changed, whatever a statement says. Contract: "Grant answer
 * (beat 4)" (both sides hold the receipt). Roles are the cluster's, so each database has one of its own,
 * named after it: whoever may serve one of them can neither open another nor read it.
 */
import type { ClientBase } from 'pg'

/**
 * The role that all databases of a cluster shared until 0.3.0. One that was migrated before keeps it beside
 * its own, for older replicas and log-ins that may only become this one, until an administrator takes its
 * rights away.
 */
export const SHARED_ROLE = 'usher_runtime'

/** What the role may do with a party's tables: anything, except what is named here. */
export interface Privileges {
  /** Tables that it may add to and read, and nothing else. */
  readonly appendOnly: readonly string[]
  /** Tables whose rows it may add, read and change, and not remove. */
  readonly permanent: readonly string[]
  /** Sequences that it takes numbers from. */
  readonly sequences: readonly string[]
}

/** It may read these alone. */
const READ_ONLY = ['schema_migrations']

/** SQL: the name of this database's role. Names of roles have 63 bytes, as those of databases have. */
const OWN = `(SELECT 'usher_runtime_' || CASE WHEN octet_length(name) <= 49 THEN name
  ELSE left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 40) END FROM (SELECT current_database()::text AS name) here)`

/**
 * SQL, of a row of pg_roles: whether the log-in may work as that role. From Postgres 16 on a member may be
 * one that cannot become it.
 */
const MAY_BECOME = `pg_has_role(session_user, oid,
  CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)`

/** SQL, of a row of pg_roles: whether it has rights on our tables here. */
const SERVES = `coalesce(has_table_privilege(oid, to_regclass('schema_migrations'), 'SELECT'), false)`

/** SQL, of a row of pg_roles: whether it is the shared role, and still has rights here. */
const STILL_SHARED = `rolname = '${SHARED_ROLE}' AND ${SERVES}`

/** The roles that are to serve a database, as identifiers in SQL, and what there is to say about them. */
export interface ObtainedRoles {
  roles: readonly string[]
  notice: string | undefined
}

/** What is known of the roles before anything is done. */
interface RolesHere {
  /** Its own, as an identifier in SQL. */
  own: string
  /** Our log-in, as an identifier in SQL: an administrator copies the statements that a fault names. */
  login: string
  made: boolean
  /** Whether the log-in may become it. */
  taken: boolean
  /** Whether it has rights here. */
  serves: boolean
  /** Whether the shared role has rights here, and whether the log-in may become that one. */
  shared: boolean
  sharedTaken: boolean
}

/**
 * Makes the role of this database and takes it on, where that is not done. Comes before the migrations, so
 * that a log-in which may not do it changes nothing. A database that nothing has served yet, new or restored,
 * is closed to all log-ins but members of its role, if it belongs to this one. @throws Error saying what to
 * do if the log-in may neither make the role nor become it.
 */
export async function obtainRuntimeRole(client: ClientBase): Promise<ObtainedRoles> {
  const before = await rolesHere(client)
  const { own, shared } = before
  const fault = (await createRole(client, before)) ?? (await takeRole(client))
  if (fault !== undefined && !before.sharedTaken) throw fault
  if (fault === undefined && !before.serves) await admitMembers(client, own, { alone: !shared })
  const roles = [...(fault === undefined ? [own] : []), ...(shared ? [SHARED_ROLE] : [])]
  if (!shared) return { roles, notice: undefined }
  const unmade = fault === undefined ? '' : ` ${fault.message}`
  return {
    roles,
    notice: `The role ${SHARED_ROLE}, which other databases of this cluster may share, has rights in this one (docs/operating.md, "The role in Postgres").${unmade}`,
  }
}

/**
 * Gives the roles that were obtained the privileges that they need in this database. Does nothing if
 * everything is in place, so that a start changes nothing.
 */
export async function grantPrivileges(
  client: ClientBase,
  { roles }: ObtainedRoles,
  { migrated, ...privileges }: Privileges & { migrated: boolean },
): Promise<void> {
  for (const role of roles) {
    if (migrated || !(await hasItsPrivileges(client, role, privileges)))
      await grantTo(client, role, privileges)
  }
}

async function grantTo(
  client: ClientBase,
  role: string,
  { appendOnly, permanent, sequences }: Privileges,
): Promise<void> {
  const { rows } = await client.query<{ schema: string; tables: string[] }>(
    `SELECT quote_ident(current_schema()) AS schema, ARRAY(SELECT quote_ident(tablename) FROM pg_tables
      WHERE schemaname = current_schema() AND tableowner = current_user) AS tables`,
  )
  const { schema, tables } = rows[0]!
  await client.query(`
    GRANT USAGE ON SCHEMA ${schema} TO ${role};
    ${sequences.length === 0 ? '' : `GRANT USAGE ON SEQUENCE ${sequences.join(', ')} TO ${role};`}
    GRANT SELECT, INSERT, UPDATE, DELETE ON ${tables.join(', ')} TO ${role};
    ${appendOnly.length === 0 ? '' : `REVOKE UPDATE, DELETE, TRUNCATE ON ${appendOnly.join(', ')} FROM ${role};`}
    ${permanent.length === 0 ? '' : `REVOKE DELETE, TRUNCATE ON ${permanent.join(', ')} FROM ${role};`}
    REVOKE INSERT, UPDATE, DELETE ON ${READ_ONLY.join(', ')} FROM ${role}`)
}

/** Makes a new connection work as the role. @throws Error saying what to do if it may not. */
export async function workAsRuntimeRole(client: ClientBase): Promise<void> {
  try {
    await client.query(`SELECT set_config('role', coalesce((SELECT rolname::text FROM pg_roles
      WHERE rolname IN (${OWN}, '${SHARED_ROLE}') AND ${SERVES} AND ${MAY_BECOME}
      ORDER BY rolname = '${SHARED_ROLE}' LIMIT 1), ${OWN}), false)`)
  } catch (error) {
    // 22023: there is no such role; 42501: the log-in is not a member.
    if (!['22023', '42501'].includes((error as { code?: string }).code ?? '')) throw error
    const { own, login } = await rolesHere(client)
    throw new Error(
      `The log-in of DATABASE_URL cannot work as the role ${own}: run \`usher migrate\`, or have an administrator run GRANT ${own} TO ${login};`,
      { cause: error },
    )
  }
}

/** Whether the shared role has rights on our tables in this database. */
export async function isRoleShared(client: ClientBase): Promise<boolean> {
  return (await rolesHere(client)).shared
}

async function rolesHere(client: ClientBase): Promise<RolesHere> {
  const { rows } = await client.query<RolesHere>(
    `SELECT quote_ident(${OWN}) AS own, quote_ident(session_user) AS login,
      EXISTS (SELECT FROM pg_roles WHERE rolname = ${OWN}) AS made,
      EXISTS (SELECT FROM pg_roles WHERE rolname = ${OWN} AND ${MAY_BECOME}) AS taken,
      EXISTS (SELECT FROM pg_roles WHERE rolname = ${OWN} AND ${SERVES}) AS serves,
      EXISTS (SELECT FROM pg_roles WHERE ${STILL_SHARED}) AS shared,
      EXISTS (SELECT FROM pg_roles WHERE ${STILL_SHARED} AND ${MAY_BECOME}) AS "sharedTaken"`,
  )
  return rows[0]!
}

/** @returns why it could not be made, and what to do. */
async function createRole(client: ClientBase, { own, login, made }: RolesHere): Promise<Error | undefined> {
  if (made) return undefined
  try {
    await client.query(`CREATE ROLE ${own} NOLOGIN`)
    return undefined
  } catch (error) {
    // A migration of another schema of this database was quicker.
    if ((await rolesHere(client)).made) return undefined
    return new Error(
      `The log-in may not make the role ${own}: have an administrator run CREATE ROLE ${own} NOLOGIN; GRANT ${own} TO ${login};`,
      { cause: error },
    )
  }
}

/** @returns why it could not be taken on, and what to do. */
async function takeRole(client: ClientBase): Promise<Error | undefined> {
  const { own, login, taken } = await rolesHere(client)
  if (taken) return undefined
  try {
    await client.query(`GRANT ${own} TO CURRENT_USER`)
    return undefined
  } catch (error) {
    return new Error(
      `The role ${own} was made by another log-in than this one: have an administrator run GRANT ${own} TO ${login};`,
      { cause: error },
    )
  }
}

/**
 * Lets members of the role connect, if the database belongs to this log-in, and them alone where it serves
 * nobody else: by default every log-in of the cluster may connect to every database.
 */
async function admitMembers(client: ClientBase, own: string, { alone }: { alone: boolean }): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT quote_ident(datname) AS name FROM pg_database WHERE datname = current_database()
      AND pg_has_role(current_user, datdba, 'USAGE')`,
  )
  if (rows[0] === undefined) return
  const { name } = rows[0]
  await client.query(`GRANT CONNECT ON DATABASE ${name} TO ${own}`)
  if (alone) await client.query(`REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`)
}

/** Asked of every table, because tables that were restored from a dump may lack privileges. */
async function hasItsPrivileges(
  client: ClientBase,
  role: string,
  { appendOnly, permanent }: Pick<Privileges, 'appendOnly' | 'permanent'>,
): Promise<boolean> {
  const { rows } = await client.query<{ has: boolean }>(
    `SELECT bool_and(CASE
        WHEN tablename = ANY($2) THEN has_table_privilege($1::regrole, oid, 'INSERT')
          AND NOT has_table_privilege($1::regrole, oid, 'UPDATE, DELETE, TRUNCATE')
        ELSE has_table_privilege($1::regrole, oid, 'UPDATE')
          AND NOT (tablename = ANY($4) AND has_table_privilege($1::regrole, oid, 'DELETE, TRUNCATE')) END) AS has
      FROM (SELECT tablename, format('%I.%I', schemaname, tablename)::regclass::oid AS oid FROM pg_tables
        WHERE schemaname = current_schema() AND tableowner = current_user AND tablename <> ALL($3)) ours`,
    [role, appendOnly, READ_ONLY, permanent],
  )
  return rows[0]!.has
}
