/**
 * Decides which messages to one of her addresses are sent now, and holds the others back. Contract: "Events"
 * (row 1), "Owner API"; when they are sent is rules/quiet-hours.ts.
 */
import { sendingTime } from '../../rules/quiet-hours.ts'
import type { Db } from '../../storage/authority/database.ts'
import { holdBack, oldestWaiting } from '../../storage/authority/notifications/held-notifications.ts'
import type { Which } from '../../storage/authority/notifications/notifications.ts'
import type { SubscriptionTarget } from '../../storage/authority/notifications/subscriptions.ts'

/**
 * Which are sent each by itself, and then which in one message. The time is that of Postgres, so that all
 * replicas find the same.
 */
export async function sendableNow(
  db: Db,
  to: SubscriptionTarget,
): Promise<{ each: Which; together?: Which }> {
  const { quiet_hours, digest_minutes } = to
  if (quiet_hours === null && digest_minutes === null) return { each: 'any' }
  const waiting = await oldestWaiting(db, to)
  if (waiting === undefined) return { each: 'urgent' }
  const at = sendingTime(to, waiting)
  if (at > waiting.now) {
    await holdBack(db, to, at)
    return { each: 'urgent' }
  }
  if (digest_minutes === null) return { each: 'unheld', together: 'held' }
  return { each: 'urgent', together: 'waiting' }
}
