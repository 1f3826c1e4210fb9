/**
 * Ends grants held by a replica that has ended meanwhile, so that her authority learns about a grant that
 * never became live. Contract: "The organization's authority" (`/break-glass`).
 */
import { inTransaction } from '../../storage/core/database.ts'
import { abandonedGrants } from '../../storage/organization/break-glass.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import type { Db } from '../../storage/organization/database.ts'
import { readMember } from '../../storage/organization/members.ts'
import { makeVoid } from './redemption.ts'

/** No redemption takes so long. */
const REDEMPTION_SECONDS_MAX = 30

/** One bounded pass. @returns how many grants were made void. */
export async function voidAbandoned(db: Db, limit: number): Promise<number> {
  const abandoned = await abandonedGrants(db, { seconds: REDEMPTION_SECONDS_MAX, limit })
  for (const { jti, owner, membership } of abandoned)
    await inTransaction(db, async tx => {
      await lockHead(tx)
      const member = await readMember(tx, owner)
      const stands = member?.join_id === membership
      // If the membership has ended, everything that her authority accepted under it has ended, too.
      const to = stands ? member : { owner, join_id: membership, as_uri: '' }
      await makeVoid(tx, { jti, to, needsNotice: stands })
    })
  return abandoned.length
}
