/**
 * The part of an owner's records that an organization may see: records about a resource that it governs, and
 * no older than her membership. SQL selects them, so that no other record of hers is ever read for it.
 * Contract: "Organization membership, on the member's authorization server" (`/org/admin/{owner}/...`).
 */
import { sql, type RawBuilder } from 'kysely'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { Db } from '../database.ts'
import type { LedgerEntryRow } from '../ledger/ledger.ts'
import { WAITS, type PendingRow } from '../negotiations/pending.ts'
import { number } from '../ledger/positions.ts'
import { inIndexOrder, ownedBy } from '../../core/batch.ts'
import type { KeyPage } from '../../core/columns.ts'

/** Selects the items of a membership: those that were requested while it lasted, for what it governs. */
const ITEM_GOVERNED = sql`
  EXISTS (SELECT FROM memberships m JOIN resources r ON r.owner = m.owner AND r.org IS NOT NULL
    WHERE m.owner = f.owner AND m.issuer IS NOT NULL AND f.requested_at >= m.joined_at
      AND r.resource_id = f.resource_id)`

/**
 * The waiting items of what it governs, oldest first. Undefined if `after` names no item that the
 * organization could ever see.
 */
export async function listGovernedPending(
  db: Db,
  owner: Owner,
  { after, limit }: KeyPage,
): Promise<PendingRow[] | undefined> {
  if (after !== undefined && !(await isGovernedItem(db, owner, after as Family))) return undefined
  const beyond =
    after === undefined
      ? sql`true`
      : sql`(requested_at, family) >
          (SELECT requested_at, family FROM families WHERE owner = ${owner} AND family = ${after})`
  const { rows } = await sql<PendingRow>`
    SELECT family, kind, handle, item, requested_at FROM families f
    WHERE owner = ${owner} AND ${WAITS} AND ${beyond} AND ${ITEM_GOVERNED}
    ORDER BY requested_at, family LIMIT ${limit}`.execute(db)
  return rows
}

/** Whether the organization may see an item, waiting or not. */
export async function isGovernedItem(db: Db, owner: Owner, family: Family): Promise<boolean> {
  const { rows } = await sql`
    SELECT 1 FROM families f WHERE owner = ${owner} AND family = ${family} AND requested_at IS NOT NULL
      AND ${ITEM_GOVERNED}`.execute(db)
  return rows.length === 1
}

/** Selects, as rows of `l` beside `r` and `m`, what is about the connection `c` and may be shown. */
function about(columns: RawBuilder<unknown>, kinds: string): RawBuilder<unknown> {
  return sql`
    SELECT ${columns} FROM memberships m
    JOIN resources r ON r.owner = m.owner AND r.org IS NOT NULL
    JOIN ledger l ON l.owner = r.owner AND l.handle = c.handle AND l.resource_id = r.resource_id
      AND l.kind IN (${sql.raw(kinds)}) AND l.ts >= m.joined_at
    WHERE m.owner = c.owner AND m.issuer IS NOT NULL`
}

/** Since she joined the organization, the connection `c` requested or used something that it governs. */
export const REACHES_GOVERNED = sql`EXISTS (${about(sql``, "'promised', 'touched'")})`

/** The part of a connection that reaches what is governed. */
export interface AdministeredConnection {
  handle: Handle
  identity: 'pseudonymous' | 'identified'
  status: 'active' | 'revoked'
  first_used: string | null
  last_used: string | null
  resources: string[]
}

/** The connections that reach what it governs, by handle. */
export async function listGovernedConnections(
  db: Db,
  owner: Owner,
  { after, limit }: KeyPage,
): Promise<AdministeredConnection[]> {
  const used = (direction: string) => sql`(
    SELECT u.ts FROM memberships m
    JOIN resources r ON r.owner = m.owner AND r.org IS NOT NULL
    CROSS JOIN LATERAL (SELECT l.ts FROM ledger l
      WHERE l.owner = r.owner AND l.handle = c.handle AND l.resource_id = r.resource_id AND l.kind = 'touched'
        AND l.ts >= m.joined_at ORDER BY l.ts ${sql.raw(direction)} LIMIT 1) u
    WHERE m.owner = c.owner AND m.issuer IS NOT NULL ORDER BY u.ts ${sql.raw(direction)} LIMIT 1)`
  const read = sql<AdministeredConnection>`
    SELECT c.handle, c.identity,
      CASE WHEN c.org_ended_in = (SELECT join_id FROM memberships m WHERE m.owner = c.owner) THEN 'revoked'
        ELSE c.status END AS status,
      ${used('ASC')} AS first_used, ${used('DESC')} AS last_used,
      ARRAY(SELECT r.resource_id FROM memberships m JOIN resources r ON r.owner = m.owner AND r.org IS NOT NULL
        WHERE m.owner = c.owner AND EXISTS (SELECT FROM ledger l WHERE l.owner = r.owner AND l.handle = c.handle
          AND l.resource_id = r.resource_id AND l.kind IN ('promised', 'touched') AND l.ts >= m.joined_at)
        ORDER BY r.resource_id) AS resources
    FROM connections c WHERE c.owner = ${owner} AND c.handle > ${after ?? ''} AND ${REACHES_GOVERNED}
    ORDER BY c.handle LIMIT ${limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/** The part of an operator whose agents reach what is governed; `blocked` means by the organization. */
export interface AdministeredOperator {
  origin: string
  agents: number
  blocked: boolean
}

/** The operators behind those connections, by origin. */
export async function listGovernedOperators(
  db: Db,
  owner: Owner,
  { after, limit }: KeyPage,
): Promise<AdministeredOperator[]> {
  const read = sql<AdministeredOperator>`
    SELECT o.origin, agents.count AS agents,
      coalesce(o.org_blocked_in = (SELECT join_id FROM memberships m WHERE m.owner = o.owner), false) AS blocked
    FROM operators o CROSS JOIN LATERAL (
      SELECT count(*)::int AS count FROM connection_operators co
      CROSS JOIN LATERAL (SELECT * FROM connections
        WHERE ${sql.raw(ownedBy('owner', 'co.owner'))} AND handle = co.handle OFFSET 0) c
      WHERE co.owner = o.owner AND co.origin = o.origin AND ${REACHES_GOVERNED}) agents
    WHERE o.owner = ${owner} AND o.origin > ${after ?? ''} AND agents.count > 0
    ORDER BY o.origin LIMIT ${limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}

/**
 * The entry is about a resource. An act of the organization itself is about no resource, and is shown whole.
 * The entry that a clearance was checked for what is hers alone is about no resource either, but is no act of
 * the organization.
 */
const SHOWN_KINDS = ['promised', 'approved', 'denied', 'touched', 'refused', 'org_acted'] as const

/** An entry that an organization may see, with the resource that it is about. */
export type AdministeredEntry = Pick<
  LedgerEntryRow,
  'seq' | 'ts' | 'family' | 'handle' | 'data' | 'count'
> & {
  kind: (typeof SHOWN_KINDS)[number]
  resource_id: string | null
}

/** Entries about what it governs, and about its own acts, oldest first. */
export async function listGovernedLedger(
  db: Db,
  owner: Owner,
  { after, limit }: { after: number; limit: number },
): Promise<AdministeredEntry[]> {
  await number(db, owner)
  const columns = sql.raw('l.seq, l.ts, l.kind, l.family, l.handle, l.data, l.count, l.resource_id')
  // Reads resource by resource, so that an index gives each in order, and no further than the page.
  const read = sql<AdministeredEntry>`
    SELECT * FROM (
      SELECT e.* FROM memberships m
      JOIN resources r ON r.owner = m.owner AND r.org IS NOT NULL
      CROSS JOIN LATERAL (SELECT ${columns} FROM ledger l
        WHERE l.owner = r.owner AND l.resource_id = r.resource_id AND l.seq > ${after} AND l.ts >= m.joined_at
          AND l.kind = ANY(${[...SHOWN_KINDS]}::text[]) ORDER BY l.seq LIMIT ${limit}) e
      WHERE m.owner = ${owner} AND m.issuer IS NOT NULL
      UNION ALL
      SELECT e.* FROM memberships m
      CROSS JOIN LATERAL (SELECT ${columns} FROM ledger l
        WHERE l.owner = m.owner AND l.kind = 'org_acted' AND l.resource_id IS NULL AND l.seq > ${after}
          AND l.data->>'what' IS DISTINCT FROM 'clearance_checked'
          AND l.ts >= m.joined_at ORDER BY l.seq LIMIT ${limit}) e
      WHERE m.owner = ${owner} AND m.issuer IS NOT NULL) page
    ORDER BY seq LIMIT ${limit}`
  const { rows } = await inIndexOrder(db, tx => read.execute(tx))
  return rows
}
