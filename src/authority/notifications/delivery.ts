/**
 * Sends the notifications that wait; any replica that finds one due sends it. Each subscription is sent to
 * separately, so one that does not answer delays no other. Delivery is at least once: if the answer to a
 * message was not recorded, the message is sent again under its id. Contract: "Events" (row 1), "Limits".
 */
import { startRepeating, type Repetition } from '../../limits/repetition.ts'
import { takeDue, type DueClaim } from '../../storage/authority/due.ts'
import { appendEvent } from '../../storage/authority/ledger/events.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import {
  endNotifications,
  noteFailed,
  noteSent,
  notifyAgain,
  takeNotifications,
  type DueNotification,
  type Which,
} from '../../storage/authority/notifications/notifications.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import {
  deleteSubscription,
  readSubscription,
  type ListedSubscription,
  type SubscriptionTarget,
} from '../../storage/authority/notifications/subscriptions.ts'
import { inTransaction, isOutage } from '../../storage/core/database.ts'
import type { Tx } from '../../storage/authority/database.ts'
import { sha256 } from '../../wire/encoding.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Wakeups } from '../context.ts'
import { sendableNow } from './holding.ts'
import { send, type Notifier } from './sending.ts'

/** The outcome of a message; `ended` means that the item no longer waits, and nothing is sent. */
export type DeliveryOutcome = 'sent' | 'failed' | 'gone' | 'given_up' | 'ended'
export type CountNotification = (kind: SubscriptionTarget['kind'], outcome: DeliveryOutcome) => void

export interface Delivering extends Wakeups {
  notifier: Notifier
  count: CountNotification
}

const PAUSE_SECONDS = 1
/**
 * How many subscriptions one process sends to at once, so that some that do not answer leave places for
 * others.
 */
const AT_ONCE_MAX = 64
/**
 * How many messages one of them gets before others have their turn, and for how long this process has it
 * alone.
 */
const MESSAGES_PER_TURN = 8
const CLAIM_SECONDS = 60
/** How many requests one message counts at most; the next counts the others. */
const TOGETHER_MAX = 500

/** Starts sending. `stop` waits for what is under way. */
export function startDelivery(delivering: Delivering): Repetition {
  const { database, announcements, log } = delivering
  const underWay = new Set<Promise<void>>()
  let isStopped = false
  const tell = (err: unknown, about: object, words: string): void =>
    log[isOutage(err) ? 'warn' : 'error']({ err, ...about }, words)
  const begin = (claim: DueClaim): void => {
    const work = deliverDue(delivering, claim, () => isStopped)
      .catch((error: unknown) => tell(error, { owner: claim.owner }, 'an owner was not notified'))
      .finally(() => underWay.delete(work))
    underWay.add(work)
  }
  const repetition = startRepeating(
    async stopped => {
      while (!stopped() && underWay.size < AT_ONCE_MAX) {
        const limit = AT_ONCE_MAX - underWay.size
        const due = await takeDue(database.ofNobody, 'notify', { limit, seconds: CLAIM_SECONDS })
        if (due.length === 0) return
        due.forEach(begin)
      }
    },
    {
      pauseSeconds: PAUSE_SECONDS,
      onError: error => tell(error, {}, 'notifying was broken off'),
    },
  )
  const unwatch = announcements.watchDue('notify', () => repetition.wake())
  return {
    async stop() {
      isStopped = true
      unwatch()
      await repetition.stop()
      await Promise.all(underWay)
    },
  }
}

/**
 * Sends the messages that wait for one subscription, in order, until one is not accepted: each by itself,
 * then those that waited together, in one.
 */
async function deliverDue(delivering: Delivering, claim: DueClaim, stopped: () => boolean): Promise<void> {
  const db = delivering.database.ofNobody
  const to = await readSubscription(db, claim.owner, claim.client_id)
  if (to === undefined) return notifyAgain(db, claim)
  const { each, together } = await sendableNow(db, to)
  const take = (which: Which, limit: number): Promise<DueNotification[]> =>
    takeNotifications(db, to, { which, limit, seconds: CLAIM_SECONDS })
  for (let count = 0; count < MESSAGES_PER_TURN && !stopped(); count++) {
    const next = await take(each, 1)
    if (next.length === 0) break
    if (!(await tell(delivering, to, next))) return notifyAgain(db, claim)
  }
  // Once alone: what begins to wait after this has its own time to wait.
  if (together !== undefined && !stopped()) await tell(delivering, to, await take(together, TOGETHER_MAX))
  await notifyAgain(db, claim)
}

/**
 * Sends one message about all of these that are still worth it; about none, it sends nothing. @returns
 * whether the endpoint is ready for more.
 */
async function tell(
  delivering: Delivering,
  to: SubscriptionTarget,
  messages: readonly DueNotification[],
): Promise<boolean> {
  const { database, notifier, count, log } = delivering
  const db = database.ofNobody
  const { owner, id: subscription, kind } = to
  const [left, over] = [messages.filter(isWorthSending), messages.filter(one => !isWorthSending(one))]
  if (over.length > 0) await endNotifications(db, owner, idsOf(over))
  for (const { asking } of over) {
    count(kind, asking === undefined ? 'ended' : 'given_up')
    if (asking !== undefined) log.warn({ owner, subscription }, 'a notification was given up')
  }
  const [first, ...more] = left
  if (first === undefined) return true
  const ids = idsOf(left)
  const message =
    more.length === 0
      ? { id: first.id, about: first.asking }
      : { id: idOfAll(ids), about: { count: ids.length } }
  const { outcome, status, why, afterSeconds } = await send(notifier, to, message)
  count(kind, outcome)
  switch (outcome) {
    case 'gone':
      await drop(delivering, owner, subscription)
      return false
    case 'failed':
      log.warn({ owner, subscription, status, why }, 'a notification was not taken')
      await noteFailed(db, owner, subscription, { ids, afterSeconds })
      return false
    case 'sent':
      await endNotifications(db, owner, ids)
      await noteSent(db, owner, subscription)
      return true
  }
}

const isWorthSending = ({ asking, overdue }: DueNotification): boolean => asking !== undefined && !overdue
const idsOf = (messages: readonly DueNotification[]): string[] => messages.map(({ id }) => id)

/**
 * The same for the same messages, and another one when some have come or gone, so that a receiver that drops
 * an id which it has seen loses no request.
 */
function idOfAll(ids: readonly string[]): string {
  return `msg_${sha256(ids.toSorted().join(' ')).toString('hex').slice(0, 32)}`
}

/** An endpoint that is gone gets nothing more; her ledger and her page say so. */
function drop({ database }: Delivering, owner: Owner, id: string): Promise<void> {
  return inTransaction(database.ofNobody, async tx => {
    await lockQueue(tx, owner)
    const subscription = await deleteSubscription(tx, owner, id)
    if (subscription !== undefined)
      await tellSubscription(tx, owner, 'removed', { what: subscription, by: { by: 'endpoint' } })
  })
}

/** In her ledger and stream: what was added, changed or removed, and by whom. */
export async function tellSubscription(
  tx: Tx,
  owner: Owner,
  change: 'added' | 'changed' | 'removed',
  { what, by }: { what: ListedSubscription; by: object },
): Promise<void> {
  const { id, kind: to, name, origin } = what
  const data = { subscription: id, to, name, origin, ...by }
  await appendLedger(tx, owner, { kind: `subscription_${change}`, data })
  await appendEvent(tx, owner, `subscription_${change}`, data)
}
