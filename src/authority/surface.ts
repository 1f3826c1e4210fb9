/**
 * What an authority gives to the surface that it serves: its keys and clock, its owners' terms, its rows.
 * Contract: "Parties" (owner's authorization server).
 */
import { createPatGuard } from '../surface/pat-guard.ts'
import type { Surface } from '../surface/surface.ts'
import type { TermsSource } from '../surface/terms.ts'
import { issuePat } from '../surface/token/client-credentials.ts'
import type { PollPlaces } from '../surface/token/poll-places.ts'
import { negotiate } from '../surface/token/ticket-grant.ts'
import { authorizationServerMetadata } from '../wire/resources/authorization-server-metadata.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import type { Authority } from './context.ts'
import { identitiesOf } from './negotiation/identity.ts'
import { decisionsOf, negotiationsOf } from './negotiation/negotiations.ts'
import { accessesOf, grantsOf, resourcesOf, resourceServersOf } from './protection/grants.ts'
import { signatureProofs } from './protection/signature-proofs.ts'
import { termsSource } from './terms-source.ts'

/**
 * The surface of an authority; `ownerUrl` is where its owners reach theirs, `owners` lists those of all
 * cells if there are several, `leases` says whether it gives any, `pollPlaces` are those of all cells.
 */
export function surfaceOf(
  authority: Authority,
  {
    ownerUrl,
    owners,
    leases = false,
    pollPlaces,
  }: {
    ownerUrl: string
    owners?: TermsSource['owners'] | undefined
    leases?: boolean
    pollPlaces: PollPlaces
  },
): Surface {
  const { issuer, specNs, aliases, database, limits, clock } = authority
  const { pollSeconds, reasonBytesMax, patSeconds, ticketSeconds } = limits
  const servers = resourceServersOf(database)
  const tickets = {
    issuer: authority,
    agentIssuers: authority.issuers,
    negotiations: negotiationsOf(authority, limits),
    decisions: decisionsOf(authority),
    identities: identitiesOf(authority),
    pollSeconds,
    pollPlaces,
    reasonBytesMax,
  }
  const pats = { signer: authority, servers, proofs: signatureProofs(authority), patSeconds }
  const owner_endpoint = ownerUrl + AUTHORITY_PATH.owner
  const listed = authority.organizations.issuers.length > 0
  return {
    issuer: authority,
    checkpoints: authority.checkpoints,
    clock,
    metadata: authorizationServerMetadata({
      issuer,
      specNs,
      aliases,
      owner_endpoint,
      registration: true,
      notices: listed,
      leases,
      joint: authority.tallies.issuers.length > 0,
      ledger: authority.logKeys.length > 0,
      org_admin_endpoint: listed ? ownerUrl + AUTHORITY_PATH.organizationAdmin : undefined,
    }),
    terms: { ...termsSource(database), ...(owners && { owners }) },
    negotiate: request => negotiate(tickets, request),
    issuePat: (form, caller) => issuePat(pats, form, caller),
    guard: createPatGuard(authority),
    resources: resourcesOf(database, authority.registry),
    ticketSeconds,
    grants: grantsOf(database, { leases }),
    servers,
    accesses: accessesOf(database, () => authority.now()),
  }
}
