/**
 * Connections, the tiers reached on each, and operators. Lock order everywhere: queue, membership, operator,
 * parent, child by handle. Contract: "Connection" (states), "Owner API" (connections, operators).
 */
import { sql, type Selectable } from 'kysely'
import { thumbprintIn } from '../../../wire/agents/handles.ts'
import type { ConnectionReach } from '../../../rules/connection.ts'
import type { Actor } from '../../../wire/owner/actor.ts'
import type { Admits } from '../../../wire/owner/decision-statement.ts'
import { inIndexOrder, ownedBy } from '../../core/batch.ts'
import type { KeyPage } from '../../core/columns.ts'
import { endsLeases } from '../../core/after-commit.ts'
import type { Db, Tx } from '../database.ts'
import { countLiveGrants } from '../grants/read.ts'
import { takeBack } from '../joint/joint-withdrawals.ts'
import { lockQueue } from '../owners/owners.ts'
import { endWaitingOf, endWaitingOfOperator } from '../negotiations/pending.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type {
  ConnectionOperatorsTable,
  ConnectionsTable,
  ConnectionTiersTable,
  OperatorsTable,
} from '../tables.ts'

export type ConnectionRow = Selectable<ConnectionsTable>

/** One connection, or undefined if the owner never admitted this handle. */
export function readConnection(db: Db, owner: Owner, handle: Handle): Promise<ConnectionRow | undefined> {
  return db
    .selectFrom('connections')
    .selectAll()
    .where('owner', '=', owner)
    .where('handle', '=', handle)
    .executeTakeFirst()
}

/** Whether the owner herself ended this agent's connection, or one of the same key under another handle. */
export async function isEndedByOwner(
  db: Db,
  owner: Owner,
  of: { handle: Handle; jkt: string },
): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM connections WHERE owner = ${owner} AND (handle = ${of.handle} OR jkt = ${of.jkt})
      AND status = 'revoked' AND revocations > 0 LIMIT 1`.execute(db)
  return rows.length === 1
}

/** A connection with its rows of other tables, each in order: `operators` are their origins. */
export type ListedConnection = ConnectionRow &
  Record<'tiers_granted' | 'tiers_approved', Selectable<ConnectionTiersTable>['tier_id'][]> &
  Record<'operators', Selectable<ConnectionOperatorsTable>['origin'][]>

/** The owner's connections after the given handle, by handle. */
export async function listConnections(db: Db, owner: Owner, page: KeyPage): Promise<ListedConnection[]> {
  const read = sql<ListedConnection>`
    SELECT c.*,
      ARRAY(SELECT tier_id FROM connection_tiers ct WHERE ct.owner = c.owner AND ct.handle = c.handle
            AND ct.granted_at IS NOT NULL ORDER BY tier_id) AS tiers_granted,
      ARRAY(SELECT tier_id FROM connection_tiers ct WHERE ct.owner = c.owner AND ct.handle = c.handle
            AND ct.approved_generation = c.generation ORDER BY tier_id) AS tiers_approved,
      ARRAY(SELECT origin FROM connection_operators co WHERE co.owner = c.owner AND co.handle = c.handle
            ORDER BY origin) AS operators
    FROM connections c WHERE c.owner = ${owner} AND c.handle > ${page.after ?? ''}
    ORDER BY c.handle LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/**
 * Locks the operator's row, making it if it is new, and says whether the owner blocked it. Whatever
 * admits a connection takes this lock, as a block does, so that neither can pass the other by.
 */
export async function lockOperator(tx: Tx, owner: Owner, origin: string): Promise<{ blocked: boolean }> {
  const { rows } = await sql<{ blocked: boolean }>`
    INSERT INTO operators (owner, origin) VALUES (${owner}, ${origin})
    ON CONFLICT (owner, origin) DO UPDATE SET origin = excluded.origin
    RETURNING blocked_at IS NOT NULL AS blocked`.execute(tx)
  return { blocked: rows[0]?.blocked === true }
}

/** Whether the owner has blocked an operator. Decides nothing finally: see lockOperator. */
export async function isBlocked(db: Db, owner: Owner, origin: string): Promise<boolean> {
  const row = await db
    .selectFrom('operators')
    .select('blocked_at')
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .executeTakeFirst()
  return row !== undefined && row.blocked_at !== null
}

export interface NewConnection {
  owner: Owner
  handle: Handle
  identity: 'pseudonymous' | 'identified'
  label: string | null
  /** Origin of the operator that stands beside it from now on, with those that do already. */
  operator: string | null
  introduced_by: Handle | null
  /** Thumbprint of the key that signed; left out, that of a pseudonymous handle. */
  jkt?: string | undefined
  /** Whether she let it in herself while that operator's directory lists the key (rules/connection.ts). */
  first_party?: boolean | undefined
  /** How far it should reach, if somebody else than the owner (or an agent she knows) lets it in. */
  reach?: ConnectionReach | null | undefined
  /** The owner's own approval of the agent itself: from now on it holds for everything. */
  widens?: boolean | undefined
  /** How far her approval lets the agent in; if left out, an active one stays as it is. */
  admits?: Admits | undefined
}

/**
 * Admits an agent: makes its connection, or makes a revoked one active again at the generation that the
 * revocation left, so earlier grants stay ended. If it is active, only the operators, the key and
 * `first_party` are brought up to date. The caller holds the queue lock and, if an operator is named, its
 * lock (and has seen that it is not blocked).
 * @returns the generation now in force.
 */
export async function admitConnection(tx: Tx, admission: NewConnection): Promise<number> {
  const { owner, handle, identity, label, operator, introduced_by, first_party = false } = admission
  const { reach = null, widens = false, admits = null } = admission
  // An administrator's approval changes nothing about a connection that is active.
  const stands = sql`(c.status = 'active' AND ${reach}::text IS NOT NULL)`
  const jkt = admission.jkt ?? thumbprintIn(handle) ?? null
  const { rows } = await sql<{ generation: number }>`
    INSERT INTO connections AS c (owner, handle, status, identity, label, introduced_by, jkt, first_party, reach,
      admits, lineage)
    VALUES (${owner}, ${handle}, 'active', ${identity}, ${label}, ${introduced_by}, ${jkt}, ${first_party}, ${reach},
      coalesce(${admits}, 'all'), coalesce((SELECT coalesce(i.lineage, i.introduced_by, i.handle) FROM connections i
        WHERE i.owner = ${owner} AND i.handle = ${introduced_by}), ${introduced_by}, ${handle}))
    ON CONFLICT (owner, handle) DO UPDATE SET status = 'active',
      lineage = coalesce(c.lineage, c.introduced_by, c.handle),
      admitted_at = CASE WHEN c.status = 'active' THEN c.admitted_at ELSE now() END,
      jkt = CASE WHEN ${stands} THEN c.jkt ELSE coalesce(excluded.jkt, c.jkt) END,
      first_party = excluded.first_party OR (c.first_party AND c.status = 'active'
        AND (${stands} OR c.jkt IS NOT DISTINCT FROM coalesce(excluded.jkt, c.jkt))),
      admits = CASE WHEN c.status = 'active' AND ${admits}::text IS NULL THEN c.admits ELSE excluded.admits END,
      reach = CASE WHEN c.status = 'active' AND NOT ${widens} THEN c.reach ELSE excluded.reach END,
      introduced_by = CASE WHEN c.status = 'active' THEN c.introduced_by ELSE excluded.introduced_by END
    RETURNING generation`.execute(tx)
  // Let in for one tier, it is new at all others, whatever it had before it was revoked.
  if (admits === 'tier')
    await sql`
      UPDATE connection_tiers SET granted_at = NULL WHERE owner = ${owner} AND handle = ${handle}`.execute(tx)
  if (operator !== null)
    await sql`
      INSERT INTO connection_operators (owner, handle, origin) VALUES (${owner}, ${handle}, ${operator})
      ON CONFLICT DO NOTHING`.execute(tx)
  return rows[0]!.generation
}

/** Records that the owner herself approved this agent at a tier, in the connection's present generation. */
export async function recordApproval(
  tx: Tx,
  approval: { owner: Owner; handle: Handle; tier_id: string; generation: number },
): Promise<void> {
  await sql`
    INSERT INTO connection_tiers (owner, handle, tier_id, approved_at, approved_generation)
    VALUES (${approval.owner}, ${approval.handle}, ${approval.tier_id}, now(), ${approval.generation})
    ON CONFLICT (owner, handle, tier_id) DO UPDATE
      SET approved_at = now(), approved_generation = excluded.approved_generation`.execute(tx)
}

/**
 * Writes what the owner calls a connection, or takes that back (null). It outlives a revocation, so that she
 * knows the agent again. @returns whether this changed anything; undefined if there is no such connection.
 */
export async function labelConnection(
  tx: Tx,
  owner: Owner,
  handle: Handle,
  label: string | null,
): Promise<boolean | undefined> {
  const { rows } = await sql<{ changed: boolean }>`
    UPDATE connections c SET label = ${label}::text
    FROM (SELECT owner, handle, label FROM connections
          WHERE owner = ${owner} AND handle = ${handle} FOR UPDATE) was
    WHERE c.owner = was.owner AND c.handle = was.handle
    RETURNING was.label IS DISTINCT FROM c.label AS changed`.execute(tx)
  return rows[0]?.changed
}

export interface ConnectionEnd {
  /** Handles whose connection this call ended, the named one first. */
  handles: Handle[]
  /** Live grants that ended with them, counted to at most 1,000. */
  rptsDeactivated: number
  /** There were more than could be counted in bounded time. */
  more: boolean
  /** Waiting items that ended with them. */
  families: Family[]
}

/**
 * Revokes a connection and those of the agents it introduced: one bump of the generation each, whatever the
 * number of grants. When this transaction has committed, no grant of theirs is live.
 * @returns undefined if there is no such connection; no handles if it was revoked already.
 */
export async function revokeConnection(
  tx: Tx,
  owner: Owner,
  handle: Handle,
  actor: Actor,
): Promise<ConnectionEnd | undefined> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  const { rows: own } = await sql<{ status: string }>`
    SELECT status FROM connections WHERE owner = ${owner} AND handle = ${handle} FOR UPDATE`.execute(tx)
  if (own[0] === undefined) return undefined
  const { rows: children } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections
    WHERE owner = ${owner} AND introduced_by = ${handle} AND status = 'active'
    ORDER BY handle FOR UPDATE`.execute(tx)
  const active = own[0].status === 'active' ? [handle] : []
  const ended = await endConnections(tx, owner, [...active, ...children.map(child => child.handle)])
  await takeBack(tx, owner, { handles: [handle, ...ended.handles] })
  const by = { by: 'revocation', actor }
  return { ...ended, families: await endWaitingOf(tx, owner, [handle, ...ended.handles], by) }
}

/**
 * Ends every connection of hers; it counts as no revocation against the agents. For after a restore, when it
 * is not known which of them she had revoked. Items that wait for her keep waiting; approved items that were
 * not collected can no longer be collected. @returns their handles.
 */
export async function endEveryConnection(tx: Tx, owner: Owner): Promise<Handle[]> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  const { rows } = await sql<{ handle: Handle }>`
    WITH active AS MATERIALIZED (
      SELECT handle FROM connections WHERE owner = ${owner} AND status = 'active' ORDER BY handle FOR UPDATE)
    UPDATE connections c SET status = 'revoked', generation = generation + 1 FROM active a
    WHERE c.owner = ${owner} AND c.handle = a.handle RETURNING c.handle`.execute(tx)
  const handles = rows.map(({ handle }) => handle)
  await takeBack(tx, owner, { handles })
  return handles
}

/**
 * Blocks an operator: refuses its agents from now on, ends every connection that it stands beside, those of
 * the agents they introduced, and what they wait for. `newly` says that it was not blocked before.
 */
export async function blockOperator(
  tx: Tx,
  owner: Owner,
  origin: string,
  actor: Actor,
): Promise<ConnectionEnd & { newly: boolean }> {
  await lockQueue(tx, owner)
  endsLeases(tx, owner)
  const { blocked } = await lockOperator(tx, owner, origin)
  await sql`
    UPDATE operators SET blocked_at = coalesce(blocked_at, now())
    WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  // Read once: none is added while its operator is locked.
  const { rows: agents } = await sql<{ handle: Handle }>`
    SELECT handle FROM connection_operators WHERE owner = ${owner} AND origin = ${origin}`.execute(tx)
  const beside = sql`SELECT unnest(${agents.map(({ handle }) => handle)}::text[]) AS handle`
  const { rows: parents } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections
    WHERE owner = ${owner} AND status = 'active' AND introduced_by IS NULL AND handle = ANY(ARRAY(${beside}))
    ORDER BY handle FOR UPDATE`.execute(tx)
  // Whether it stands beside them or beside who introduced them: all in one order, and read once these are
  // locked.
  const { rows: children } = await sql<{ handle: Handle }>`
    SELECT handle FROM connections
    WHERE owner = ${owner} AND status = 'active' AND introduced_by IS NOT NULL AND handle = ANY(ARRAY(${beside}
      UNION SELECT handle FROM connections
        WHERE owner = ${owner} AND status = 'active' AND introduced_by = ANY(ARRAY(${beside}))))
    ORDER BY handle FOR UPDATE`.execute(tx)
  const ended = await endConnections(
    tx,
    owner,
    [...parents, ...children].map(({ handle }) => handle),
  )
  await takeBack(tx, owner, { handles: ended.handles, operator: origin })
  const by = { by: 'block', actor }
  const families = await endWaitingOfOperator(tx, owner, origin, by)
  families.push(...(await endWaitingOf(tx, owner, ended.handles, by)))
  return { ...ended, families, newly: !blocked }
}

/**
 * Restores the right to negotiate; access withdrawn stays withdrawn. An operator that is not blocked stays as
 * it is. @returns whether it was blocked; undefined if the owner has no such operator.
 */
export async function unblockOperator(tx: Tx, owner: Owner, origin: string): Promise<boolean | undefined> {
  const known = await tx
    .selectFrom('operators')
    .select('blocked_at')
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .forUpdate()
    .executeTakeFirst()
  if (known === undefined) return undefined
  await tx
    .updateTable('operators')
    .set({ blocked_at: null })
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .execute()
  return known.blocked_at !== null
}

/** An operator with the number of connections that it ever stood beside, and of those active now. */
export type ListedOperator = Pick<Selectable<OperatorsTable>, 'origin' | 'name' | 'blocked_at' | 'mine'> &
  Record<'agents' | 'active', number> & { blocked: boolean }

/** The operators behind the owner's agents after the given origin, by origin. */
export async function listOperators(db: Db, owner: Owner, page: KeyPage): Promise<ListedOperator[]> {
  const read = sql<ListedOperator>`
    SELECT o.origin, o.name, c.agents, c.active, o.blocked_at IS NOT NULL AS blocked, o.blocked_at, o.mine
    FROM operators o, LATERAL (
      SELECT count(*)::int AS agents, count(*) FILTER (WHERE status = 'active')::int AS active
      FROM connection_operators co CROSS JOIN LATERAL (SELECT status FROM connections
        WHERE ${sql.raw(ownedBy('owner', 'co.owner'))} AND handle = co.handle OFFSET 0) c
      WHERE co.owner = o.owner AND co.origin = o.origin) c
    WHERE o.owner = ${owner} AND o.origin > ${page.after ?? ''}
    ORDER BY o.origin LIMIT ${page.limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/** Ends connections that the caller has locked. @returns what ended with them. */
export async function endConnections(
  tx: Tx,
  owner: Owner,
  handles: Handle[],
): Promise<Omit<ConnectionEnd, 'families'>> {
  if (handles.length === 0) return { handles, rptsDeactivated: 0, more: false }
  endsLeases(tx, owner)
  const { live, more } = await countLiveGrants(tx, owner, handles)
  await sql`
    UPDATE connections SET status = 'revoked', generation = generation + 1, revocations = revocations + 1
    WHERE owner = ${owner} AND handle = ANY(${handles}) AND status = 'active'`.execute(tx)
  return { handles, rptsDeactivated: live, more }
}
