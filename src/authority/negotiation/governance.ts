/**
 * The state of a requested resource, read again at every presentation, because a sealed ticket carries only
 * names. Contract: "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import type { Db } from '../../storage/authority/database.ts'
import {
  readGovernedResource,
  type GovernedReading,
} from '../../storage/authority/negotiations/governance.ts'
import type { Vouching } from '../../rules/identity-assertion.ts'
import { intersectClearances } from '../../rules/organization/tier-ceiling.ts'
import type { ClearanceRequirement } from '../../rules/organization/clearance.ts'
import { SUSPENDED_OWNER } from '../../rules/grant.ts'
import { jointAccountOf } from '../../rules/joint/joint.ts'
import { governedFault, VIEW_AGE_SECONDS_MAX, vouchingOf } from '../../rules/organization/membership.ts'
import { readMembership, type Membership } from '../../storage/authority/membership/membership.ts'
import type { Governing } from '../../surface/token/negotiation.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { unavailable, type Refusal } from '../../wire/refusal.ts'

/**
 * What is behind a governed resource. `organization`: the membership, if the organization governs it too;
 * `vouching`: who must vouch for whom before terms are offered; `attesting`: the membership, if a clearance
 * is asked for.
 */
export type Governed = Required<Omit<GovernedReading, 'suspended'>> & {
  organization?: Membership
  vouching?: Vouching
  attesting?: Membership
}

/**
 * Whether the same terms are in force: any edit makes a new version, and a tier that was deleted and made
 * again has another epoch.
 */
export function isSameTier({ tier: a }: Governed, { tier: b }: Governed): boolean {
  return a.tier_id === b.tier_id && a.version === b.version && a.epoch === b.epoch
}

/**
 * The membership that governs a resource, as the organization says it now; undefined if she has left it.
 * Refuses 503 if the organization has not answered for too long, because nobody knows what it took away
 * since.
 */
export async function freshMembership(db: Db, owner: Owner): Promise<Membership | undefined> {
  const membership = await readMembership(db, owner)
  if (membership !== undefined && membership.read_ago > VIEW_AGE_SECONDS_MAX) throw unaskable()
  return membership
}

function unaskable(): Refusal {
  return unavailable('Try again later: the organization that governs this resource cannot be asked.', 30)
}

/** What a request is about: the resource of one of an owner's servers, and its scopes. */
export interface RequestedResource {
  owner: Owner
  client_id: ClientId
  resource_id: string
  resource_scopes: readonly string[]
}

/**
 * The resource server, the resource and the tier that governs it, or why the request is denied. Throws
 * `temporarily_unavailable` if an organization governs it that nobody has been able to ask for too long.
 */
export async function readGoverned(db: Db, of: RequestedResource): Promise<Governing<Governed>> {
  const read = await readGovernedOnce(db, of)
  if (read !== 'moved') return read
  const again = await readGovernedOnce(db, of)
  if (again === 'moved') throw unaskable()
  return again
}

/** `moved`: the resource was governed a moment ago, and now she is a member of no organization. */
async function readGovernedOnce(db: Db, of: RequestedResource): Promise<Governing<Governed> | 'moved'> {
  const { server = jointServerReading(of), resource, tier, suspended } = await readGovernedResource(db, of)
  if (suspended === true) return SUSPENDED
  if (server?.status !== 'active')
    return { code: 'server_withdrawn', fault: 'The owner has withdrawn the resource server that asked.' }
  if (resource === undefined || resource.client_id !== of.client_id)
    return { code: 'unregistered', fault: 'The resource is no longer registered with the owner.' }
  if (of.resource_scopes.some(scope => !resource.resource_scopes.includes(scope)))
    return { code: 'scope_withdrawn', fault: 'The resource no longer has the scopes that the call needs.' }
  const organization = resource.org === null ? undefined : await freshMembership(db, of.owner)
  if (resource.org !== null && organization === undefined) return 'moved'
  const fault = organization && governedFault(resource.org!, organization)
  if (fault !== undefined) return { ...fault, reason: fault.code }
  if (tier === undefined)
    return { code: 'ungoverned', fault: 'The owner has set no terms for this resource, so nobody is let in.' }
  const asksClearance = !isNothing(requirementOf({ organization, tier }))
  const attesting = asksClearance ? (organization ?? (await readMembership(db, of.owner))) : undefined
  if (asksClearance && attesting === undefined) return CLEARANCE_UNMET
  if (tier.terms.scope.length === 0)
    return {
      code: 'no_scope',
      fault: 'The organization allows none of the scopes that the call needs.',
      ...(organization && { reason: SCOPE_ABOVE_CEILING }),
    }
  const vouching = organization && vouchingOf(organization)
  if (vouching !== undefined && 'fault' in vouching) return vouching
  return {
    server,
    resource,
    tier,
    terms: tier.terms,
    ...(organization && { organization }),
    ...(vouching && { vouching }),
    ...(attesting && { attesting }),
  }
}

/** Stands for a resource server, for resources that a joint account registers. */
export function jointServerReading({ client_id }: { client_id: ClientId }): GovernedReading['server'] {
  const account = jointAccountOf(client_id)
  return account && { client_id, resource_uri: account, status: 'active', generation: 0 }
}

/** The refusal if the operator of this authority has suspended access to everything of an owner. */
const SUSPENDED = {
  code: 'suspended',
  fault: SUSPENDED_OWNER,
}

/** The charter's own word for what a ceiling leaves out, as `/decision` says it. */
export const SCOPE_ABOVE_CEILING = 'scope_above_ceiling'

/** The refusal if a clearance is asked for and is not met, or if nobody can attest one. */
export const CLEARANCE_UNMET = {
  code: 'clearance_unmet',
  fault: 'The owner asks for a clearance that no authority known to her attests.',
  reason: 'clearance_unmet',
}

/** The requirements of the tier together with the ceiling of an organization that governs the resource. */
export function requirementOf({
  organization,
  tier,
}: {
  organization?: Membership | undefined
  tier: Pick<Governed['tier'], 'clearance'>
}): ClearanceRequirement {
  return organization === undefined
    ? tier.clearance
    : intersectClearances(tier.clearance, organization.view.require_clearance)
}

/** Whether nothing is asked for. */
export function isNothing(required: ClearanceRequirement): boolean {
  return Object.keys(required).length === 0
}
