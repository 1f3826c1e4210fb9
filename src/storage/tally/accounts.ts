/**
 * Accounts, the mandate in force of each, and what is registered below it. Contract: "Tally for a jointly
 * held resource" (`/mandate/{account}`).
 */
import { sql, type Selectable } from 'kysely'
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { mandateDigest, type Mandate } from '../../wire/joint/mandate.ts'
import { prepared } from '../core/database.ts'
import type { Db, Tx } from './database.ts'
import type { AccountsTable, AccountResourcesTable, AccountServersTable } from './tables.ts'

export type AccountRow = Selectable<AccountsTable>
export type AccountResourceRow = Selectable<AccountResourcesTable>
export type AccountServerRow = Selectable<AccountServersTable>

/** What is registered below an account. */
export interface AccountRegistry {
  resource_servers: Pick<AccountServerRow, 'client_id' | 'resource_uri' | 'secret_sha256'>[]
  resources: Omit<AccountResourceRow, 'account'>[]
}

const ACCOUNT_OF = prepared<{ account: Owner }>(
  'account-of-tag',
  'SELECT account FROM accounts WHERE tag = $1',
)

/**
 * The account whose tickets carry a tag; undefined if there is none.
 */
export async function accountOfTag(db: Db, tag: string): Promise<Owner | undefined> {
  const { rows } = await ACCOUNT_OF(db, [tag])
  return rows[0]?.account
}

/** An account in its present state, or undefined. */
export function readAccount(db: Db, account: Owner): Promise<AccountRow | undefined> {
  return db.selectFrom('accounts').selectAll().where('account', '=', account).executeTakeFirst()
}

/**
 * The first accounts by name.
 */
export async function listAccounts(db: Db, limit: number): Promise<Owner[]> {
  const rows = await db.selectFrom('accounts').select('account').orderBy('account').limit(limit).execute()
  return rows.map(({ account }) => account)
}

/** What is registered below an account, by id. */
export function listResources(db: Db, account: Owner): Promise<AccountResourceRow[]> {
  return db
    .selectFrom('resources')
    .selectAll()
    .where('account', '=', account)
    .orderBy('resource_id')
    .execute()
}

/**
 * One resource, or undefined.
 */
export function readResource(
  db: Db,
  account: Owner,
  resource_id: string,
): Promise<AccountResourceRow | undefined> {
  return db
    .selectFrom('resources')
    .selectAll()
    .where('account', '=', account)
    .where('resource_id', '=', resource_id)
    .executeTakeFirst()
}

/**
 * One resource server, or undefined.
 */
export function readResourceServer(
  db: Db,
  account: Owner,
  client_id: ClientId,
): Promise<AccountServerRow | undefined> {
  return db
    .selectFrom('resource_servers')
    .selectAll()
    .where('account', '=', account)
    .where('client_id', '=', client_id)
    .executeTakeFirst()
}

/**
 * Puts the mandate in force, as the next version, if another one or none was in force. Replicas that start
 * together take turns at the row. @returns the new version; undefined if nothing changed.
 */
export async function putMandate(tx: Tx, mandate: Mandate, tag: string): Promise<number | undefined> {
  const { account } = mandate
  const row = { mandate_s256: mandateDigest(mandate), mandate: JSON.stringify(mandate) }
  const done = await sql<{ version: number }>`
    INSERT INTO accounts AS a (account, tag, mandate_s256, mandate)
    VALUES (${account}, ${tag}, ${row.mandate_s256}, ${row.mandate})
    ON CONFLICT (account) DO UPDATE SET version = a.version + 1, mandate_s256 = EXCLUDED.mandate_s256,
      mandate = EXCLUDED.mandate
    WHERE a.mandate_s256 <> EXCLUDED.mandate_s256
    RETURNING version`.execute(tx)
  const version = done.rows[0]?.version
  if (version !== undefined)
    await tx
      .insertInto('mandates')
      .values({ account, version, ...row })
      .execute()
  return version
}

/**
 * Replaces what is registered below an account. A resource server that is not in the new list is withdrawn,
 * with all its PATs.
 */
export async function putRegistered(tx: Tx, account: Owner, registration: AccountRegistry): Promise<void> {
  await tx.selectFrom('accounts').select('account').where('account', '=', account).forUpdate().execute()
  const ids = registration.resource_servers.map(({ client_id }) => client_id)
  await sql`
    UPDATE resource_servers SET status = 'revoked', generation = generation + 1
    WHERE account = ${account} AND status = 'active' AND client_id <> ALL(${ids})`.execute(tx)
  for (const { client_id, resource_uri, secret_sha256 } of registration.resource_servers)
    await sql`
      INSERT INTO resource_servers (account, client_id, resource_uri, status, secret_sha256)
      VALUES (${account}, ${client_id}, ${resource_uri}, 'active', ${secret_sha256})
      ON CONFLICT (account, client_id) DO UPDATE SET resource_uri = EXCLUDED.resource_uri,
        status = 'active', secret_sha256 = EXCLUDED.secret_sha256`.execute(tx)
  const listed = registration.resources.map(({ resource_id }) => resource_id)
  await sql`DELETE FROM resources WHERE account = ${account} AND resource_id <> ALL(${listed})`.execute(tx)
  // Updates the row and does not replace it: a consume that waited for a row that then disappears would be
  // refused.
  for (const { tools, ...resource } of registration.resources) {
    const row = { ...resource, tools: tools === null ? null : JSON.stringify(tools) }
    const { resource_id: _key, ...changed } = row
    await tx
      .insertInto('resources')
      .values({ account, ...row })
      .onConflict(of => of.columns(['account', 'resource_id']).doUpdateSet(changed))
      .execute()
  }
}
