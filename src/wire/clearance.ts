/**
 * Owns what an organization attests about the person whom an agent acts for, to her authorization server
 * alone. Contract: "Policy vocabulary and tiers" (clearance: fetched from authority to authority), "The
 * organization's authority" (`/member/clearance`).
 */
import { asOwner, type Owner } from './identifiers.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from './jws.ts'
import type { PrivateKey } from './keys.ts'
import { integerMember, objectMember, textMember } from './members.ts'
import { TYP } from './names.ts'
import { refuse } from './refusal.ts'
import type { VerificationKeys } from './tokens.ts'

/** How long an attestation is good for. */
export const CLEARANCE_SECONDS = 300

/**
 * `sub` is the owner at the authorization server `aud`; `clearance` has a text for each fact; times in
 * seconds.
 */
export type ClearanceClaims = {
  iss: string
  sub: Owner
  aud: string
  org: string
  iat: number
  exp: number
  jti: string
  clearance: Record<string, string>
}

/** The compact attestation; a grant names it by its s256. */
export function signClearance(claims: ClearanceClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.clearance, payload: claims }, key)
}

/**
 * Verifies an attestation by `issuer`, to the authorization server `audience`, of `owner`, at `now`
 * (seconds): `typ`, signature by one of the keys, `iss`, `aud`, `sub`, `iat`, an `exp` at most 300 s after
 * it, and that each fact is text. Refuses with `invalid_request`. Says nothing of whether the facts meet what
 * is required.
 * @internal until the authority of a member reads it.
 */
export function verifyClearance(
  jwt: string,
  keys: VerificationKeys,
  expected: { issuer: string; audience: string; owner: Owner; now: number },
): Verified<ClearanceClaims> {
  const { issuer, audience, owner, now } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.clearance })
  checkClaims(payload, { iss: issuer, aud: audience, now, requireExp: true })
  const iat = integerMember(payload, 'iat')
  const exp = integerMember(payload, 'exp')
  if (exp > iat + CLEARANCE_SECONDS)
    refuse('invalid_request', `Attest the clearance anew, for at most ${CLEARANCE_SECONDS} s.`)
  const sub = asOwner(textMember(payload, 'sub'))
  if (sub !== owner) refuse('invalid_request', `Send a clearance of ${owner}.`)
  const facts = objectMember(payload, 'clearance')
  const claims: ClearanceClaims = {
    iss: issuer,
    sub,
    aud: audience,
    org: textMember(payload, 'org'),
    iat,
    exp,
    jti: textMember(payload, 'jti'),
    clearance: Object.fromEntries(Object.keys(facts).map(fact => [fact, textMember(facts, fact)])),
  }
  return claims as Verified<ClearanceClaims>
}
