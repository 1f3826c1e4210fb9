/**
 * What an organization is to be told for an owner, and joins that are under way. A join whose outcome is not
 * known is taken back by leaving. Contract: "Organization membership, on the member's authorization server".
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'
import { dueIn, dueNow } from './due.ts'
import type { OrganizationCallsTable } from './tables.ts'

export type OrganizationCall = Pick<Selectable<OrganizationCallsTable>, 'id' | 'kind' | 'issuer' | 'attempts'>

/** For which a join may be under way before it is taken back. */
export const JOIN_SECONDS = 60

/** Notes that a join begins. @returns false where another is under way. */
export async function beginJoin(tx: Tx, owner: Owner, of: { id: string; issuer: string }): Promise<boolean> {
  const done = await sql`
    INSERT INTO organization_calls (owner, id, kind, issuer) VALUES (${owner}, ${of.id}, 'join', ${of.issuer})
    ON CONFLICT DO NOTHING`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await dueIn(tx, owner, 'tell', JOIN_SECONDS)
  return true
}

/** Ends a join that is under way, as done or as certainly refused. @returns false where it was taken back. */
export async function endJoin(db: Db, owner: Owner, id: string): Promise<boolean> {
  const done = await sql`
    DELETE FROM organization_calls WHERE owner = ${owner} AND id = ${id} AND kind = 'join'`.execute(db)
  return done.numAffectedRows === 1n
}

/**
 * Has an organization told, soon and until it has acknowledged it. What was noted under the id before, a
 * join, is replaced.
 */
export async function tellOrganization(
  tx: Tx,
  owner: Owner,
  { id, kind, issuer }: { id: string; kind: 'leave' | 'decline'; issuer: string },
): Promise<void> {
  await sql`
    INSERT INTO organization_calls (owner, id, kind, issuer) VALUES (${owner}, ${id}, ${kind}, ${issuer})
    ON CONFLICT (owner, id) DO UPDATE SET kind = excluded.kind`.execute(tx)
  await dueNow(tx, owner, 'tell')
}

/** Turns joins that have been under way for too long into leaving. The caller holds the queue's lock. */
export async function takeBackJoins(tx: Tx, owner: Owner): Promise<void> {
  await sql`
    UPDATE organization_calls SET kind = 'leave' WHERE owner = ${owner} AND kind = 'join'
      AND since <= clock_timestamp() - ${JOIN_SECONDS} * interval '1 second'`.execute(tx)
}

/** What is to be told now, the oldest first. */
export async function listCalls(db: Db, owner: Owner): Promise<OrganizationCall[]> {
  return db
    .selectFrom('organization_calls')
    .select(['id', 'kind', 'issuer', 'attempts'])
    .where('owner', '=', owner)
    .orderBy('since')
    .orderBy('id')
    .execute()
}

/** Acknowledged, or never to be. */
export async function endCall(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`DELETE FROM organization_calls WHERE owner = ${owner} AND id = ${id} AND kind <> 'join'`.execute(
    db,
  )
}

/** Not acknowledged: it is told again. */
export async function countAttempt(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`
    UPDATE organization_calls SET attempts = attempts + 1 WHERE owner = ${owner} AND id = ${id}`.execute(db)
}
