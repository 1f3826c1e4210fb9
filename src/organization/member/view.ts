/**
 * How a member's view is answered. Contract: "The organization's authority" (preview, join, envelope).
 */
import { z } from 'zod'
import { memberView, type MemberView } from '../../rules/member-view.ts'
import type { CharterRow } from '../../storage/organization/charters.ts'
import type { MemberRow } from '../../storage/organization/members.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { DELEGATIONS } from '../../wire/charter.ts'
import type { Organization } from '../context.ts'

const texts = z.array(z.string())
const powers = z.array(z.strictObject({ what: z.string(), detail: z.string() }))

export const VIEW = z
  .strictObject({
    org: z.string(),
    name: z.string(),
    issuer: z.string(),
    view: z.int(),
    charter_version: z.int(),
    published_at: z.string(),
    charter_name: z.string(),
    claims: texts,
    identity_provider: z.strictObject({ issuer: z.string(), subject: z.string().nullable() }).nullable(),
    max_expires_in: z.int(),
    allowed_scopes: texts.nullable(),
    require_prohibited: texts,
    always_ask: texts,
    require_clearance: z.record(z.string(), texts),
    break_glass: z.strictObject({
      enabled: z.boolean(),
      resources: texts,
      max_expires_in: z.int(),
      require_reason: z.boolean(),
      invokers: texts,
    }),
    summary: texts,
    powers: z.strictObject({ gets: powers, can: powers, cannot: powers }),
    role: z.string().nullable(),
    role_name: z.string().nullable(),
    grants: texts,
    delegation: z.enum(DELEGATIONS),
    binds_s256: z.string(),
  })
  .meta({ id: 'MemberView' }) satisfies z.ZodType<MemberView>

/** The part of the charter that a member sees. */
type Named = Pick<Organization, 'issuer' | 'id' | 'name'>

/** The view of an owner who joins now. */
export function viewOfJoiner(organization: Named, row: CharterRow, owner: Owner): MemberView {
  return viewUnder(organization, row, { owner, role: row.charter.default_role, view: 1 })
}

/** A member's view under the version that changed it last. */
export function viewUnder(
  { issuer, id, name }: Named,
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
