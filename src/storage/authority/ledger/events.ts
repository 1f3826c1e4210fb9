/**
 * The events of the owner's portal stream: they are written with the change that they report, announced by
 * NOTIFY with only the owner's name, and read by position. Contract: "Events", "Owner API" (`/owner/events`).
 */
import { sql } from 'kysely'
import { announceOwner } from '../../core/after-commit.ts'
import { notify } from '../../core/notify.ts'
import type { Db, Tx } from '../database.ts'
import { number } from './positions.ts'
import type { Owner } from '../../../wire/identifiers.ts'

/** The channel; its payload is an owner. */
export const EVENTS_CHANNEL = 'usher_events'

export type EventName =
  | 'pending'
  | 'decided'
  | 'withdrawn'
  | 'connection_revoked'
  | 'connection_labelled'
  | 'connection_blocked'
  | 'connection_unblocked'
  | 'policy_changed'
  | 'allowance_changed'
  | 'resource_server_pending'
  | 'resource_server_decided'
  | 'credential_added'
  | 'credential_removed'
  | 'subscription_added'
  | 'subscription_removed'
  | 'subscription_changed'
  | 'recovery'
  | 'organization'
  | 'break_glass'
  | 'joint'

export interface NewEvent {
  event: EventName
  data: Record<string, unknown>
}

/** `id` is the event's position in her stream: from 1, without gaps but where the database was restored. */
export interface EventRow {
  id: number
  event: string
  data: Record<string, unknown>
}

/** Appends an event; it is announced when the transaction commits. */
export async function appendEvent(
  tx: Tx,
  owner: Owner,
  event: EventName,
  data: NewEvent['data'],
): Promise<void> {
  await appendEvents(tx, owner, [{ event, data }])
}

const ROWS_PER_INSERT = 1_000

/** Appends events, in order; they are announced once, when the transaction commits. */
export async function appendEvents(tx: Tx, owner: Owner, events: readonly NewEvent[]): Promise<void> {
  const rows = events.map(({ event, data }) => ({ owner, event, data: JSON.stringify(data) }))
  for (let at = 0; at < rows.length; at += ROWS_PER_INSERT)
    await tx
      .insertInto('events')
      .values(rows.slice(at, at + ROWS_PER_INSERT))
      .execute()
  if (rows.length === 0) return
  await notify(tx, EVENTS_CHANNEL, owner)
  announceOwner(tx, owner)
}

/** Events after a position, oldest first: all that were committed before this was called, up to the limit. */
export async function readEvents(
  db: Db,
  owner: Owner,
  page: { after: number; limit: number },
): Promise<EventRow[]> {
  await number(db, owner)
  const { rows } = await sql<EventRow>`
    SELECT seq AS id, event, data FROM events
    WHERE owner = ${owner} AND seq > ${page.after} ORDER BY seq LIMIT ${page.limit}`.execute(db)
  return rows
}

/**
 * Where a reader begins: after the newest event, or after the last one that it got (`known`), if everything
 * after that one is kept. If not, the reader gets `reset`, begins after the newest, and must read its lists
 * again.
 */
export async function startOfReading(
  db: Db,
  owner: Owner,
  known?: number,
): Promise<{ after: number; reset: boolean }> {
  await number(db, owner)
  const { rows } = await sql<{ newest: number; kept: boolean }>`
    SELECT head.events AS newest, ${known ?? -1}::bigint = head.events
      OR EXISTS (SELECT 1 FROM events WHERE owner = ${owner} AND seq = ${known ?? -1}::bigint + 1) AS kept
    FROM (SELECT coalesce((SELECT events FROM heads WHERE owner = ${owner}), 0) AS events) head`.execute(db)
  const { newest, kept } = rows[0]!
  if (known !== undefined && kept) return { after: known, reset: false }
  return { after: newest, reset: known !== undefined }
}
