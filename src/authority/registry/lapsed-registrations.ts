/**
 * Tells the owner about registrations that she left unanswered until they lapsed: in the ledger, and on her
 * stream, so that they disappear from what she is shown. Contract: "Resource server registration", "Events".
 */
import { inTransaction } from '../../storage/core/database.ts'
import type { Db, Tx } from '../../storage/authority/database.ts'
import { appendEvents } from '../../storage/authority/ledger/events.ts'
import { appendLedgerAll } from '../../storage/authority/ledger/ledger.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { anyLapsed, endLapsed } from '../../storage/authority/registry/registrations.ts'
import type { Owner } from '../../wire/identifiers.ts'

const BY_EXPIRY = { by: 'expiry' } as const

/**
 * Ends the registrations that have lapsed, and records that in the same transaction. The caller holds the
 * owner's queue lock.
 */
export async function withdrawLapsed(tx: Tx, owner: Owner): Promise<void> {
  const lapsed = await endLapsed(tx, owner)
  const entries = lapsed.map(client_id => ({
    kind: 'server_withdrawn' as const,
    data: { client_id, ...BY_EXPIRY },
  }))
  await appendLedgerAll(tx, owner, entries)
  const events = lapsed.map(client_id => ({
    event: 'resource_server_decided' as const,
    data: { client_id, status: 'revoked', ...BY_EXPIRY },
  }))
  await appendEvents(tx, owner, events)
}

/** Like `withdrawLapsed`, for the sweeper: if nothing lapsed, it takes one statement and no lock. */
export async function sweepLapsed(db: Db, owner: Owner): Promise<void> {
  if (!(await anyLapsed(db, owner))) return
  await inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    await withdrawLapsed(tx, owner)
  })
}
