/**
 * What stands behind a requested resource now: read afresh at every presentation, since a sealed ticket
 * carries only names. Contract: "Policy vocabulary and tiers" (an ungoverned resource is denied).
 */
import { isDeepStrictEqual } from 'node:util'
import type { DeclaredConsequences } from '../../rules/permission.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readGovernedResource, type GovernedReading } from '../../storage/authority/governance.ts'
import type { Governing } from '../../surface/token/negotiation.ts'
import type { ClientId, Owner } from '../../wire/identifiers.ts'

/** What stands behind a resource that is governed. */
export type Governed = Required<GovernedReading>

/** Whether the same terms are in force: any edit makes a new version, and a tier that was deleted and made again another epoch. */
export function isSameTier({ tier: a }: Governed, { tier: b }: Governed): boolean {
  return a.tier_id === b.tier_id && a.version === b.version && a.epoch === b.epoch
}

/** Whether all that a grant rests on is the same; that the scopes are still there was seen when each was read. */
export function isSameGoverned(a: Governed, b: Governed): boolean {
  return (
    isSameTier(a, b) &&
    a.server.generation === b.server.generation &&
    a.server.resource_uri === b.server.resource_uri &&
    isDeclaredAlike(a.resource, b.resource)
  )
}

/** Whether the same classes are declared; without `tools` (what was held before they were recorded) only those of the resources. */
export function isDeclaredAlike(
  a: DeclaredConsequences,
  b: { consequence: string | null; tools?: DeclaredConsequences['tools'] },
): boolean {
  if (a.consequence !== b.consequence) return false
  return b.tools === undefined || isDeepStrictEqual(a.tools, b.tools)
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
  return { server, resource, tier, terms: tier.terms }
}
