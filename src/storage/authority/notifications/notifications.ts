/**
 * Messages that must still be sent outside of her page: written with the waiting item, one row for each of
 * her subscriptions, and kept until it was accepted there, is no longer worth sending, or is too old. Its
 * text is read when it is sent. Contract: "Events" (row 1), "Permission ticket" (awaiting-owner).
 */
import { sql, type RawBuilder, type Selectable } from 'kysely'
import type { RequestSummary } from '../../../wire/owner/notification.ts'
import type { Family, Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { dueAgain, dueNoMore, wakeFor, type DueClaim } from '../due.ts'
import { WAITS } from '../negotiations/pending.ts'
import type { SubscriptionTarget } from './subscriptions.ts'
import type { FamiliesTable } from '../tables.ts'

/**
 * Which messages to one subscription are taken: `urgent` are those that may not wait, `unheld` also those
 * that may and were never held back, `held` those that were, and `waiting` all that may.
 */
export type Which = 'any' | 'urgent' | 'unheld' | 'held' | 'waiting'

/** One message that this process took to send: until so many seconds have passed, nobody else sends it. */
export interface DueNotification {
  id: string
  /** The message is too old to be sent. */
  overdue: boolean
  /** Undefined if the item no longer waits. */
  asking: RequestSummary | undefined
}

/** When a message is given up; time for which it was held back does not count. */
const GIVEN_UP = sql`interval '24 hours'`
/** The pause between two attempts at an endpoint that fails, which doubles each time. */
const RETRY_SECONDS = { first: 5, max: 3_600 }

/** Nobody is sending it: it is due, or is held back, or was, until her settings changed. */
export const FREE = sql`(at <= clock_timestamp() OR at = held_until)`

const OF: Record<Which, RawBuilder<unknown>> = {
  any: sql`true`,
  urgent: sql`NOT may_wait`,
  unheld: sql`(NOT may_wait OR held_until IS NULL)`,
  held: sql`(may_wait AND held_until IS NOT NULL)`,
  waiting: sql`may_wait`,
}

/**
 * Makes messages to each of her subscriptions, due when this transaction commits: at once, or, for a failing
 * one, when it is tried again anyway. Writes nothing if she has none.
 */
export async function notify(
  tx: Tx,
  owner: Owner,
  { family, mayWait }: { family: Family; mayWait: boolean },
): Promise<void> {
  await sql`
    WITH told AS (SELECT id, retry_at FROM subscriptions WHERE owner = ${owner}),
    written AS (
      INSERT INTO notifications (owner, id, subscription, family, may_wait)
      SELECT ${owner}, 'msg_' || replace(gen_random_uuid()::text, '-', ''), id, ${family}, ${mayWait}::boolean
      FROM told)
    INSERT INTO due (owner, kind, client_id, at)
    SELECT ${owner}, 'notify', id, greatest(clock_timestamp(), retry_at) FROM told
    ON CONFLICT (owner, kind, client_id)
      DO UPDATE SET at = least(due.at - interval '1 microsecond', excluded.at)`.execute(tx)
  await wakeFor(tx, 'notify')
}

/** Takes the oldest messages to one of her subscriptions that nobody else is sending, in no order. */
export async function takeNotifications(
  db: Db,
  { owner, id: subscription }: Pick<SubscriptionTarget, 'owner' | 'id'>,
  { which, limit, seconds }: { which: Which; limit: number; seconds: number },
): Promise<DueNotification[]> {
  const { rows } = await sql<DueRow>`
    WITH next AS MATERIALIZED (
      SELECT id FROM notifications
      WHERE owner = ${owner} AND subscription = ${subscription} AND ${FREE} AND ${OF[which]}
      ORDER BY since, id LIMIT ${limit} FOR UPDATE SKIP LOCKED),
    taken AS (
      UPDATE notifications n SET at = clock_timestamp() + ${seconds}::float8 * interval '1 second'
      FROM next WHERE n.owner = ${owner} AND n.id = next.id
      RETURNING n.id, n.family AS of,
        n.since + n.held_seconds * interval '1 second' < clock_timestamp() - ${GIVEN_UP} AS overdue)
    SELECT id, of, overdue, kind, handle, operator, attested, resource_id, held FROM taken
    LEFT JOIN families ON owner = ${owner} AND family = of AND ${WAITS}`.execute(db)
  return rows.map(notificationOf)
}

type DueRow = { id: string; of: Family; overdue: boolean } & Pick<
  Selectable<FamiliesTable>,
  'kind' | 'handle' | 'operator' | 'attested' | 'resource_id' | 'held'
>

function notificationOf(row: DueRow): DueNotification {
  const { id, of: family, overdue, kind, handle, operator, attested, resource_id, held } = row
  const waits = kind !== null && handle !== null && held !== null
  const asking = waits
    ? {
        family,
        kind,
        handle,
        operator: attested === true ? operator : null,
        resource_id,
        expires_in: held.expires_in,
      }
    : undefined
  return { id, overdue, asking }
}

/** The messages were accepted, are not worth sending, or are given up. */
export async function endNotifications(db: Db, owner: Owner, ids: readonly string[]): Promise<void> {
  await sql`DELETE FROM notifications WHERE owner = ${owner} AND id = ANY(${ids})`.execute(db)
}

/** The endpoint accepted a message. */
export async function noteSent(db: Db, owner: Owner, subscription: string): Promise<void> {
  await sql`
    UPDATE subscriptions SET sent_at = clock_timestamp(), failures = 0, failing_since = NULL, retry_at = NULL
    WHERE owner = ${owner} AND id = ${subscription}`.execute(db)
}

/**
 * The endpoint did not accept them. Nothing is sent there for a while, which gets longer each time and is at
 * least what it asks for (`afterSeconds`); then they are sent again.
 */
export async function noteFailed(
  db: Db,
  owner: Owner,
  subscription: string,
  { ids, afterSeconds }: { ids: readonly string[]; afterSeconds: number },
): Promise<void> {
  await sql`
    WITH failed AS (
      UPDATE subscriptions SET failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()),
        retry_at = clock_timestamp() + interval '1 second' * least(${RETRY_SECONDS.max}::float8,
          greatest(${afterSeconds}::float8, ${RETRY_SECONDS.first} * 2 ^ least(failures, 20)))
      WHERE owner = ${owner} AND id = ${subscription}
      RETURNING retry_at)
    UPDATE notifications n SET at = failed.retry_at FROM failed
    WHERE n.owner = ${owner} AND n.id = ANY(${ids})`.execute(db)
}

/**
 * When it must be checked again: at the first remaining message, unless the endpoint is failing for longer.
 */
export async function notifyAgain(db: Db, claim: DueClaim): Promise<void> {
  const { owner, client_id: subscription } = claim
  const { rows } = await sql<{ at: string }>`
    SELECT greatest(min(n.at), max(s.retry_at))::text AS at
    FROM notifications n JOIN subscriptions s ON s.owner = n.owner AND s.id = n.subscription
    WHERE n.owner = ${owner} AND n.subscription = ${subscription}
    HAVING count(*) > 0`.execute(db)
  const [left] = rows
  if (left === undefined) return dueNoMore(db, claim)
  return dueAgain(db, claim, sql`${left.at}::timestamptz`)
}
