/**
 * Refuses a call at the enforcement point if its grant exceeds the ceiling of the organization above the
 * owner: it reads the membership and words the refusal, and src/rules/organization/grant-ceiling.ts is the
 * rule. It cuts nothing. Contract: "Authorized call", order 2 (`organization_envelope_exceeded`).
 */
import {
  breakGlassCeilingFault,
  grantCeilingFault,
  type CeilingFault,
} from '../../rules/organization/grant-ceiling.ts'
import type { Permission } from '../../rules/permission.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Marks } from '../approval/use-marks.ts'
import type { AuthorityKeys } from '../authorities/presented-rpt.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'
import type { LiveGrant } from '../introspection.ts'
import type { MembershipView } from './membership-view.ts'
import type { OrganizationEnforcementClient } from './organization-client.ts'

/** The organization above the owner of a route. */
export interface RouteOrganization {
  readonly issuer: string
  readonly client: OrganizationEnforcementClient
  readonly view: MembershipView
  /** What the organization and the owner's authority publish. */
  readonly keys: AuthorityKeys
  /** Which emergencies were used here. */
  readonly used: Marks
  /** Another `typ` of the acceptance of an emergency, if any. */
  readonly acceptedTypAlias?: string | undefined
  /**
   * Whether the organization is asked about a resource at all. The configuration of this enforcement point
   * decides that, whatever a charter claims.
   */
  asksAbout(resource_id: string): boolean
}

/** A grant, the permission that covers the call, and by when the call must be judged. */
export interface CeilingQuestion {
  grant: LiveGrant
  permission: Permission
  /** Issuer of the owner's authorization server. */
  authority: string
  deadline: Deadline
}

const SENTENCES: Record<CeilingFault, string> = {
  not_a_member:
    'Do not call again with this grant: an organization governs this resource, and its owner is no member of it.',
  not_shared:
    'Do not call again with this grant: the organization does not share this resource with its owner.',
  not_delegated: 'Do not call again with this grant: the organization lets no agent act for the owner here.',
  scope: 'Negotiate again for fewer scopes: the organization does not allow all that this grant gives.',
  lifetime: 'Negotiate again: the organization allows shorter grants than this one.',
  operation: 'Negotiate again for this one operation: the organization allows no standing grant here.',
  no_break_glass:
    "Negotiate at the owner's authorization server: the organization's emergency clause does not reach this call.",
}

/** Refuses 403 `organization_envelope_exceeded`, saying what is exceeded. */
export function exceeded(fault: CeilingFault, cause?: unknown): Refusal {
  return new Refusal('organization_envelope_exceeded', SENTENCES[fault], { cause })
}

/**
 * Refuses 403 `organization_envelope_exceeded` if the grant exceeds the ceiling; 503 if that cannot be found
 * out.
 */
export async function checkCeiling(organization: RouteOrganization, facts: CeilingQuestion): Promise<void> {
  const { grant, permission, authority, deadline } = facts
  const { resource_id } = permission
  const isGoverned = organization.asksAbout(resource_id)
  if (grant.breakGlass !== undefined && !isGoverned) throw exceeded('no_break_glass')
  if (!isGoverned) return
  const membership = await organization.view.current(deadline)
  if (membership.member && membership.as_uri !== authority)
    throw outage('The organization knows this owner at another authorization server.')
  if (grant.issuedAt === undefined) throw outage('The authority does not say when a grant was issued.')
  const onResource = grant.permissions.filter(one => one.resource_id === resource_id)
  const grantTerms = {
    resource_id,
    scopes: onResource.flatMap(({ resource_scopes }) => resource_scopes),
    lifetimeSeconds: permission.exp - grant.issuedAt,
    single_use: grant.single_use,
  }
  const judge = grant.breakGlass !== undefined ? breakGlassCeilingFault : grantCeilingFault
  const fault = judge(membership, grantTerms)
  if (fault !== undefined) throw exceeded(fault)
}
