/**
 * The steps that must follow a restore to an earlier time; without them a grant that was spent, or a
 * connection that was revoked, after that time would become valid again. Contract: "Grant (RPT) liveness",
 * "Single-use grant".
 */
import { inTransaction } from '../../storage/core/database.ts'
import type { Db } from '../../storage/authority/database.ts'
import { revokeAllLetIn } from '../../storage/authority/credentials/device-keys.ts'
import { listJointAccounts } from '../../storage/authority/joint/joint-accounts.ts'
import { takeAllBack } from '../../storage/authority/joint/joint-withdrawals.ts'
import { replaceOrigin, type ReplacedHead } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import { appendLedger } from '../../storage/authority/ledger/ledger.ts'
import { endEveryConnection } from '../../storage/authority/connections/connections.ts'
import { keepShares } from '../../storage/authority/policies/allowance-returns.ts'
import { listOwnerLives } from '../../storage/authority/owners/owner-lives.ts'
import { raiseEnds } from '../../storage/authority/owners/ends.ts'
import { lockQueue } from '../../storage/authority/owners/owners.ts'
import { skipEventPositions } from '../../storage/authority/ledger/positions.ts'
import { voidCodes } from '../../storage/authority/credentials/recoveries.ts'
import { encodeBase64url } from '../../wire/encoding.ts'
import { asOwner, type Owner } from '../../wire/identifiers.ts'

const OWNERS_PER_PAGE = 500

const BY_COMMAND = { kind: 'authority' } as const

/** How many owners, and how many of their connections ended. */
export interface AfterRestore {
  owners: number
  connections: number
}

/**
 * Ends every connection of every owner: nobody remembers which of them she revoked after the backup, so each
 * agent is a first contact again, and tallies are told that she takes back whatever she allowed them. What
 * grants held of her allowances counts as used, because they may have been spent since. Codes for a
 * credential and keys that a passkey let in end for the same reason. Her ledger says from when the data is,
 * and readers of her events begin anew. What is signed of her ledger from now on has another origin, and the
 * first checkpoint there covers the entry, which names the newest known head of the old origin. One
 * transaction for each owner; a run that was cut off is run again.
 */
export async function endAfterRestore(db: Db, restoredTo: Date): Promise<AfterRestore> {
  const done: AfterRestore = { owners: 0, connections: 0 }
  let after: string | undefined
  for (;;) {
    const page = await listOwnerLives(db, { after, limit: OWNERS_PER_PAGE })
    for (const { owner, state } of page) {
      if (state !== 'active' && state !== 'suspended') continue
      done.connections += await endOf(db, asOwner(owner), restoredTo)
      done.owners += 1
    }
    after = page.at(-1)?.owner
    if (page.length < OWNERS_PER_PAGE) return done
  }
}

function endOf(db: Db, owner: Owner, restoredTo: Date): Promise<number> {
  return inTransaction(db, async tx => {
    await lockQueue(tx, owner)
    // Grants of tallies rest on what she allowed after the backup, too, and nobody here knows of that.
    for (const { tally, account } of await listJointAccounts(tx, owner))
      await takeAllBack(tx, owner, { tally, account })
    await voidCodes(tx, owner)
    await revokeAllLetIn(tx, owner)
    await skipEventPositions(tx, owner)
    const replaced = await replaceOrigin(tx, owner)
    // What was counted after the backup is lost: nobody may meet a lower count than one that was sent.
    await raiseEnds(tx, owner, { toPresent: true })
    const handles = await endEveryConnection(tx, owner)
    await keepShares(tx, owner)
    const data = {
      by: 'authority',
      actor: BY_COMMAND,
      at: restoredTo.toISOString(),
      connections: handles.length,
      ...(replaced === undefined ? {} : headOf(replaced)),
    }
    await appendLedger(tx, owner, { kind: 'restored', data })
    return handles.length
  })
}

/** The head as a receipt has it, without its signature. */
function headOf({ origin, size, root }: ReplacedHead): { origin: string; size: number; root: string } {
  return { origin, size, root: encodeBase64url(root) }
}
