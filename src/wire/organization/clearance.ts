/**
 * Owns what an organization attests about the person whom an agent acts for, only to her authorization
 * server. Contract: "Policy vocabulary and tiers" (clearance: fetched from authority to authority), "The
 * organization's authority" (`/member/clearance`).
 */
import { asOwner, type Owner } from '../identifiers.ts'
import { checkClaims, findByKid, parseJws, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { JsonObject } from '../json.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { idMember, integerMember, objectMember, textMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'

/** How long an attestation is valid. */
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

/** The content of an attestation that was verified when it was kept: a text for each fact, at any age. */
export function attestedFacts(jwt: string): Record<string, string> {
  return factsOf(parseJws(jwt).payload)
}

function factsOf(payload: JsonObject): Record<string, string> {
  const facts = objectMember(payload, 'clearance')
  return Object.fromEntries(Object.keys(facts).map(fact => [fact, textMember(facts, fact)]))
}

/**
 * Verifies an attestation by `issuer`, to the authorization server `audience`, of `owner`, at `now`
 * (seconds): `typ`, signature by one of the keys, `iss`, `aud`, `sub`, `iat`, an `exp` at most 300 s after
 * it, and that each fact is text. Refuses with `invalid_request`. It does not judge whether the facts meet
 * what is required.
 */
export function verifyClearance(
  jwt: string,
  keys: VerificationKeys,
  expected: {
    issuer: string
    audience: string
    owner: Owner
    now: number
    typAlias?: string | undefined
  },
): Verified<ClearanceClaims> {
  const { issuer, audience, owner, now, typAlias } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.clearance, typAlias })
  checkClaims(payload, { iss: issuer, aud: audience, now, requireExp: true })
  const iat = integerMember(payload, 'iat')
  const exp = integerMember(payload, 'exp')
  if (exp > iat + CLEARANCE_SECONDS)
    refuse('invalid_request', `Attest the clearance again, for at most ${CLEARANCE_SECONDS} s.`)
  const sub = asOwner(textMember(payload, 'sub'))
  if (sub !== owner) refuse('invalid_request', `Send a clearance of ${owner}.`)
  const claims: ClearanceClaims = {
    iss: issuer,
    sub,
    aud: audience,
    org: textMember(payload, 'org'),
    iat,
    exp,
    jti: idMember(payload, 'jti'),
    clearance: factsOf(payload),
  }
  return claims as Verified<ClearanceClaims>
}
