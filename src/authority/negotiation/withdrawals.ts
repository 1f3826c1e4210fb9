/**
 * Tells the owner of requests that wait for her no more, though she decided nothing: in the ledger, and on her stream, so that what
 * she is shown goes away. Contract: "Permission ticket" (awaiting-owner), "Events".
 */
import type { Tx } from '../../storage/authority/database.ts'
import { appendEvents } from '../../storage/authority/events.ts'
import { appendLedgerAll } from '../../storage/authority/ledger.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/** `declined`: the agent took it back. `replaced`: it asked for something else in its place. `terms_changed`: she edited or deleted the tier. */
export type WithdrawnBecause = 'declined' | 'replaced' | 'terms_changed'

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
