/** Owns the organization above an owner, as a route holds it. Contract: "Authorized call", order 2. */
import type { SidecarOrganization } from '../../config/sidecar/sidecar-organization.ts'
import type { Outbound } from '../../http/outbound/outbound.ts'
import { isNamed } from '../../rules/organization/grant-ceiling.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { aliasIn, ENFORCEMENT_ALIAS } from '../../wire/names.ts'
import type { Marks } from '../approval/use-marks.ts'
import type { AuthorityKeys } from '../authorities/presented-rpt.ts'
import type { RouteOrganization } from './ceiling.ts'
import { createMembershipView } from './membership-view.ts'
import { createOrganizationClient } from './organization-client.ts'

/** What it shares with others. */
export interface OrganizationContext {
  aliases: readonly string[]
  /** Signs what is asked, where no secret was given. */
  key: PrivateKey
  used: Marks
  outbound: Outbound
  keys: AuthorityKeys
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** Asks nobody until a call needs it. */
export function openOrganization(
  { issuer, resources, credential }: SidecarOrganization,
  owner: Owner,
  { aliases, key, used, outbound, keys, clock }: OrganizationContext,
): RouteOrganization {
  const proof = credential.kind === 'secret' ? credential : { kind: 'signature' as const, key }
  const client = createOrganizationClient({ issuer, owner, proof, outbound, clock })
  return {
    issuer,
    client,
    keys,
    used,
    acceptedTypAlias: aliasIn(aliases, ENFORCEMENT_ALIAS.breakGlassAcceptedTyp),
    view: createMembershipView({
      read: deadline => client.membership(deadline),
      clock: () => performance.now(),
    }),
    asksAbout: resource_id => isNamed(resources, resource_id),
  }
}
