/**
 * Messages that are held back, because her quiet hours or a digest have them wait. Contract: "Events" (row
 * 1), "Owner API".
 */
import { sql } from 'kysely'
import type { Db } from '../database.ts'
import { FREE } from './notifications.ts'
import type { SubscriptionTarget } from './subscriptions.ts'

type SubscriptionKey = Pick<SubscriptionTarget, 'owner' | 'id'>

/**
 * When the oldest of the messages that may wait was written, and what time it is, in seconds since the epoch.
 * Messages that are being sent do not count. Undefined if there is none.
 */
export async function oldestWaiting(
  db: Db,
  { owner, id }: SubscriptionKey,
): Promise<{ oldest: number; now: number } | undefined> {
  const { rows } = await sql<{ oldest: number; now: number }>`
    SELECT extract(epoch FROM min(since))::float8 AS oldest, extract(epoch FROM clock_timestamp())::float8 AS now
    FROM notifications WHERE owner = ${owner} AND subscription = ${id} AND may_wait AND ${FREE}
    HAVING count(*) > 0`.execute(db)
  return rows[0]
}

/**
 * Holds all of them back until then, in seconds since the epoch; this may be sooner than they were held back
 * for.
 */
export async function holdBack(db: Db, { owner, id }: SubscriptionKey, until: number): Promise<void> {
  await sql`
    WITH next AS (SELECT to_timestamp(${until}::float8) AS turn)
    UPDATE notifications SET at = turn, held_until = turn, held_seconds = held_seconds
      + extract(epoch FROM turn - CASE WHEN at = held_until THEN at ELSE clock_timestamp() END)
    FROM next WHERE owner = ${owner} AND subscription = ${id} AND may_wait AND ${FREE} AND at <> turn`.execute(
    db,
  )
}
