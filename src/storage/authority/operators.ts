/**
 * Operators as the owner's records know them: what they call themselves, whether one is her own, whether its
 * agents are known here. Blocking is in connections.ts, with what it ends.
 * Contract: "Owner API" (operators), "Policy vocabulary and tiers" (the owner activated it herself).
 */
import { sql } from 'kysely'
import type { Db, Tx } from '../core/database.ts'
import { lockOperator } from './connections.ts'
import { lockQueue } from './owners.ts'

/**
 * Keeps the name an operator gives itself. One that attests nothing may name an operator that has no name yet,
 * never rename it. The caller has the operator locked.
 */
export async function nameOperator(
  tx: Tx,
  owner: string,
  origin: string,
  of: { name: string | undefined; attested: boolean },
): Promise<void> {
  if (of.name === undefined) return
  await sql`
    UPDATE operators SET name = ${of.name}
    WHERE owner = ${owner} AND origin = ${origin} AND (name IS NULL OR ${of.attested}) AND name IS DISTINCT FROM ${of.name}`.execute(
    tx,
  )
}

/** Whether the owner says that an operator is her own. */
export async function isOwn(db: Db, owner: string, origin: string): Promise<boolean> {
  const row = await db
    .selectFrom('operators')
    .select('mine')
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .executeTakeFirst()
  return row?.mine === true
}

/** Whether some agent of an operator is connected now. */
export async function hasActiveAgents(db: Db, owner: string, origin: string): Promise<boolean> {
  const row = await db
    .selectFrom('connections')
    .select('handle')
    .where('owner', '=', owner)
    .where('operator', '=', origin)
    .where('status', '=', 'active')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * The owner marks an operator as her own: its connected agents whose keys its directory lists become first-party.
 * @param published thumbprints that the directory lists, read before this transaction.
 * @returns the handles that became first-party by this call.
 */
export async function claimOperator(
  tx: Tx,
  owner: string,
  origin: string,
  published: readonly string[],
): Promise<string[]> {
  await lockQueue(tx, owner)
  await lockOperator(tx, owner, origin)
  await sql`UPDATE operators SET mine = true WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  const { rows } = await sql<{ handle: string }>`
    UPDATE connections SET first_party = true
    WHERE owner = ${owner} AND operator = ${origin} AND status = 'active' AND NOT first_party
      AND jkt = ANY(${published})
    RETURNING handle`.execute(tx)
  return rows.map(row => row.handle).sort()
}

/** The owner takes the mark back, and with it the standing it gave. @returns false where she has no such operator. */
export async function disclaimOperator(tx: Tx, owner: string, origin: string): Promise<boolean> {
  await lockQueue(tx, owner)
  const done = await sql`
    UPDATE operators SET mine = false WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await sql`
    UPDATE connections SET first_party = false
    WHERE owner = ${owner} AND operator = ${origin} AND first_party`.execute(tx)
  return true
}
