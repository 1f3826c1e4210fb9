/**
 * What an organization must be told for an owner, and joins that are running. A join with an unknown outcome
 * is taken back by leaving. Contract: "Organization membership, on the member's authorization server".
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { dueNow, dueWithin } from '../due.ts'
import type { OrganizationCallsTable } from '../tables.ts'

export type OrganizationCall = Pick<Selectable<OrganizationCallsTable>, 'id' | 'kind' | 'issuer' | 'attempts'>

/** How long a join may run before it is taken back. */
export const JOIN_SECONDS = 60

/** Records that a join begins. @returns false if another one is running. */
export async function beginJoin(tx: Tx, owner: Owner, of: { id: string; issuer: string }): Promise<boolean> {
  const done = await sql`
    INSERT INTO organization_calls (owner, id, kind, issuer) VALUES (${owner}, ${of.id}, 'join', ${of.issuer})
    ON CONFLICT DO NOTHING`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await dueWithin(tx, owner, { kind: 'tell' }, JOIN_SECONDS)
  return true
}

/** Ends a running join, as done or as certainly refused. @returns false if it was taken back. */
export async function endJoin(db: Db, owner: Owner, id: string): Promise<boolean> {
  const done = await sql`
    DELETE FROM organization_calls WHERE owner = ${owner} AND id = ${id} AND kind = 'join'`.execute(db)
  return done.numAffectedRows === 1n
}

/**
 * Makes sure that an organization is told, soon and until it has acknowledged it. This replaces the join that
 * was recorded under the id.
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

/** Turns joins that have run for too long into leaving. The caller holds the queue's lock. */
export async function takeBackJoins(tx: Tx, owner: Owner): Promise<void> {
  await sql`
    UPDATE organization_calls SET kind = 'leave' WHERE owner = ${owner} AND kind = 'join'
      AND since <= clock_timestamp() - ${JOIN_SECONDS} * interval '1 second'`.execute(tx)
}

/** Calls that are sent in one go; the others follow after the pause. */
const CALLS_AT_ONCE = 100

/** The calls that are due now: those tried least often first, and of these the oldest. */
export async function listCalls(db: Db, owner: Owner): Promise<OrganizationCall[]> {
  return db
    .selectFrom('organization_calls')
    .select(['id', 'kind', 'issuer', 'attempts'])
    .where('owner', '=', owner)
    .orderBy('attempts')
    .orderBy('since')
    .orderBy('id')
    .limit(CALLS_AT_ONCE)
    .execute()
}

/** The organization acknowledged it, or never will. */
export async function endCall(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`DELETE FROM organization_calls WHERE owner = ${owner} AND id = ${id} AND kind <> 'join'`.execute(
    db,
  )
}

/** It was not acknowledged, so it is sent again. */
export async function countAttempt(db: Db, owner: Owner, id: string): Promise<void> {
  await sql`
    UPDATE organization_calls SET attempts = attempts + 1 WHERE owner = ${owner} AND id = ${id}`.execute(db)
}
