/**
 * Positions: the order in which an owner's ledger, events and receipts are read. Entries are inserted without
 * one; the sequencer here numbers what is committed and has none. Contract: "Events", "Owner API"
 * (`/owner/ledger`, `/owner/events`).
 *
 * One at a time for each owner: it locks her head, and what it then numbers is read by a second statement, so
 * that it sees whatever was committed before it had the lock. Whoever went on from the last position finds
 * all that is numbered later behind it: nothing is missed, however late a transaction commits, and no
 * transaction waits for another. Nothing but this takes that lock.
 */
import { sql } from 'kysely'
import { gatheringOf } from '../core/batch.ts'
import { inTransaction, prepared } from '../core/database.ts'
import type { Db, Tx } from './database.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** Most entries of each list that one transaction numbers. */
const NUMBERED_MAX = 1_000
/** Most owners at once, of one process. */
const AT_ONCE = 4

const DUE = prepared<{ due: boolean }>(
  'positions-due',
  `SELECT EXISTS (SELECT 1 FROM ledger WHERE owner = $1 AND seq IS NULL)
    OR EXISTS (SELECT 1 FROM events WHERE owner = $1 AND seq IS NULL)
    OR EXISTS (SELECT 1 FROM receipt_positions WHERE owner = $1 AND seq IS NULL)
    OR EXISTS (SELECT 1 FROM refusal_counts WHERE owner = $1 AND minute < date_trunc('minute', now())) AS due`,
)

/**
 * Gives a position to everything of an owner's that was committed before this was asked and has none: what
 * her readers call before they read. Costs one look where there is nothing to do. Several who ask at the same
 * time share the work, and none joins what had begun before it asked. Not within a transaction, for it would
 * hold her head until that ends.
 */
export function number(db: Db, owner: Owner): Promise<void> {
  return NUMBER(db, owner)
}

const NUMBER = gatheringOf(
  async (db: Db, owners: Owner[]): Promise<void[]> => {
    await numberAll(db, owners[0]!)
    return owners.map(() => undefined)
  },
  { owner: owner => owner, together: Infinity, atOnce: AT_ONCE },
)

async function numberAll(db: Db, owner: Owner): Promise<void> {
  const { rows } = await DUE(db, [owner])
  if (rows[0]?.due !== true) return
  while (await inTransaction(db, tx => numberSome(tx, owner)));
}

const LOCK_HEAD = prepared<{ owner: Owner }>(
  'lock-head',
  'SELECT owner FROM heads WHERE owner = $1 FOR UPDATE',
)
const NEW_HEAD = prepared('new-head', 'INSERT INTO heads (owner) VALUES ($1) ON CONFLICT DO NOTHING')

/** @returns whether there may be more. */
async function numberSome(tx: Tx, owner: Owner): Promise<boolean> {
  if ((await LOCK_HEAD(tx, [owner])).rows.length === 0) {
    await NEW_HEAD(tx, [owner])
    await LOCK_HEAD(tx, [owner])
  }
  await closeMinutes(tx, owner)
  // Not prepared: it is planned for what is there now, which costs little beside a thousand rows.
  const { rows } = await sql<{ most: number }>`
    WITH head AS MATERIALIZED (SELECT ledger, events, receipts FROM heads WHERE owner = ${owner}),
    new_entries AS MATERIALIZED (
      SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
        SELECT id FROM ledger WHERE owner = ${owner} AND seq IS NULL ORDER BY id LIMIT ${NUMBERED_MAX}) found),
    new_events AS MATERIALIZED (
      SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
        SELECT id FROM events WHERE owner = ${owner} AND seq IS NULL ORDER BY id LIMIT ${NUMBERED_MAX}) found),
    new_receipts AS MATERIALIZED (
      SELECT id, jti, row_number() OVER (ORDER BY id) AS nth FROM (
        SELECT id, jti FROM receipt_positions WHERE owner = ${owner} AND seq IS NULL ORDER BY id LIMIT ${NUMBERED_MAX}) found),
    numbered_entries AS (
      UPDATE ledger SET seq = head.ledger + nth FROM new_entries, head
      WHERE ledger.owner = ${owner} AND ledger.id = new_entries.id),
    numbered_events AS (
      UPDATE events SET seq = head.events + nth FROM new_events, head
      WHERE events.owner = ${owner} AND events.id = new_events.id),
    numbered_receipts AS (
      UPDATE receipt_positions p SET seq = head.receipts + nth FROM new_receipts, head
      WHERE p.owner = ${owner} AND p.jti = new_receipts.jti),
    counted AS MATERIALIZED (
      SELECT (SELECT count(*) FROM new_entries) AS ledger, (SELECT count(*) FROM new_events) AS events,
        (SELECT count(*) FROM new_receipts) AS receipts)
    UPDATE heads SET ledger = heads.ledger + counted.ledger, events = heads.events + counted.events,
      receipts = heads.receipts + counted.receipts FROM counted
    WHERE owner = ${owner} RETURNING greatest(counted.ledger, counted.events, counted.receipts) AS most`.execute(
    tx,
  )
  return rows[0]?.most === NUMBERED_MAX
}

/**
 * Tells the ledger of the refusals that were counted in minutes which have closed: one entry each, which
 * never changes again.
 */
async function closeMinutes(tx: Tx, owner: Owner): Promise<void> {
  await CLOSE_MINUTES(tx, [owner])
}

const CLOSE_MINUTES = prepared(
  'close-minutes',
  `WITH closed AS (
      DELETE FROM refusal_counts WHERE owner = $1 AND minute < date_trunc('minute', now()) RETURNING *)
    INSERT INTO ledger (owner, ts, kind, handle, data, count)
    SELECT owner, minute + interval '1 minute', kind, nullif(handle, ''),
      json_build_object('reason', reason, CASE WHEN handle = '' THEN 'strangers' ELSE 'claimed' END, true, 'families', families),
      count
    FROM closed ORDER BY minute, kind, reason, handle`,
)
