/**
 * The events of the owner's portal stream: written with the change they tell of, announced by NOTIFY with
 * the owner's name only, read back by id. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { sql } from 'kysely'
import type { Db, Tx } from '../core/database.ts'
import { SETTLED } from './ledger.ts'

/** The channel; its payload is an owner. */
export const EVENTS_CHANNEL = 'usher_events'

export type EventName =
  | 'pending'
  | 'decided'
  | 'connection_revoked'
  | 'resource_server_pending'
  | 'resource_server_decided'
  | 'credential_added'
  | 'credential_removed'

export interface NewEvent {
  event: EventName
  data: unknown
}

/** A place in the stream. Ids alone do not order it: see the migration. */
export interface EventCursor {
  xid: string
  id: number
}

export interface EventRow extends EventCursor {
  event: string
  data: unknown
}

/** Appends an event; it is announced when the transaction commits. */
export async function appendEvent(tx: Tx, owner: string, event: EventName, data: unknown): Promise<void> {
  await appendEvents(tx, owner, [{ event, data }])
}

const ROWS_PER_INSERT = 1_000

/** Appends events, in order; they are announced once, when the transaction commits. */
export async function appendEvents(tx: Tx, owner: string, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(({ event, data }) => ({ owner, event, data: JSON.stringify(data) }))
  for (let at = 0; at < rows.length; at += ROWS_PER_INSERT)
    await tx
      .insertInto('events')
      .values(rows.slice(at, at + ROWS_PER_INSERT))
      .execute()
  if (rows.length > 0) await sql`SELECT pg_notify(${EVENTS_CHANNEL}, ${owner})`.execute(tx)
}

/**
 * Events after a place, oldest first, stopping before the oldest transaction still in flight.
 * @returns `unsettled` where events are there that will be readable once that transaction has ended: nobody
 * announces them again, so the reader comes back by itself.
 */
export async function readEvents(
  db: Db,
  owner: string,
  page: { after: EventCursor; limit: number },
): Promise<{ events: EventRow[]; unsettled: boolean }> {
  const { rows } = await sql<EventRow & { settled: boolean }>`
    SELECT id, xid, event, data, ${SETTLED} AS settled FROM events
    WHERE owner = ${owner} AND (xid, id) > (${page.after.xid}::xid8, ${page.after.id})
    ORDER BY xid, id LIMIT ${page.limit}`.execute(db)
  const events = rows.filter(row => row.settled)
  return { events, unsettled: events.length < rows.length }
}

/**
 * The place of an event that a reader was given; undefined where it is kept no more. Later ones may have gone
 * with it, so that reader gets `reset` and reads its lists afresh.
 */
export function findEvent(db: Db, owner: string, id: number): Promise<EventCursor | undefined> {
  return db
    .selectFrom('events')
    .select(['xid', 'id'])
    .where('owner', '=', owner)
    .where('id', '=', id)
    .executeTakeFirst()
}

/** The place of the newest event that a reader could have been given. */
export async function latestEvent(db: Db, owner: string): Promise<EventCursor> {
  const { rows } = await sql<EventCursor>`
    SELECT xid, id FROM events WHERE owner = ${owner} AND ${SETTLED}
    ORDER BY xid DESC, id DESC LIMIT 1`.execute(db)
  return rows[0] ?? { xid: '0', id: 0 }
}
