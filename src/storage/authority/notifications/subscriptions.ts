/**
 * Where an owner is told that something waits for her. She adds and removes these; an endpoint that answers
 * that it is gone is removed, too. The caller holds her queue's lock. Contract: "Owner API".
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { MessageTiming, QuietHours } from '../../../wire/owner/owner-api.ts'
import type { Db, Tx } from '../database.ts'
import type { SubscriptionsTable } from './notification-tables.ts'
import type { KeyPage } from '../../core/columns.ts'

type SubscriptionRow = Selectable<SubscriptionsTable>
/** The subscription as it is listed, without anything that would let a reader send there. */
export type ListedSubscription = Pick<SubscriptionRow, (typeof LISTED)[number]>
/** What a message is sent to. */
export type SubscriptionTarget = Pick<
  SubscriptionRow,
  'owner' | 'id' | 'kind' | 'endpoint' | 'p256dh' | 'auth' | 'quiet_hours' | 'digest_minutes'
>
/** The whole subscription, when it is added. */
export type NewSubscription = SubscriptionTarget & Pick<SubscriptionRow, 'name' | 'origin'>

/** How many one owner may have. */
const SUBSCRIPTIONS_MAX = 20

const LISTED = [
  'id',
  'kind',
  'name',
  'origin',
  'created_at',
  'sent_at',
  'failing_since',
  'quiet_hours',
  'digest_minutes',
] as const

/** Her subscriptions, in the order of their ids. */
export function listSubscriptions(
  db: Db,
  owner: Owner,
  { after = '', limit }: KeyPage,
): Promise<ListedSubscription[]> {
  return db
    .selectFrom('subscriptions')
    .select(LISTED)
    .where('owner', '=', owner)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute()
}

/** What a message would be sent to. */
export function readSubscription(db: Db, owner: Owner, id: string): Promise<SubscriptionTarget | undefined> {
  return db
    .selectFrom('subscriptions')
    .select(['owner', 'id', 'kind', 'endpoint', 'p256dh', 'auth', 'quiet_hours', 'digest_minutes'])
    .where('owner', '=', owner)
    .where('id', '=', id)
    .executeTakeFirst()
}

/**
 * Adds one. A browser that subscribes again takes its own place; a webhook is there once.
 * @returns `there` for a webhook that is, `full` if she has as many as she may.
 */
export async function insertSubscription(
  tx: Tx,
  added: NewSubscription,
): Promise<ListedSubscription | 'there' | 'full'> {
  const { owner, kind, endpoint } = added
  if (kind === 'push')
    await sql`
      WITH before AS (
        DELETE FROM subscriptions WHERE owner = ${owner} AND endpoint = ${endpoint} AND kind = 'push' RETURNING id)
      DELETE FROM notifications WHERE owner = ${owner} AND subscription IN (SELECT id FROM before)`.execute(
      tx,
    )
  const { rows } = await sql<{ count: number }>`
    SELECT count(*)::int AS count FROM subscriptions WHERE owner = ${owner}`.execute(tx)
  if ((rows[0]?.count ?? 0) >= SUBSCRIPTIONS_MAX) return 'full'
  const inserted = await tx
    .insertInto('subscriptions')
    .values({ ...added, quiet_hours: jsonOf(added.quiet_hours) })
    .onConflict(conflict => conflict.columns(['owner', 'endpoint']).doNothing())
    .returning(LISTED)
    .executeTakeFirst()
  return inserted ?? 'there'
}

/**
 * Sets when it is told of what can be undone. Messages that wait are looked at anew, once it is tried again
 * if it fails. @returns undefined if there is none.
 */
export async function setTiming(
  tx: Tx,
  owner: Owner,
  id: string,
  { quiet_hours, digest_minutes }: MessageTiming,
): Promise<ListedSubscription | undefined> {
  const changed = await tx
    .updateTable('subscriptions')
    .set({ quiet_hours: jsonOf(quiet_hours), digest_minutes })
    .where('owner', '=', owner)
    .where('id', '=', id)
    .returning(LISTED)
    .executeTakeFirst()
  // A replica that is holding messages back by what was set before finds that the time was changed, and
  // leaves this one.
  await sql`
    UPDATE due SET at = least(due.at - interval '1 microsecond', greatest(clock_timestamp(), s.retry_at))
    FROM subscriptions s
    WHERE due.owner = ${owner} AND due.kind = 'notify' AND due.client_id = ${id}
      AND s.owner = due.owner AND s.id = due.client_id`.execute(tx)
  return changed
}

const jsonOf = (hours: QuietHours | null): string | null => (hours === null ? null : JSON.stringify(hours))

/**
 * Removes one, with the messages that still had to be sent to it. @returns the removed one; undefined if
 * there is none.
 */
export async function deleteSubscription(
  tx: Tx,
  owner: Owner,
  id: string,
): Promise<ListedSubscription | undefined> {
  await sql`DELETE FROM notifications WHERE owner = ${owner} AND subscription = ${id}`.execute(tx)
  return tx
    .deleteFrom('subscriptions')
    .where('owner', '=', owner)
    .where('id', '=', id)
    .returning(LISTED)
    .executeTakeFirst()
}
