/**
 * The proof that a request is for a member: her membership token, and a signature of her authorization server
 * over it. Contract: "The organization's authority" (`/member/*`).
 */
import type { Credential } from '../../http/servers/endpoint.ts'
import { readMember, type MemberRow } from '../../storage/organization/members.ts'
import { verifyMembership } from '../../wire/organization/membership.ts'
import { aliasIn, ORGANIZATION_ALIAS } from '../../wire/names.ts'
import type { VerifiedSignature } from '../../wire/signatures/http-signature.ts'
import { refuse, refusingAs } from '../../wire/refusal.ts'
import type { Organization } from '../context.ts'
import { provenAuthority } from './authority.ts'

/** A member, and the signature that was made for her: what changes something marks it as presented. */
export interface ProvenMember extends MemberRow {
  readonly signature: VerifiedSignature
}

/**
 * The membership token as Bearer, and a signature of her authority that covers it: a copied token alone is
 * useless.
 */
export const MEMBER: Credential<Organization, ProvenMember> = {
  names: ['membership', 'signature'],
  refusal: 'invalid_token',
  async admit(organization, request, run) {
    const token = /^bearer +([A-Za-z0-9._-]+)$/i.exec(request.headers.authorization ?? '')?.[1]
    if (token === undefined) refuse('invalid_token', 'Send the membership token after `Bearer`.')
    const { issuer, keys, aliases } = organization
    const typAlias = aliasIn(aliases, ORGANIZATION_ALIAS.membershipTyp)
    const claims = refusingAs('invalid_token', () =>
      verifyMembership(token, keys, { issuer, now: organization.now(), typAlias }),
    )
    const signature = await provenAuthority(organization, request, claims.as_uri)
    if (!signature.covered.includes('authorization'))
      refuse('invalid_token', 'Cover "authorization" in the signature.')
    const member = await readMember(organization.database.ofNobody, claims.sub)
    if (member === undefined || member.join_id !== claims.jti || member.as_uri !== claims.as_uri)
      refuse('invalid_token', 'This membership has ended.')
    return run({ ...member, signature })
  },
}
