/**
 * Checks who is vouched for before terms are offered. An organization that governs a resource may require its
 * identity provider to say for whom an agent acts, and with which key. Contract: "need_info answer (beat 2)"
 * (format id-jag), "Permission ticket" (identity before terms).
 */
import { proveAgentAssertion } from '../../credentials/identity-assertion.ts'
import { operationOf } from '../../rules/agreement.ts'
import { identityFault, isVouchedFor } from '../../rules/identity-assertion.ts'
import { UNPROVABLE } from '../../rules/organization/membership.ts'
import type { Db } from '../../storage/authority/database.ts'
import { acceptIdentity } from '../../storage/authority/negotiations/identities.ts'
import { endFamily, type FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import type { Identities, Refused } from '../../surface/token/negotiation.ts'
import { CLAIM_TOKEN_BYTES_MAX } from '../../wire/negotiation/agreement.ts'
import { decodeBase64url } from '../../wire/encoding.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Signer } from '../../surface/issuer.ts'
import type { Documents, Limits, Store } from '../context.ts'
import { readGoverned, type Governed } from './governance.ts'
import type { TicketPresentation } from './presentation.ts'

/** What asking for an identity needs. */
type Vouched = Signer & Store & Documents & Limits

/** The error code that an agent gets for every assertion that is not accepted. */
const REASON = 'invalid_assertion'
/**
 * It ends by the clock of this server, but is deleted by the clock of the database; this covers the
 * difference.
 */
const CLOCKS_SECONDS = 60

/** Codes of refusals that are about the caller. The ledger records them so. */
export const IDENTITY_CODES: ReadonlySet<string> = new Set([
  'provider_not_agreed',
  'provider_not_listed',
  'not_vouched_for',
])

/** Like `readGoverned`; also denied if an identity is required that nobody here could prove. */
export async function readVouched(
  { identityProviders }: Pick<Documents, 'identityProviders'>,
  db: Db,
  of: Parameters<typeof readGoverned>[1],
): ReturnType<typeof readGoverned> {
  const governed = await readGoverned(db, of)
  if (governed.fault !== undefined || governed.vouching === undefined) return governed
  if (identityProviders.lists(governed.vouching.issuer)) return governed
  return { code: 'provider_not_listed', fault: UNPROVABLE }
}

/** How identities are asked for and taken. */
export function identitiesOf(authority: Vouched): Identities<FamilyRow, Governed> {
  return {
    requirement: async (_of, { vouching, server, resource }, row) => {
      if (vouching === undefined || isVouchedFor(row?.identity ?? null, vouching)) return undefined
      const { issuer } = vouching
      const tokenEndpoint = await authority.identityProviders.tokenEndpoint(issuer)
      const tools = operationsOf(resource)
      const scope = tools.length === 0 ? undefined : tools.join(' ')
      return { issuer, tokenEndpoint, audience: authority.issuer, resource: server.resource_uri, scope }
    },
    take: presented => take(authority, presented),
  }
}

/** The operations that a resource distinguishes. */
const operationsOf = ({ tools }: Governed['resource']): string[] => Object.keys(tools ?? {}).sort()

async function take(
  authority: Vouched,
  presented: Parameters<Identities<FamilyRow, Governed>['take']>[0],
): ReturnType<Identities<FamilyRow, Governed>['take']> {
  const { family, governed, claimToken, offer } = presented
  const { owner } = family
  try {
    const { proven, identity } = await prove(authority, governed, claimToken)
    const outcome = await acceptIdentity(authority.database.of(owner), {
      owner,
      family: family.family,
      identity,
      digest: proven.digest,
      retentionSeconds: proven.expiresAt - authority.now() + CLOCKS_SECONDS,
      offer: { tier_id: offer.governed.tier.tier_id, template: offer.template },
      ticketHash: presented.nextHash,
      ticketSeconds: authority.limits.ticketSeconds,
    })
    if (outcome !== 'spent') return { kind: outcome }
    return await refuseAssertion(authority, family, 'Get a fresh assertion: this one was presented before.')
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === 'temporarily_unavailable') throw error
    return refuseAssertion(authority, family, error.detail ?? 'Send an identity assertion.')
  }
}

async function prove(
  { identityProviders, issuer: audience, now }: Vouched,
  { vouching, server, resource }: Governed,
  claimToken: string,
): ReturnType<typeof proveAgentAssertion> {
  if (Buffer.byteLength(claimToken) > CLAIM_TOKEN_BYTES_MAX)
    throw new Refusal('invalid_token', `Keep it within ${CLAIM_TOKEN_BYTES_MAX} bytes.`)
  const assertion = claimToken.includes('.') ? claimToken : decodeBase64url(claimToken).toString('utf8')
  const expected = {
    ...vouching!,
    audience,
    resource: server.resource_uri,
    operations: operationsOf(resource),
    now: now(),
  }
  return identityProviders.proving(vouching!.issuer, keys => proveAgentAssertion(assertion, keys, expected))
}

/** Ends the negotiation, and tells her that somebody asked who could not prove who they are. */
async function refuseAssertion(
  { database, refusals }: Store & Limits,
  { owner, family }: FamilyRow,
  sentence: string,
): Promise<{ kind: 'refused'; sentence: string; reason: string }> {
  await endFamily(database.of(owner), owner, family, 'denied')
  await refusals.count(owner, family, { kind: 'identity_refused', reason: REASON })
  return { kind: 'refused', sentence: `claim_token: ${sentence}`, reason: REASON }
}

/**
 * Why an agreement is refused because of its signer; undefined if nobody must be vouched for, or if the
 * vouched-for party signed.
 */
export function vouchedFault({
  family: { identity },
  governed: { vouching },
  agreement,
  agent,
}: Pick<TicketPresentation, 'family' | 'governed' | 'agreement' | 'agent'>): Refused | undefined {
  if (vouching === undefined) return undefined
  const operation = operationOf(agreement.claims)?.tool
  const fault =
    identity === null || !isVouchedFor(identity, vouching)
      ? 'Make the call again: the organization has since asked for another identity assertion.'
      : identityFault(identity, { jkt: agent.jkt, client_id: agent.client_id, operation })
  if (fault === undefined) return undefined
  return { code: 'not_vouched_for', sentence: fault, kind: 'identity_refused' }
}
