/**
 * The removal of an owner: first her access ends, then, once her archive is written, her rows go in bounded
 * batches; her name is never given again. Contract: "Grant answer (beat 4)" (receipts are kept: but for
 * this), "Limits".
 */
import type { Client } from 'pg'
import { sql } from 'kysely'
import { openConnection } from '../../core/connection.ts'
import { endsLeases } from '../../core/after-commit.ts'
import { tryLock } from '../../core/lock.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { listJointAccounts } from '../joint/joint-accounts.ts'
import { takeAllBack } from '../joint/joint-withdrawals.ts'
import { appendLedger, appendLedgerAll } from '../ledger/ledger.ts'
import { endMembership, readMembership } from '../membership/membership.ts'
import { tellOrganization } from '../membership/organization-calls.ts'
import { suspendOwner } from './owner-lives.ts'
import { deleteOf, ownedTables } from './owned-tables.ts'
import { NOBODY } from './owners.ts'

const STATEMENT_MS_MAX = 60_000

/**
 * Whether it began now, or had begun before; `removed`: nothing is left of her; undefined: she was never
 * served here.
 */
export type RemovalState = 'begun' | 'removed' | undefined

/**
 * Ends her access, for good: grants, resource servers, her own credentials and codes. Organizations and
 * tallies are told as if she left. When it has committed nothing of hers is granted or consumed.
 */
export async function beginRemoval(tx: Tx, owner: Owner, actor: Actor): Promise<RemovalState> {
  endsLeases(tx, owner)
  if ((await suspendOwner(tx, owner)) === undefined) return readBegun(tx, owner)
  const by = { by: 'authority', actor }
  const membership = await readMembership(tx, owner)
  if (membership !== undefined) {
    const { join_id: id, issuer } = membership
    await tellOrganization(tx, owner, { id, kind: 'leave', issuer })
    await endMembership(tx, owner)
  }
  for (const account of await listJointAccounts(tx, owner)) await takeAllBack(tx, owner, account)
  await sql`
    UPDATE resource_servers SET status = 'revoked', decided_at = now(), generation = generation + 1
    WHERE owner = ${owner} AND status <> 'revoked'`.execute(tx)
  await sql`UPDATE device_keys SET revoked_at = now() WHERE owner = ${owner} AND revoked_at IS NULL`.execute(
    tx,
  )
  await sql`UPDATE session_keys SET revoked_at = now() WHERE owner = ${owner} AND revoked_at IS NULL`.execute(
    tx,
  )
  await sql`UPDATE passkeys SET removed_at = now() WHERE owner = ${owner} AND removed_at IS NULL`.execute(tx)
  const logins = await sql<{ id: string; name: string; issuer: string; subject: string }>`
    DELETE FROM logins WHERE owner = ${owner} RETURNING id, name, issuer, subject`.execute(tx)
  await sql`DELETE FROM enrolment_codes WHERE owner = ${owner}`.execute(tx)
  await sql`DELETE FROM recoveries WHERE owner = ${owner}`.execute(tx)
  await sql`DELETE FROM due WHERE owner = ${owner} AND kind NOT IN ('tell', 'withdraw')`.execute(tx)
  await sql`DELETE FROM directory WHERE owner = ${owner} AND kind <> 'name'`.execute(tx)
  await sql`UPDATE directory SET owner = ${NOBODY} WHERE owner = ${owner}`.execute(tx)
  await sql`
    WITH gone AS (DELETE FROM owners WHERE owner = ${owner} RETURNING owner, created_at)
    INSERT INTO removals (owner, created_at) SELECT owner, created_at FROM gone`.execute(tx)
  // The ledger, and so her archive, says what a login was.
  const removed = (login: object) => ({
    kind: 'credential_removed' as const,
    data: { credential: 'login', ...login, ...by },
  })
  await appendLedgerAll(tx, owner, logins.rows.map(removed))
  await appendLedger(tx, owner, { kind: 'removed', data: by })
  return 'begun'
}

async function readBegun(db: Db, owner: Owner): Promise<RemovalState> {
  const { rows } = await sql<{ ended: boolean }>`
    SELECT ended_at IS NOT NULL AS ended FROM removals WHERE owner = ${owner}`.execute(db)
  return rows[0] && (rows[0].ended ? 'removed' : 'begun')
}

/** Owners whose removal began and did not end, by name. */
export async function unfinishedRemovals(db: Db): Promise<Owner[]> {
  const { rows } = await sql<{ owner: Owner }>`
    SELECT owner FROM removals WHERE ended_at IS NULL ORDER BY owner`.execute(db)
  return rows.map(({ owner }) => owner)
}

/** Whether her archive is complete, so that it is not written again. */
export async function isExported(db: Db, owner: Owner): Promise<boolean> {
  const { rows } = await sql`
    SELECT FROM removals WHERE owner = ${owner} AND exported_at IS NOT NULL`.execute(db)
  return rows.length === 1
}

/** Her archive contains all that was hers, which may be deleted from now on. */
export async function noteExported(db: Db, owner: Owner): Promise<void> {
  await sql`UPDATE removals SET exported_at = clock_timestamp() WHERE owner = ${owner}`.execute(db)
}

/**
 * What deletes: the log-in itself and not the role that requests are served as, which may delete no receipt.
 */
export interface Deleting {
  /** Deletes all that is left of an owner whose archive is complete. @returns how many rows went. */
  deleteRows(): Promise<number>
  close(): Promise<void>
}

/**
 * Opens that, for one owner: if several remove her at once, one of them continues. @returns why not: `busy`,
 * or `unprivileged` if the log-in of `url` may not delete receipts and published terms.
 */
export async function openDeleting(url: string, owner: Owner): Promise<Deleting | 'busy' | 'unprivileged'> {
  const connection = await openConnection({
    url,
    name: 'usher-removal',
    statementMs: STATEMENT_MS_MAX,
    waitsForStandby: true,
  })
  const { client } = connection
  const close = (): Promise<void> => connection.close()
  try {
    const { rows } = await client.query<{ may: boolean }>(
      `SELECT has_table_privilege('receipts', 'DELETE') AND has_table_privilege('terms_versions', 'DELETE') AS may`,
    )
    if (rows[0]?.may === true) {
      const lock = await tryLock(url, `removal of ${owner}`)
      if (lock !== undefined) {
        const closeBoth = async (): Promise<void> => {
          await close()
          await lock.release()
        }
        return { deleteRows: () => deleteRows(client, owner), close: closeBoth }
      }
      await close()
      return 'busy'
    }
  } catch (error) {
    await close()
    throw error
  }
  await close()
  return 'unprivileged'
}

/**
 * What stays: who was removed, who owns which name, and the messages that organizations and tallies must
 * still get, which are deleted once they have been delivered. Identity assertions that were presented must
 * not be presented again, whoever's they were. The record of her move stays, so that nobody is made here
 * under her name.
 */
const KEPT = [
  'removals',
  'directory',
  'moves',
  'organization_calls',
  'joint_withdrawals',
  'due',
  'spent_assertions',
]

/**
 * In passes over every table that has an owner, until one finds nothing: whatever a request was still writing
 * while her access ended goes too.
 */
async function deleteRows(client: Client, owner: Owner): Promise<number> {
  const { rows: exported } = await client.query(
    'SELECT FROM removals WHERE owner = $1 AND exported_at IS NOT NULL',
    [owner],
  )
  if (exported.length === 0)
    throw new Error(`The archive of ${owner} does not stand: nothing of hers is deleted.`)
  const tables = await ownedTables(client, KEPT)
  let all = 0
  for (let count = -1; count !== 0; all += count) {
    count = 0
    for (const table of tables) count += await deleteOf(client, table, owner)
  }
  await client.query('UPDATE spent_assertions SET owner = $2 WHERE owner = $1', [owner, NOBODY])
  await client.query('DELETE FROM spent_assertions WHERE owner = $1 AND expires_at < now()', [NOBODY])
  await client.query(
    'UPDATE removals SET ended_at = coalesce(ended_at, clock_timestamp()) WHERE owner = $1',
    [owner],
  )
  return all
}
