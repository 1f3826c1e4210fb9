/**
 * Owns what an organization signs for a member. Contract: "The organization's authority" (join answers a
 * membership token).
 */
import { asOwner, type Owner } from '../identifiers.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { idMember, integerMember, textMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'

/** The token has no end: it is live as long as the membership that `jti`, the id of the join, names. */
export type MembershipClaims = {
  iss: string
  aud: string
  sub: Owner
  as_uri: string
  org: string
  jti: string
  iat: number
}

/** The compact membership token. */
export function signMembership(claims: MembershipClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.membership, payload: claims }, key)
}

/**
 * The claims of a membership token made with one of the keys, by this issuer for itself; refuses
 * (`invalid_request`) any other token.
 */
export function verifyMembership(
  token: string,
  keys: VerificationKeys,
  { issuer, now, typAlias }: { issuer: string; now: number; typAlias?: string | undefined },
): Verified<MembershipClaims> {
  const { payload } = verifyJws(token, findByKid(keys), { typ: TYP.membership, typAlias })
  checkClaims(payload, { iss: issuer, aud: issuer, now })
  const claims: MembershipClaims = {
    iss: issuer,
    aud: issuer,
    sub: asOwner(textMember(payload, 'sub')),
    as_uri: textMember(payload, 'as_uri'),
    org: textMember(payload, 'org'),
    jti: idMember(payload, 'jti'),
    iat: integerMember(payload, 'iat'),
  }
  return claims as Verified<MembershipClaims>
}
