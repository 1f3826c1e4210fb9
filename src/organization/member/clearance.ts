/**
 * The attestation of a member, only for her authorization server. Contract: "Policy vocabulary and tiers"
 * (clearance: fetched from authority to authority), "The organization's authority" (`/member/clearance`),
 * "Errors" (404 if there is nothing to attest).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { plainText } from '../../http/servers/pages.ts'
import type { MemberRow } from '../../storage/organization/members.ts'
import { refuseWhileOff } from '../../surface/clock.ts'
import { CLEARANCE_SECONDS, signClearance } from '../../wire/organization/clearance.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse } from '../../wire/refusal.ts'
import { newJti } from '../../wire/negotiation/ticket.ts'
import type { Organization, OrganizationSigner } from '../context.ts'
import { MEMBER } from './credential.ts'

const ATTESTED = z.strictObject({ clearance: z.string(), expires_in: z.int() })

export const CLEARANCE: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'get',
    path: ORGANIZATION_PATH.clearance,
    rows: ['org-member-clearance'],
    summary: 'What is attested of her, signed for her own authorization server; 404: nothing',
    credential: MEMBER,
    query: z.strictObject({ audience: plainText(2_048) }),
    answers: {
      200: { says: 'The attestation.', schema: ATTESTED, headers: { 'cache-control': 'no-store' } },
    },
    refuses: { 403: ['request_denied'], 404: ['not_found'] },
    handle: async (organization: Organization, { caller, query: { audience }, answer }) => {
      if (audience !== caller.as_uri)
        refuse('request_denied', 'Name your own authorization server: a clearance is for no other.')
      const clearance = clearanceOf(organization, caller)
      if (clearance === undefined) refuse('not_found', 'Nothing is attested of this member.')
      return answer(200, { clearance, expires_in: CLEARANCE_SECONDS })
    },
  }),
]

/**
 * A fresh attestation of a member; undefined if nothing is attested about her. Refuses 503 while the clock is
 * off.
 */
export function clearanceOf(
  organization: OrganizationSigner,
  { owner, as_uri, clearance }: MemberRow,
): string | undefined {
  if (Object.keys(clearance).length === 0) return undefined
  const { issuer, id, keys, clock } = organization
  refuseWhileOff(clock)
  const iat = organization.now()
  const times = { iat, exp: iat + CLEARANCE_SECONDS, jti: newJti('clr_') }
  return signClearance({ iss: issuer, sub: owner, aud: as_uri, org: id, ...times, clearance }, keys[0])
}
