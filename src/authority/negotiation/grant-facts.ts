/**
 * Reads again what a grant rests on, for `standsOn`. Contract: "Permission ticket" (awaiting-owner), "Grant
 * (RPT) liveness".
 */
import { wasGoverned, type GrantBasis, type GrantFacts } from '../../rules/grant.ts'
import { isVouchedFor, type AcceptedIdentity } from '../../rules/identity-assertion.ts'
import { vouchingOf } from '../../rules/organization/membership.ts'
import type { Db } from '../../storage/authority/database.ts'
import {
  readGovernedResource,
  type GovernedReading,
} from '../../storage/authority/negotiations/governance.ts'
import {
  readMembership,
  readOrganizationEpochs,
  type Membership,
} from '../../storage/authority/membership/membership.ts'
import { freshMembership, isNothing, jointServerReading, requirementOf } from './governance.ts'

/** The facts that do not depend on the agent's connection, and what they were read from. */
export interface GroundsRead extends Pick<GrantFacts, 'suspended' | 'server' | 'organization'> {
  resource: GovernedReading['resource']
  tier: GovernedReading['tier']
  /** If an organization governs the resource, and did when the agreement was weighed. */
  membership: Membership | undefined
  /** A clearance is asked for. */
  asksClearance: boolean
  /** Whose organization attests it. */
  attesting: Membership | undefined
}

/**
 * Reads what is behind a grant, for an agent of whom this identity was accepted. Refuses 503 if nobody can
 * know what the organization that governs the resource has taken away.
 */
export async function readGrounds(
  db: Db,
  basis: GrantBasis,
  identity: AcceptedIdentity | null,
): Promise<GroundsRead> {
  const { owner, handle, operator } = basis
  const {
    server = jointServerReading(basis),
    resource,
    tier,
    suspended = false,
  } = await readGovernedResource(db, basis)
  const governs = (resource?.org ?? null) !== null && wasGoverned(basis)
  const membership = governs ? await freshMembership(db, owner) : undefined
  const asksClearance = tier !== undefined && !isNothing(requirementOf({ organization: membership, tier }))
  return {
    suspended,
    server,
    resource,
    tier,
    membership,
    organization: membership && {
      epochs: {
        membership: membership.org_epoch,
        ...(await readOrganizationEpochs(db, owner, { handle, operator })),
      },
      vouched: isVouched(membership, identity),
    },
    asksClearance,
    attesting: asksClearance ? (membership ?? (await readMembership(db, owner))) : undefined,
  }
}

function isVouched(membership: Membership, identity: AcceptedIdentity | null): boolean {
  const vouching = vouchingOf(membership)
  return vouching === undefined || (!('fault' in vouching) && isVouchedFor(identity, vouching))
}
