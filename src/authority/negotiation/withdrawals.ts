/**
 * Tells the owner about requests that no longer wait for her although she decided nothing: in the ledger, and
 * on her stream, so that they disappear from what she is shown. Contract: "Permission ticket"
 * (awaiting-owner), "Events".
 */
import type { Db, Tx } from '../../storage/authority/database.ts'
import { appendEvents } from '../../storage/authority/ledger/events.ts'
import { appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import { forgetExpired } from '../../storage/authority/joint/joint-questions.ts'
import { expireWaiting } from '../../storage/authority/negotiations/pending.ts'
import { inTransaction } from '../../storage/core/database.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/**
 * `declined`: the agent took it back. `replaced`: it asked for something else in its place. `expired`: its
 * ticket expired unanswered. `terms_changed`: she edited or deleted the tier. `closed`: her co-holders
 * settled it.
 */
export type WithdrawnBecause = 'declined' | 'replaced' | 'expired' | 'terms_changed' | 'closed'

/** Writes one entry and one event for each, in their order, in the transaction that withdrew them. */
export async function tellWithdrawn(
  tx: Tx,
  owner: Owner,
  items: readonly { family: Family; handle: Handle }[],
  because: WithdrawnBecause,
): Promise<void> {
  const entries = items.map(({ family, handle }) => ({
    kind: 'withdrawn' as const,
    family,
    handle,
    data: { reason: because },
  }))
  await appendLedgerAll(tx, owner, entries)
  const events = items.map(({ family }) => ({ event: 'withdrawn' as const, data: { family, because } }))
  await appendEvents(tx, owner, events)
}

/**
 * Withdraws items that an owner never answered before their ticket expired, a bounded number at once.
 * @returns how many.
 */
export async function withdrawExpired(db: Db, owner: Owner, limit: number): Promise<number> {
  const expired = await inTransaction(db, async tx => {
    const items = await expireWaiting(tx, owner, limit)
    if (items.length > 0) await tellWithdrawn(tx, owner, items, 'expired')
    return items.map(({ family }) => family)
  })
  // Apart, under the lock of her queue, which expiring does not wait for: a tally may have asked again.
  if (expired.length > 0) await forgetExpired(db, owner, expired)
  return expired.length
}
