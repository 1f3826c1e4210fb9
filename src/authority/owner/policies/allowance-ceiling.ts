/**
 * What an owner's organization leaves of the windows of her allowances, as she reads it. Contract: "Owner
 * API", "Organization membership, on the member's authorization server"; an addition
 * (docs/details/owner-api.md).
 */
import { underAllowanceCeiling } from '../../../rules/organization/allowance-ceiling.ts'
import type { Db } from '../../../storage/authority/database.ts'
import { readMembership } from '../../../storage/authority/membership/membership.ts'
import type { OwnerAllowance, ShownAllowance } from '../../../wire/documents/allowance.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { readAllowanceCeilings } from '../../organization/view-document.ts'

/** With `ceiling` in each window of which her organization lets less through than she does. */
export async function withCeilings<Stored extends OwnerAllowance>(
  db: Db,
  owner: Owner,
  allowances: readonly Stored[],
): Promise<(Stored & Pick<ShownAllowance, 'windows'>)[]> {
  const membership = await readMembership(db, owner)
  const ceilings = membership && readAllowanceCeilings([membership.agreed, membership.view])
  // Nothing passes under a ceiling that nobody can read, and no number says so.
  if (ceilings === undefined || ceilings === 'unreadable') return [...allowances]
  return allowances.map(allowance => {
    const lowered = underAllowanceCeiling(allowance, ceilings).windows
    const windows = allowance.windows.map((window, at) => {
      const ceiling = lowered[at]!.max
      return ceiling === window.max ? window : { ...window, ceiling }
    })
    return { ...allowance, windows }
  })
}
