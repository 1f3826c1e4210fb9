/**
 * Positions: the order in which an owner's ledger, events and receipts are read. Entries are inserted without
 * a position; the sequencer here numbers committed entries that have none. Contract: "Events", "Owner API"
 * (`/owner/ledger`, `/owner/events`).
 *
 * One sequencer runs at a time for each owner: it locks her head, and then reads what it numbers by a second
 * statement, so that it sees everything that was committed before it had the lock. A reader that continues
 * from the last position finds everything that is numbered later after it. So nothing is missed, however late
 * a transaction commits, and no transaction waits for another. Only the sequencer takes that lock. With its
 * position an entry gets its leaf in the owner's Merkle tree (ledger-tree.ts).
 */
import { CompiledQuery, sql } from 'kysely'
import { gatheringOf } from '../../core/batch.ts'
import { inTransaction, prepared } from '../../core/database.ts'
import { wholeOf } from '../../core/shares.ts'
import type { Db, Tx } from '../database.ts'
import { ENTRIES_MAX, leafIn, lockHead, placeEntries } from './ledger-tree.ts'
import type { Family, Handle, Owner } from '../../../wire/identifiers.ts'

/** The facts of an entry for a security log, once it has its position; nothing that an agent wrote. */
export interface Numbered {
  owner: Owner
  /**
   * The kind of a ledger entry; `granted` for the receipt of a grant, `resource_server_pending` for a
   * registration.
   */
  kind: string
  /** The position in its own list. */
  seq: number
  handle: Handle | null
  family: Family | null
  /** The id of a grant. */
  jti: string | null
}

type NumberedListener = (numbered: readonly Numbered[]) => void

const listeners = new WeakMap<Db, NumberedListener>()

/**
 * Calls `listener` with each ledger entry and receipt that is numbered through `db`, after the commit; of
 * calls, of which there are thousands, nothing is said. Only one replica numbers an entry, so each is
 * reported once, or not at all if a process dies in between.
 */
export function onNumbered(db: Db, listener: NumberedListener): void {
  listeners.set(db, listener)
}

/** How many entries of each list one transaction numbers at most. */
const NUMBERED_MAX = ENTRIES_MAX
/** How many owners one process numbers at once at most. */
const AT_ONCE = 4

const DUE = prepared<{ waiting: boolean; closing: boolean }>(
  'positions-due',
  `SELECT EXISTS (SELECT 1 FROM ledger WHERE owner = $1 AND seq IS NULL)
    OR EXISTS (SELECT 1 FROM events WHERE owner = $1 AND seq IS NULL)
    OR EXISTS (SELECT 1 FROM receipt_positions WHERE owner = $1 AND seq IS NULL) AS waiting,
    EXISTS (SELECT 1 FROM refusal_counts WHERE owner = $1 AND minute < date_trunc('minute', now())) AS closing`,
)

/**
 * Gives a position to every entry of an owner that was committed before this call and has none. Her readers
 * call this before they read. If there is nothing to do, it costs one query. Concurrent callers share the
 * work, but no caller joins work that began before its call. Do not call it within a transaction, which would
 * hold her head until it ends.
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
  const { waiting, closing } = (await DUE(db, [owner])).rows[0]!
  let more = waiting || closing
  while (more) {
    const some = await inTransaction(db, tx => numberSome(tx, owner, closing))
    more = some.most === NUMBERED_MAX
    if (some.told.length > 0) listeners.get(wholeOf(db))?.(some.told.map(one => ({ owner, ...one })))
  }
}

/** @returns how many of the longest list were numbered, and what to report about them. */
async function numberSome(
  tx: Tx,
  owner: Owner,
  closing: boolean,
): Promise<{ most: number; told: readonly Omit<Numbered, 'owner'>[] }> {
  const head = await lockHead(tx, owner)
  if (closing) await closeMinutes(tx, owner)
  const { entries, tree } = await placeEntries(tx, owner, head)
  const { ids, salts, prevs, leaves } = entries
  const { size, root, frontier } = tree ?? {}
  const values = [owner, head.ledger, ids, salts, prevs, leaves, size, root, frontier]
  const { rows } = await tx.executeQuery<Placed>(CompiledQuery.raw(PLACE, values))
  return { most: rows[0]?.most ?? 0, told: rows[0]?.told ?? [] }
}

interface Placed {
  most: number
  told: Omit<Numbered, 'owner'>[] | null
}

// This is not a prepared statement: it is planned for the present data, which costs little compared with
// hundreds of rows.
const PLACE = `
    WITH head AS MATERIALIZED (SELECT events, receipts FROM heads WHERE owner = $1),
    new_entries AS MATERIALIZED (
      SELECT n.id, $2::bigint + n.nth AS seq, n.salt, n.prev, ${leafIn('$6::bytea', 'n.nth')} AS leaf
      FROM unnest($3::bigint[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS n(id, salt, prev, nth)),
    new_events AS MATERIALIZED (
      SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
        SELECT id FROM events WHERE owner = $1 AND seq IS NULL ORDER BY id LIMIT ${NUMBERED_MAX}) found),
    new_receipts AS MATERIALIZED (
      SELECT id, jti, row_number() OVER (ORDER BY id) AS nth FROM (
        SELECT id, jti FROM receipt_positions WHERE owner = $1 AND seq IS NULL ORDER BY id LIMIT ${NUMBERED_MAX}) found),
    numbered_entries AS (
      UPDATE ledger SET seq = n.seq, salt = coalesce(n.salt, ledger.salt), prev = n.prev, leaf = n.leaf FROM new_entries n
      WHERE ledger.owner = $1 AND ledger.id = n.id
      RETURNING ledger.kind, ledger.seq, ledger.handle, ledger.family, NULL::text AS jti),
    numbered_events AS (
      UPDATE events SET seq = head.events + nth FROM new_events, head
      WHERE events.owner = $1 AND events.id = new_events.id
      RETURNING events.event AS kind, events.seq, NULL::text AS handle, NULL::text AS family, NULL::text AS jti),
    numbered_receipts AS (
      UPDATE receipt_positions p SET seq = head.receipts + nth
      FROM new_receipts JOIN receipts r ON r.owner = $1 AND r.jti = new_receipts.jti, head
      WHERE p.owner = $1 AND p.jti = new_receipts.jti
      RETURNING 'granted' AS kind, p.seq, r.handle, r.family, p.jti),
    counted AS MATERIALIZED (
      SELECT (SELECT count(*) FROM new_entries) AS ledger, (SELECT count(*) FROM new_events) AS events,
        (SELECT count(*) FROM new_receipts) AS receipts)
    UPDATE heads SET ledger = heads.ledger + counted.ledger, events = heads.events + counted.events,
      receipts = heads.receipts + counted.receipts, tree_size = coalesce($7::bigint, heads.tree_size),
      tree_root = coalesce($8::bytea, heads.tree_root),
      frontier = coalesce($9::bytea, heads.frontier) FROM counted
    WHERE owner = $1 RETURNING greatest(counted.ledger, counted.events, counted.receipts)::int AS most,
      (SELECT json_agg(one) FROM (SELECT * FROM numbered_entries WHERE kind <> 'touched' UNION ALL TABLE numbered_receipts
        UNION ALL SELECT * FROM numbered_events WHERE kind = 'resource_server_pending') one) AS told`

/** More events than an owner has between a backup and a restore. */
const EVENTS_SKIPPED = 1_000_000

/**
 * Leaves positions of her events out, so that whoever read further than the database goes now, before it was
 * restored, finds nothing there, and is told to read anew instead of resuming past what he never got.
 */
export async function skipEventPositions(tx: Tx, owner: Owner): Promise<void> {
  await sql`
    INSERT INTO heads (owner, events) VALUES (${owner}, ${EVENTS_SKIPPED})
    ON CONFLICT (owner) DO UPDATE SET events = heads.events + ${EVENTS_SKIPPED}`.execute(tx)
}

/**
 * Writes the refusals that were counted in past minutes to the ledger: one entry each, which never changes
 * again.
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
