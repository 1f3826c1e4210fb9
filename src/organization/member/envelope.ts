/**
 * What a member's authorization server polls: the ceiling, and what her group shares. Contract: "The organization's authority"
 * (`/member/envelope`).
 */
import { z } from 'zod'
import { endpoint, type Credential, type Endpoint } from '../../http/endpoint.ts'
import { readCharterVersion } from '../../storage/organization/charters.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { verifyMembership } from '../../wire/membership.ts'
import { ORGANIZATION_PATH } from '../../wire/names.ts'
import { refuse, refusingAs } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { provenAuthority } from './authority.ts'
import { VIEW, viewUnder } from './view.ts'

/** The membership token as Bearer, and a signature of her authority that covers it: a copied token alone is nothing. */
export const MEMBER: Credential<Organization, MemberRow> = {
  names: ['membership', 'signature'],
  async admit(organization, request, run) {
    const token = /^bearer +([A-Za-z0-9._-]+)$/i.exec(request.headers.authorization ?? '')?.[1]
    if (token === undefined) refuse('invalid_token', 'Send the membership token after `Bearer`.')
    const { issuer, keys } = organization
    const claims = refusingAs('invalid_token', () =>
      verifyMembership(token, keys, { issuer, now: organization.now() }),
    )
    const { covered } = await provenAuthority(organization, request, claims.as_uri)
    if (!covered.includes('authorization')) refuse('invalid_token', 'Cover "authorization" in the signature.')
    const member = await readMember(organization.database.db, claims.sub)
    if (member === undefined || member.join_id !== claims.jti || member.as_uri !== claims.as_uri)
      refuse('invalid_token', 'This membership has ended.')
    return run(member)
  },
}

export const ENVELOPE: readonly Endpoint<Organization>[] = [
  endpoint({
    method: 'get',
    path: ORGANIZATION_PATH.envelope,
    rows: ['org-member-envelope'],
    summary: 'Her view as it is now',
    credential: MEMBER,
    reads: { 'if-none-match': 'The ETag of the view that is known.' },
    answers: {
      200: { says: 'Her view; ETag is its number.', schema: VIEW },
      304: { says: 'It is the one that is known.', schema: z.null() },
    },
    handle: async (organization: Organization, { caller, request, answer }) => {
      const etag = `"${caller.view}"`
      if (request.headers['if-none-match'] === etag) return answer(304, null, { etag })
      const row = await readCharterVersion(organization.database.db, caller.view_version)
      return answer(200, viewUnder(organization, row!, caller), { etag, 'cache-control': 'no-store' })
    },
  }),
]
