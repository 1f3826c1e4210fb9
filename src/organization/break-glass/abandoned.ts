/**
 * Ends what a replica held that has ended meanwhile, so that her authority is told of a grant that never came
 * to be. Contract: "The organization's authority" (`/break-glass`).
 */
import { inTransaction } from '../../storage/core/database.ts'
import { abandonedGrants } from '../../storage/organization/break-glass.ts'
import { lockHead } from '../../storage/organization/charters.ts'
import { readMember } from '../../storage/organization/members.ts'
import type { Organization } from '../context.ts'
import { makeVoid } from './redemption.ts'

/** Longer than any redemption takes. */
const HELD_SECONDS = 30

/** One bounded look. @returns how many grants were made void. */
export async function voidAbandoned(
  { database: { db } }: Pick<Organization, 'database'>,
  limit: number,
): Promise<number> {
  const abandoned = await abandonedGrants(db, { seconds: HELD_SECONDS, limit })
  for (const { jti, owner, membership } of abandoned)
    await inTransaction(db, async tx => {
      await lockHead(tx)
      const member = await readMember(tx, owner)
      const stands = member?.join_id === membership
      // A membership that has ended took with it what her authority accepted under it.
      const to = stands ? member : { owner, join_id: membership, as_uri: '' }
      await makeVoid(tx, { jti, to, isTold: stands })
    })
  return abandoned.length
}
