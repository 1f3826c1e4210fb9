/**
 * Operators in the owner's records: what they call themselves, whether one is her own, whether its agents are
 * known here. Blocking is in connections.ts, because it ends connections. Contract: "Owner API" (operators),
 * "Policy vocabulary and tiers" (the owner activated it herself).
 */
import { sql } from 'kysely'
import type { Db, Tx } from '../database.ts'
import { isAgentBlocked, type AskingAgent } from './blocked-agents.ts'
import { lockOperator } from './connections.ts'
import { lockQueue } from '../owners/owners.ts'
import type { Handle, Owner } from '../../../wire/identifiers.ts'

/**
 * Stores the name that an operator gives itself. A document that attests nothing may name an operator without
 * a name, but never rename one. The caller has locked the operator.
 */
export async function nameOperator(
  tx: Tx,
  owner: Owner,
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
export async function isOwn(db: Db, owner: Owner, origin: string): Promise<boolean> {
  const row = await db
    .selectFrom('operators')
    .select('mine')
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .executeTakeFirst()
  return row?.mine === true
}

/** Whether some agent of an operator is connected now. */
export async function hasActiveAgents(db: Db, owner: Owner, origin: string): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM connection_operators co JOIN connections c ON c.owner = co.owner AND c.handle = co.handle
    WHERE co.owner = ${owner} AND co.origin = ${origin} AND c.status = 'active' LIMIT 1`.execute(db)
  return rows.length === 1
}

/**
 * Records an operator on a connection, under the operator's lock, which a block takes too: either the block
 * finds this connection, or this finds the block. Call this for an operator whose directory lists the agent's
 * key, before the first grant to the agent that names it.
 * @returns false if the operator is blocked or the connection no longer active at that generation.
 */
export async function addOperator(
  tx: Tx,
  beside: { owner: Owner; handle: Handle; generation: number; origin: string; name: string | undefined },
): Promise<boolean> {
  const { owner, handle, generation, origin, name } = beside
  if ((await lockOperator(tx, owner, origin)).blocked) return false
  await nameOperator(tx, owner, origin, { name, attested: true })
  const { rows } = await sql`
    WITH standing AS (
      SELECT owner, handle FROM connections
      WHERE owner = ${owner} AND handle = ${handle} AND status = 'active' AND generation = ${generation}),
    added AS (
      INSERT INTO connection_operators (owner, handle, origin) SELECT owner, handle, ${origin} FROM standing
      ON CONFLICT DO NOTHING)
    SELECT 1 FROM standing`.execute(tx)
  return rows.length === 1
}

/**
 * Whether the owner blocked the agent, the operator that its request names, or any operator on record for the
 * connection of its handle. This decides nothing unless the caller holds the queue's lock, as a block does.
 */
export async function isAnyBlocked(
  db: Db,
  owner: Owner,
  of: AskingAgent & { operator: string | null },
): Promise<'agent' | 'operator' | false> {
  if (await isAgentBlocked(db, owner, of)) return 'agent'
  const { rows } = await sql`
    SELECT 1 FROM operators o WHERE o.owner = ${owner} AND o.blocked_at IS NOT NULL AND o.origin = ANY(
      ARRAY(SELECT origin FROM connection_operators WHERE owner = ${owner} AND handle = ${of.handle})
        || ${of.operator}::text)
    LIMIT 1`.execute(db)
  return rows.length === 1 && 'operator'
}

/**
 * The owner marks an operator as her own: its connected agents whose keys its directory lists become
 * first-party.
 * @param published thumbprints that the directory lists, read before this transaction.
 * @returns the handles that this call made first-party.
 */
export async function claimOperator(
  tx: Tx,
  owner: Owner,
  origin: string,
  published: readonly string[],
): Promise<Handle[]> {
  await lockQueue(tx, owner)
  await lockOperator(tx, owner, origin)
  await sql`UPDATE operators SET mine = true WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  const { rows } = await sql<{ handle: Handle }>`
    UPDATE connections c SET first_party = true FROM connection_operators co
    WHERE co.owner = ${owner} AND co.origin = ${origin} AND c.owner = co.owner AND c.handle = co.handle
      AND c.status = 'active' AND NOT c.first_party AND c.jkt = ANY(${published})
    RETURNING c.handle`.execute(tx)
  return rows.map(row => row.handle).sort()
}

/**
 * The owner takes the mark back, and with it the standing that it gave. @returns false if she has no such
 * operator.
 */
export async function disclaimOperator(tx: Tx, owner: Owner, origin: string): Promise<boolean> {
  await lockQueue(tx, owner)
  const done = await sql`
    UPDATE operators SET mine = false WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  if (done.numAffectedRows !== 1n) return false
  await sql`
    UPDATE connections c SET first_party = false FROM connection_operators co
    WHERE co.owner = ${owner} AND co.origin = ${origin} AND c.owner = co.owner AND c.handle = co.handle
      AND c.first_party`.execute(tx)
  return true
}
