/**
 * How a member's view is answered. Contract: "The organization's authority" (preview, join, envelope).
 */
import { memberView } from '../../rules/organization/member-view.ts'
import type { CharterRow } from '../../storage/organization/charters.ts'
import type { MemberRow } from '../../storage/organization/members.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { MemberView } from '../../wire/documents/member-view.ts'
import type { OrganizationIdentity } from '../context.ts'

/** The view of an owner who joins now. */
export function viewOfJoiner(organization: OrganizationIdentity, row: CharterRow, owner: Owner): MemberView {
  return viewUnder(organization, row, { owner, role: row.charter.default_role, view: 1 })
}

/** A member's view under the version that changed it last. */
export function viewUnder(
  { issuer, id, name }: OrganizationIdentity,
  { charter, version, published_at }: CharterRow,
  { owner, role, view }: Pick<MemberRow, 'owner' | 'role' | 'view'>,
): MemberView {
  const organization = { id, name }
  return memberView({
    organization,
    issuer,
    charter,
    charter_version: version,
    published_at,
    owner,
    role,
    view,
  })
}
