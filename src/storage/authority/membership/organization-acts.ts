/**
 * An organization's acts on a member's agents: it ends the reach of one, or blocks an operator, on what it
 * governs and nowhere else. Each raises epochs, which nothing lowers, so that giving back revives none. The
 * caller holds the lock of her queue; then membership, operator and connections are locked in this order.
 * Contract: "Organization membership, on the member's authorization server", "Grant (RPT) liveness".
 */
import { sql } from 'kysely'
import type { DecidedBy } from '../../../wire/owner/actor.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import { endsLeases } from '../../core/after-commit.ts'
import { REACHES_GOVERNED } from './administered.ts'
import type { Tx } from '../database.ts'
import { takeBack } from '../joint/joint-withdrawals.ts'

/** What acting did: `changed` is false if it was so already. `families` no longer wait. */
export interface Acted {
  changed: boolean
  families: Family[]
}

/** Under which membership, by whom. */
interface Under {
  owner: Owner
  /** The id of the join that made it. */
  membership: string
  by: DecidedBy
}

/**
 * Ends the reach of an agent, and what it waits for there. Undefined if the organization knows no such
 * agent of hers.
 */
export async function endAgent(tx: Tx, under: Under, handle: Handle): Promise<Acted | undefined> {
  const { owner, membership } = under
  endsLeases(tx, owner)
  if (!(await isConnectionGoverned(tx, owner, handle))) return undefined
  const ended = await sql`
    UPDATE connections SET org_epoch = org_epoch + 1, org_ended_in = ${membership}
    WHERE owner = ${owner} AND handle = ${handle} AND org_ended_in IS DISTINCT FROM ${membership}`.execute(tx)
  return {
    changed: ended.numAffectedRows === 1n,
    families: await endWaitingGoverned(tx, under, [handle]),
  }
}

/** Lets an agent ask again; undefined as above. */
export async function restoreAgent(tx: Tx, under: Under, handle: Handle): Promise<Acted | undefined> {
  const { owner, membership } = under
  if (!(await isConnectionGoverned(tx, owner, handle))) return undefined
  const restored = await sql`
    UPDATE connections SET org_ended_in = NULL
    WHERE owner = ${owner} AND handle = ${handle} AND org_ended_in = ${membership}`.execute(tx)
  return { changed: restored.numAffectedRows === 1n, families: [] }
}

/**
 * Blocks an operator. The epochs of all agents that it stands beside are raised, and of those whom these
 * introduced: a grant carries its operator's only if the agreement named one. Undefined if the
 * organization knows no agent of such an operator.
 */
export async function blockAgents(tx: Tx, under: Under, origin: string): Promise<Acted | undefined> {
  const { owner, membership } = under
  endsLeases(tx, owner)
  if (!(await isOperatorGoverned(tx, owner, origin))) return undefined
  const blocked = await sql`
    UPDATE operators SET org_epoch = org_epoch + 1, org_blocked_in = ${membership}
    WHERE owner = ${owner} AND origin = ${origin} AND org_blocked_in IS DISTINCT FROM ${membership}`.execute(
    tx,
  )
  if (blocked.numAffectedRows !== 1n) return { changed: false, families: [] }
  const { rows } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections WHERE owner = ${owner} AND (
      handle IN (SELECT handle FROM connection_operators WHERE owner = ${owner} AND origin = ${origin})
      OR introduced_by IN (SELECT handle FROM connection_operators WHERE owner = ${owner} AND origin = ${origin}))
    ORDER BY introduced_by IS NOT NULL, handle FOR UPDATE`.execute(tx)
  const handles = rows.map(({ handle }) => handle)
  await sql`
    UPDATE connections SET org_epoch = org_epoch + 1
    WHERE owner = ${owner} AND handle = ANY(${handles})`.execute(tx)
  return { changed: true, families: await endWaitingGoverned(tx, under, handles, origin) }
}

/** Lets its agents ask again; undefined as above. */
export async function unblockAgents(tx: Tx, under: Under, origin: string): Promise<Acted | undefined> {
  const { owner, membership } = under
  if (!(await isOperatorGoverned(tx, owner, origin))) return undefined
  const unblocked = await sql`
    UPDATE operators SET org_blocked_in = NULL
    WHERE owner = ${owner} AND origin = ${origin} AND org_blocked_in = ${membership}`.execute(tx)
  return { changed: unblocked.numAffectedRows === 1n, families: [] }
}

/**
 * Ends the connections that were admitted within the reach of a membership, which is ending: at once, and
 * without counting as a revocation of hers. Their waiting requests for what it governed end, too.
 */
export async function endAdmittedWithin(
  tx: Tx,
  owner: Owner,
  by: { by: string; actor?: DecidedBy['actor'] },
): Promise<{ handles: Handle[]; families: Family[] }> {
  endsLeases(tx, owner)
  const { rows } = await sql<{ handle: Handle }>`
    WITH ending AS MATERIALIZED (
      SELECT handle FROM connections WHERE owner = ${owner} AND reach = 'organization' AND status = 'active'
      ORDER BY handle FOR UPDATE)
    UPDATE connections c SET status = 'revoked', generation = generation + 1 FROM ending
    WHERE c.owner = ${owner} AND c.handle = ending.handle
    RETURNING c.handle`.execute(tx)
  const handles = rows.map(({ handle }) => handle).sort()
  await takeBack(tx, owner, { handles })
  return { handles, families: await endWaitingGoverned(tx, { owner, by }, handles) }
}

async function isConnectionGoverned(tx: Tx, owner: Owner, handle: Handle): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM connections c WHERE c.owner = ${owner} AND c.handle = ${handle} AND ${REACHES_GOVERNED}
    FOR UPDATE OF c`.execute(tx)
  return rows.length === 1
}

async function isOperatorGoverned(tx: Tx, owner: Owner, origin: string): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM operators o WHERE o.owner = ${owner} AND o.origin = ${origin} AND EXISTS (
      SELECT FROM connection_operators co JOIN connections c ON c.owner = co.owner AND c.handle = co.handle
      WHERE co.owner = o.owner AND co.origin = o.origin AND ${REACHES_GOVERNED})
    FOR UPDATE OF o`.execute(tx)
  return rows.length === 1
}

/** Ends what these agents, or whoever named this operator, wait for on what is governed, approved or not. */
async function endWaitingGoverned(
  tx: Tx,
  { owner, by: { by, actor } }: { owner: Owner; by: { by: string; actor?: DecidedBy['actor'] } },
  handles: readonly Handle[],
  origin: string | null = null,
): Promise<Family[]> {
  const { rows } = await sql<{ family: Family }>`
    UPDATE families f SET decision = 'denied', decided_by = ${by},
      decided_actor = ${actor === undefined ? null : JSON.stringify(actor)}, decided_at = now(), generation = NULL
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND decision IS DISTINCT FROM 'denied'
      AND (handle = ANY(${[...handles]}) OR operator = ${origin})
      AND resource_id IN (SELECT resource_id FROM resources WHERE owner = ${owner} AND org IS NOT NULL)
    RETURNING family`.execute(tx)
  return rows.map(({ family }) => family)
}
