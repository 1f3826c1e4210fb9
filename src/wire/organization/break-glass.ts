/**
 * Owns the acceptance by a member's authorization server of one grant of an emergency window. Contract: "The
 * organization's authority" (`/break-glass`) and "What the service does" (nothing above the owner can widen):
 * a grant without it does not count, so that a compromised organization can neither make one nor hide one.
 */
import { asOwner, type Owner } from '../identifiers.ts'
import { checkClaims, findByKid, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { textMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { readBreakGlassGrant, type BreakGlassGrant } from './notice.ts'
import type { RptClaims, VerificationKeys } from '../negotiation/tokens.ts'

/**
 * The accepted grant: `iss` is her authorization server, `aud` is the organization, and the rest describes
 * the one grant, as the notice did.
 */
export type BreakGlassAcceptance = { iss: string; aud: string; owner: Owner } & BreakGlassGrant

/** The claims of an emergency grant beyond those of any RPT. */
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
 * `typ`, signature by one of the keys, `iss`, `aud`, `exp`. Refuses with `invalid_request`. It does not
 * compare the acceptance with any grant: `acceptsGrant` of the rules does that.
 */
export function verifyBreakGlassAcceptance(
  jwt: string,
  keys: VerificationKeys,
  expected: { authority: string; organization: string; now: number; typAlias?: string | undefined },
): Verified<BreakGlassAcceptance> {
  const { authority, organization, now, typAlias } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.breakGlassAccepted, typAlias })
  checkClaims(payload, { iss: authority, aud: organization, now, requireExp: true })
  const claims: BreakGlassAcceptance = {
    iss: authority,
    aud: organization,
    owner: asOwner(textMember(payload, 'owner')),
    ...readBreakGlassGrant(payload),
  }
  return claims as Verified<BreakGlassAcceptance>
}
