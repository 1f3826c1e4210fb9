/**
 * The items that wait for the owner, as she is shown them, and what her approval would open beside the
 * request itself. Contract: "Permission ticket" (awaiting-owner), "Owner API" (`/owner/pending`).
 */
import type { Db } from '../../../storage/authority/database.ts'
import { readConnection, type ConnectionRow } from '../../../storage/authority/connections/connections.ts'
import {
  listPending,
  readUndecided,
  type PendingRow,
} from '../../../storage/authority/negotiations/pending.ts'
import type { PassingTier } from '../../../storage/authority/policies/tiers.ts'
import { itemDigest } from '../../../wire/owner/decision-item.ts'
import { asFamily, type Family, type Owner } from '../../../wire/identifiers.ts'
import type { PendingItem, WholePendingItem } from '../../../wire/owner/owner-api.ts'
import { refuse } from '../../../wire/refusal.ts'
import { approvedBefore } from './approved-before.ts'
import { NO_SUCH_ITEM, noLongerWaits } from './decision.ts'
import { recordOf, tiersFor } from './decision-item.ts'
import type { KeyPage } from '../../../storage/core/columns.ts'

/** A page of the items that wait for her, oldest first, after the item of the family `after`. */
export async function listShown(db: Db, owner: Owner, page: KeyPage): Promise<PendingItem[]> {
  const rows = await listPending(db, owner, page)
  // An empty page after an unknown item would look as if nothing waited.
  const isUnknown =
    rows.length === 0 && page.after !== undefined && !(await wasPending(db, owner, page.after))
  if (isUnknown)
    refuse('invalid_request', 'Give as `after` the family of an item of your list, or leave it out.')
  const tiers = await tiersFor(db, owner, rows)
  return rows.map(row => shown(row, tiers))
}

async function wasPending(db: Db, owner: Owner, family: string): Promise<boolean> {
  return (await readUndecided(db, owner, asFamily(family))) !== 'unknown'
}

/**
 * One waiting item, with the agreement that the agent signed, what she knows of the agent, and the last such
 * call that she approved. Refuses 404 if the item never waited, 409 if it no longer waits.
 */
export async function showOne(db: Db, owner: Owner, family: Family): Promise<WholePendingItem> {
  const read = await readUndecided(db, owner, family)
  if (read === 'unknown') refuse('not_found', NO_SUCH_ITEM)
  if ('gone' in read) throw noLongerWaits(read.gone)
  const { agreement_jws } = read.item.held
  const pending = shown(read.item, await tiersFor(db, owner, [read.item]))
  const approved_before = await approvedBefore(db, pending.item)
  const connection = await readConnection(db, owner, pending.handle)
  return {
    ...pending,
    agreement_jws,
    approved_before,
    connection: connection === undefined ? null : known(connection),
  }
}

function known({
  label,
  status,
  first_seen,
  last_access,
  revocations,
}: ConnectionRow): WholePendingItem['connection'] {
  return { label, status, first_seen, last_access, revocations }
}

/** The rest of the item is shown as it was stored. */
function shown(row: PendingRow, tiers: PassingTier[]): PendingItem {
  const { family, handle, requested_at } = row
  const item = recordOf(row, tiers)
  const { terms_s256: _terms, ...content } = row.item
  const { kind, opens } = item
  return { family, kind, handle, requested_at, ...content, opens, item, item_s256: itemDigest(item) }
}
