/**
 * What stands behind a requested resource now: read afresh at every presentation, since a sealed ticket
 * carries only names. Contract: "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import { isDeepStrictEqual } from 'node:util'
import type { DeclaredConsequences } from '../../rules/permission.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readGovernedResource, type GovernedReading } from '../../storage/authority/governance.ts'
import { governedFault, STALE_SECONDS } from '../../rules/membership.ts'
import { readMembership, type Membership } from '../../storage/authority/membership.ts'
import type { Governing } from '../../surface/token/negotiation.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'
import { refuse } from '../../wire/refusal.ts'

/**
 * What stands behind a resource that is governed; `organization`: the membership, where that governs it too.
 */
export type Governed = Required<GovernedReading> & { organization?: Membership }

/**
 * Whether the same terms are in force: any edit makes a new version, and a tier that was deleted and made
 * again another epoch.
 */
export function isSameTier({ tier: a }: Governed, { tier: b }: Governed): boolean {
  return a.tier_id === b.tier_id && a.version === b.version && a.epoch === b.epoch
}

/**
 * Whether all that a grant rests on is the same; that the scopes are still there was seen when each was read.
 */
export function isSameGoverned(a: Governed, b: Governed): boolean {
  return (
    isSameTier(a, b) &&
    a.server.generation === b.server.generation &&
    a.server.resource_uri === b.server.resource_uri &&
    isDeclaredAlike(a.resource, b.resource) &&
    a.resource.org === b.resource.org &&
    a.organization?.org_epoch === b.organization?.org_epoch
  )
}

/**
 * Whether the same classes are declared; without `tools` (what was held before they were recorded) only those
 * of the resources.
 */
export function isDeclaredAlike(
  a: DeclaredConsequences,
  b: { consequence: string | null; tools?: DeclaredConsequences['tools'] },
): boolean {
  if (a.consequence !== b.consequence) return false
  return b.tools === undefined || isDeepStrictEqual(a.tools, b.tools)
}

/**
 * The membership that governs a resource, as the organization says it now. Refuses 503 where it has not said
 * so for too long: what it may have taken away since is not known.
 */
export async function freshMembership(db: Db, owner: Owner): Promise<Membership> {
  const membership = await readMembership(db, owner)
  if (membership === undefined || membership.read_ago > STALE_SECONDS)
    refuse(
      'temporarily_unavailable',
      'Try again later: the organization that governs this resource cannot be asked.',
      { headers: { 'retry-after': '30' } },
    )
  return membership
}

/** The resource server, the resource and the tier that governs it, or why the request is denied. */
export async function readGoverned(
  db: Db,
  of: { owner: Owner; client_id: ClientId; resource_id: string; resource_scopes: readonly string[] },
): Promise<Governing<Governed>> {
  const { server, resource, tier } = await readGovernedResource(db, of)
  if (server?.status !== 'active')
    return { code: 'server_withdrawn', fault: 'The owner has withdrawn the resource server that asked.' }
  if (resource === undefined || resource.client_id !== of.client_id)
    return { code: 'unregistered', fault: 'The resource is no longer registered with the owner.' }
  if (of.resource_scopes.some(scope => !resource.resource_scopes.includes(scope)))
    return { code: 'scope_withdrawn', fault: 'The resource no longer has the scopes that the call needs.' }
  if (tier === undefined)
    return { code: 'ungoverned', fault: 'The owner has set no terms for this resource, so nobody is let in.' }
  if (Object.keys(tier.clearance).length > 0)
    return {
      code: 'clearance_unmet',
      fault: 'The owner asks for a clearance that no authority known to her attests.',
    }
  if (tier.terms.scope.length === 0)
    return { code: 'no_scope', fault: 'Of what the call needs, the organization allows nothing.' }
  if (resource.org === null) return { server, resource, tier, terms: tier.terms }
  const organization = await freshMembership(db, of.owner)
  const fault = governedFault(resource.org, organization)
  return fault ?? { server, resource, tier, terms: tier.terms, organization }
}
