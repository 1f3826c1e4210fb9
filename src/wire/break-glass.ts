/**
 * Owns the yes of a member's authorization server to one grant of an emergency window. Contract: "The
 * organization's authority" (`/break-glass`) and "What the service does" (nothing above the owner can widen):
 * without it such a grant is none, so that an organization that was stolen can neither make one nor hide one.
 */
import { asOwner, type Owner } from './identifiers.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from './jws.ts'
import type { PrivateKey } from './keys.ts'
import { textMember } from './members.ts'
import { TYP } from './names.ts'
import { readBreakGlassGrant, type BreakGlassGrant } from './notice.ts'
import type { RptClaims, VerificationKeys } from './tokens.ts'

/**
 * What was accepted: `iss` is her authorization server, `aud` the organization, the rest is of the one grant
 * as the notice told it.
 */
export type BreakGlassAcceptance = { iss: string; aud: string; owner: Owner } & BreakGlassGrant

/** What a grant of an emergency window says beside what any RPT does. */
export type BreakGlassClaims = RptClaims & {
  single_use: true
  break_glass: {
    org: string
    reason: string | null
    /** The administrator who opened the window, or the origin of the invoker. */
    authorised_by: string
    charter_version: number
    accepted: string
  }
}

/** The compact acceptance: `accepted` in the answer to the notice, and in the grant. */
export function signBreakGlassAcceptance(claims: BreakGlassAcceptance, key: PrivateKey): string {
  return signJws({ typ: TYP.breakGlassAccepted, payload: claims }, key)
}

/**
 * Verifies an acceptance by `authority` (her authorization server), to `organization`, at `now` (seconds):
 * `typ`, signature by one of the keys, `iss`, `aud`, `exp`. Refuses with `invalid_request`. Does not compare
 * it with any grant: see `acceptsGrant` of the rules.
 */
export function verifyBreakGlassAcceptance(
  jwt: string,
  keys: VerificationKeys,
  { authority, organization, now }: { authority: string; organization: string; now: number },
): Verified<BreakGlassAcceptance> {
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.breakGlassAccepted })
  checkClaims(payload, { iss: authority, aud: organization, now, requireExp: true })
  const claims: BreakGlassAcceptance = {
    iss: authority,
    aud: organization,
    owner: asOwner(textMember(payload, 'owner')),
    ...readBreakGlassGrant(payload),
  }
  return claims as Verified<BreakGlassAcceptance>
}
