/**
 * The events of the owner's portal stream: written with the change they tell of, announced by NOTIFY with
 * the owner's name only, read back by id. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { sql } from 'kysely'
import type { Db, Tx } from './database.ts'
import { SETTLED } from './ledger.ts'

/** The channel; its payload is an owner. */
export const EVENTS_CHANNEL = 'usher_events'

export type EventName =
  'pending' | 'decided' | 'connection_revoked' | 'resource_server_pending' | 'resource_server_decided'

export interface EventRow {
  id: number
  event: string
  data: unknown
}

/** Appends an event; it is announced when the transaction commits. */
export async function appendEvent(tx: Tx, owner: string, event: EventName, data: unknown): Promise<void> {
  await tx
    .insertInto('events')
    .values({ owner, event, data: JSON.stringify(data) })
    .execute()
  await sql`SELECT pg_notify(${EVENTS_CHANNEL}, ${owner})`.execute(tx)
}

/** Events after an id, oldest first, stopping before the oldest transaction still in flight. */
export async function readEvents(
  db: Db,
  owner: string,
  page: { after: number; limit: number },
): Promise<EventRow[]> {
  const { rows } = await sql<EventRow>`
    SELECT id, event, data FROM events
    WHERE owner = ${owner} AND id > ${page.after} AND ${SETTLED}
    ORDER BY id LIMIT ${page.limit}`.execute(db)
  return rows
}

/**
 * Where a reader stands: the id to start from now, and whether the id it knows is too old. Every id it was
 * given was an event of hers, so one that is kept no more may have later ones gone with it: then the reader
 * gets `reset` and reads its lists afresh.
 */
export async function eventPosition(
  db: Db,
  owner: string,
  known: number | undefined,
): Promise<{ latest: number; tooOld: boolean }> {
  const { rows } = await sql<{ latest: number; kept: boolean | null }>`
    SELECT coalesce(max(id) FILTER (WHERE ${SETTLED}), 0)::bigint AS latest, bool_or(id = ${known ?? 0}) AS kept
    FROM events WHERE owner = ${owner}`.execute(db)
  const { latest = 0, kept = null } = rows[0] ?? {}
  return { latest, tooOld: known !== undefined && kept !== true }
}
