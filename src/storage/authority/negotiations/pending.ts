/**
 * The owner's queue: what waits for her, how much of it, and her one decision on each item.
 * Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending`), "Limits" (pending queue).
 */
import { sql, type Selectable } from 'kysely'
import type { OwnerDecision } from '../../../rules/grant-content.ts'
import type { QueueCounts } from '../../../rules/pending-queue.ts'
import type { DecidedBy } from '../../../wire/owner/actor.ts'
import type { Db, Tx } from '../database.ts'
import type { FamiliesTable } from '../tables.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'
import type { KeyPage } from '../../core/columns.ts'

/** Uses the clock and not the start of the transaction, which may have waited for the queue's lock since. */
const NOT_EXPIRED = sql`ticket_expires_at > clock_timestamp() AND negotiation_expires_at > clock_timestamp()`

/** Waiting and not yet decided; an item whose ticket expired is neither listed nor counted. */
export const WAITS = sql`state = 'awaiting_owner' AND decision IS NULL AND ${NOT_EXPIRED}`

/** The content of a held item, from which the form that she sees is made. */
export type PendingRow = PendingColumns<
  'kind' | 'handle' | 'requested_at' | 'item' | 'attested' | 'held' | 'template'
> &
  Pick<Selectable<FamiliesTable>, 'owner' | 'family' | 'operator'>

const OF_PENDING = sql`owner, family, kind, handle, item, requested_at, operator, attested, held, template`

/** The members that are set when the agreement is held for the owner. */
type PendingColumns<Column extends keyof FamiliesTable> = {
  [Name in Column]: NonNullable<Selectable<FamiliesTable>[Name]>
}

/** The owner's waiting items, oldest first, after the given family's position. */
export async function listPending(db: Db, owner: Owner, page: KeyPage): Promise<PendingRow[]> {
  const after =
    page.after === undefined
      ? sql`true`
      : sql`(requested_at, family) >
          (SELECT requested_at, family FROM families WHERE owner = ${owner} AND family = ${page.after})`
  const { rows } = await sql<PendingRow>`
    SELECT ${OF_PENDING} FROM families
    WHERE owner = ${owner} AND ${WAITS} AND ${after}
    ORDER BY requested_at, family LIMIT ${page.limit}`.execute(db)
  return rows
}

/** Counts what waits now. The counts decide nothing unless the caller holds the owner's queue lock. */
export async function countWaiting(
  db: Db,
  owner: Owner,
  of: { handle: Handle; operator: string | null },
): Promise<QueueCounts> {
  const { rows } = await sql<QueueCounts>`
    SELECT count(*) FILTER (WHERE kind = 'connection' AND NOT attested)::int AS unattested,
      count(*) FILTER (WHERE kind = 'connection' AND attested)::int AS attested,
      count(*) FILTER (WHERE kind = 'connection' AND attested AND operator = ${of.operator})::int AS "ofOperator",
      count(*) FILTER (WHERE kind = 'operation' AND handle = ${of.handle})::int AS "operationsOfHandle"
    FROM families WHERE owner = ${owner} AND ${WAITS}`.execute(db)
  return rows[0] ?? { unattested: 0, attested: 0, ofOperator: 0, operationsOfHandle: 0 }
}

/**
 * `held` belongs to the grant that its agreement leads to; `operator` is the one that it named; `attested`
 * says whether that operator's directory listed the key.
 */
export type WaitingItem = PendingColumns<'kind' | 'attested' | 'template' | 'held' | 'item'> &
  Pick<Selectable<FamiliesTable>, 'family' | 'operator' | 'resource_scopes' | 'ticket_issued_at'>

/** What makes two requests the same one. */
interface SameRequest {
  handle: Handle
  resource_id: string
  paramsKey: string
}

/**
 * The item that a repeat of the same request joins: an item with the same handle, resource and parameters,
 * which waits or is approved and not yet collected. This decides nothing unless the caller holds the owner's
 * queue lock. A poll collects an approval without that lock, so an item that is to be joined is also `locked`
 * itself: if a poll is just collecting it, this waits, and finds that it was collected.
 */
export async function findWaiting(
  db: Db,
  owner: Owner,
  same: SameRequest,
  locking: 'locked' | 'unlocked' = 'unlocked',
): Promise<WaitingItem | undefined> {
  // `held` names the tool as the agent did, so it may contain a NUL. Postgres extracts no member from JSON
  // with a NUL anywhere, and refuses the statement.
  const { rows } = await sql<WaitingItem>`
    SELECT family, kind, template, operator, attested, resource_scopes, ticket_issued_at, held, item
    FROM families
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND handle = ${same.handle}
      AND resource_id = ${same.resource_id} AND params_key = ${same.paramsKey}
      AND (decision IS NULL OR decision = 'approved') AND ${NOT_EXPIRED}
    ORDER BY requested_at DESC LIMIT 1 ${locking === 'locked' ? sql`FOR UPDATE` : sql``}`.execute(db)
  return rows[0]
}

/**
 * Opens an approved item again, for an agent that says that it never received its single-use grant, if nobody
 * spent the grant. This spends the grant, so that one approval gives one call. Handle, resource and
 * parameters must be the same, as for a repeat. The caller holds the owner's queue lock, and decides in the
 * same transaction whether the agent joins the item.
 * @returns whether there was one.
 */
export async function reopenCollected(tx: Tx, owner: Owner, same: SameRequest): Promise<boolean> {
  const { rows } = await sql<{ family: Family }>`
    UPDATE grants SET consumed_at = clock_timestamp()
    WHERE owner = ${owner} AND single_use AND consumed_at IS NULL AND expires_at > clock_timestamp()
      AND rpt_sha256 = (
        SELECT g.rpt_sha256 FROM connections c
        JOIN grants g ON g.owner = c.owner AND g.handle = c.handle AND g.generation = c.generation
        JOIN families f ON f.owner = g.owner AND f.family = g.family
        WHERE c.owner = ${owner} AND c.handle = ${same.handle}
          AND g.single_use AND g.consumed_at IS NULL AND g.expires_at > clock_timestamp()
          AND f.state = 'granted' AND f.decision = 'approved' AND f.handle = ${same.handle}
          AND f.resource_id = ${same.resource_id} AND f.params_key = ${same.paramsKey} AND ${NOT_EXPIRED}
        ORDER BY f.requested_at DESC LIMIT 1)
    RETURNING family`.execute(tx)
  const [spent] = rows
  if (spent === undefined) return false
  const opened = await sql`
    UPDATE families SET state = 'awaiting_owner'
    WHERE owner = ${owner} AND family = ${spent.family} AND state = 'granted'`.execute(tx)
  return opened.numAffectedRows === 1n
}

/**
 * An item that is held for the owner has all of these. `attested`: the operator's directory listed the
 * signing key then.
 */
export type UndecidedItem = PendingRow &
  PendingColumns<'tier_id'> &
  Pick<Selectable<FamiliesTable>, 'resource_id'>

/**
 * How an item ended: the decision on it, who decided, and the statement signed over it, all null if it ended
 * without a decision.
 */
export type FormerItem = Pick<
  Selectable<FamiliesTable>,
  'decision' | 'decided_by' | 'decided_actor' | 'owner_decision'
>

/**
 * Reads an item that is still to be decided, without deciding it.
 * @returns 'unknown' if there never was such an item, `gone` if it was decided, ended or expired.
 */
export async function readUndecided(
  db: Db,
  owner: Owner,
  family: Family,
): Promise<{ item: UndecidedItem } | { gone: FormerItem } | 'unknown'> {
  const { rows } = await sql<UndecidedItem & FormerItem & { waits: boolean; was_held: boolean }>`
    SELECT ${OF_PENDING}, resource_id, tier_id,
      decision, decided_by, decided_actor, owner_decision,
      (${WAITS}) AS waits, requested_at IS NOT NULL AS was_held
    FROM families WHERE owner = ${owner} AND family = ${family}`.execute(db)
  const row = rows[0]
  if (row === undefined || !row.was_held) return 'unknown'
  return row.waits ? { item: row } : { gone: row }
}

/**
 * Writes the decision on an item that still waits. One statement, one winner: approve against deny, and
 * decision against poll, are settled by the row count.
 * @param generation of the connection that the approval admitted or found; null when denying.
 * @returns false if it no longer waits.
 */
export async function decideFamily(
  tx: Tx,
  decision: {
    owner: Owner
    family: Family
    decision: 'approved' | 'denied'
    by: DecidedBy
    generation: number | null
    /** Her note to the decision. */
    note?: { reason?: string | undefined; signed?: OwnerDecision | undefined } | undefined
  },
): Promise<boolean> {
  const { reason = null, signed } = decision.note ?? {}
  const done = await sql`
    UPDATE families SET decision = ${decision.decision}, decided_by = ${decision.by.by},
      decided_actor = ${JSON.stringify(decision.by.actor)}, decided_at = now(), generation = ${decision.generation},
      denial_reason = ${reason}, owner_decision = ${signed === undefined ? null : JSON.stringify(signed)}
    WHERE owner = ${decision.owner} AND family = ${decision.family} AND ${WAITS}`.execute(tx)
  return done.numAffectedRows === 1n
}

/**
 * Ends the waiting items of the given handles, approved or not, so that no approval survives a revoke or a
 * block: the next poll of each is refused. The caller holds the owner's queue lock.
 * @returns the families ended.
 */
export async function endWaitingOf(
  tx: Tx,
  owner: Owner,
  handles: Handle[],
  { by, actor }: DecidedBy,
): Promise<Family[]> {
  if (handles.length === 0) return []
  const { rows } = await sql<{ family: Family }>`
    UPDATE families SET decision = 'denied', decided_by = ${by}, decided_actor = ${JSON.stringify(actor)}, decided_at = now(),
      generation = NULL
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND handle = ANY(${handles})
      AND decision IS DISTINCT FROM 'denied'
    RETURNING family`.execute(tx)
  return rows.map(row => row.family)
}

/**
 * Like endWaitingOf, for everything that an operator's agents wait for: the agents that name it, and those
 * whose connection has it on record.
 */
export async function endWaitingOfOperator(
  tx: Tx,
  owner: Owner,
  origin: string,
  { by, actor }: DecidedBy,
): Promise<Family[]> {
  const { rows } = await sql<{ family: Family }>`
    UPDATE families SET decision = 'denied', decided_by = ${by}, decided_actor = ${JSON.stringify(actor)}, decided_at = now(),
      generation = NULL
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND decision IS DISTINCT FROM 'denied'
      AND (operator = ${origin} OR handle = ANY(ARRAY(
        SELECT handle FROM connection_operators WHERE owner = ${owner} AND origin = ${origin})))
    RETURNING family`.execute(tx)
  return rows.map(row => row.family)
}

/**
 * Withdraws the items, approved or not, that wait under a tier that is deleted or whose terms change. Each
 * negotiation goes back to the terms, so that its next poll gets the new ones. Connections that an approval
 * admitted stay. The caller holds the owner's queue lock, and the tier's.
 * @returns what no longer waits, oldest first.
 */
export async function withdrawItemsUnder(
  tx: Tx,
  owner: Owner,
  tierId: string,
): Promise<{ family: Family; handle: Handle }[]> {
  const { rows } = await sql<{ family: Family; handle: Handle; requested_at: string }>`
    UPDATE families SET state = 'need_info', decision = NULL, decided_by = NULL, decided_actor = NULL, decided_at = NULL, generation = NULL,
      denial_reason = NULL, owner_decision = NULL, held = NULL, item = NULL
    WHERE owner = ${owner} AND state = 'awaiting_owner' AND tier_id = ${tierId}
      AND decision IS DISTINCT FROM 'denied' AND ${NOT_EXPIRED}
    RETURNING family, handle, requested_at`.execute(tx)
  return inOrder(rows)
}

/**
 * Ends items that waited for her undecided until their ticket expired. A poll or a repeat that extends an
 * item is seen under its lock; an item that is locked by another is left for the next time.
 * @returns what no longer waits, oldest first. Only the caller that ended an item gets it.
 */
export async function expireWaiting(
  tx: Tx,
  owner: Owner,
  limit: number,
): Promise<{ family: Family; handle: Handle }[]> {
  const expired = sql`owner = ${owner} AND state = 'awaiting_owner' AND decision IS NULL AND NOT (${NOT_EXPIRED})`
  const { rows } = await sql<{ family: Family; handle: Handle; requested_at: string }>`
    UPDATE families SET state = 'ended', ticket_hash = NULL
    WHERE ${expired} AND family = ANY(ARRAY(
      SELECT family FROM families WHERE ${expired} ORDER BY requested_at LIMIT ${limit} FOR UPDATE SKIP LOCKED))
    RETURNING family, handle, requested_at`.execute(tx)
  return inOrder(rows)
}

function inOrder(
  rows: readonly { family: Family; handle: Handle; requested_at: string }[],
): { family: Family; handle: Handle }[] {
  return rows
    .toSorted((a, b) => Date.parse(a.requested_at) - Date.parse(b.requested_at))
    .map(({ family, handle }) => ({ family, handle }))
}

/**
 * Turns an approved item into a granted negotiation: the collector that gets true issues the grant, in the
 * same transaction. @returns false if another collector was first or the approval was ended.
 */
export async function collectFamily(tx: Tx, owner: Owner, family: Family): Promise<boolean> {
  const done = await sql`
    UPDATE families SET state = 'granted', ticket_hash = NULL
    WHERE owner = ${owner} AND family = ${family} AND state = 'awaiting_owner' AND decision = 'approved'`.execute(
    tx,
  )
  return done.numAffectedRows === 1n
}
