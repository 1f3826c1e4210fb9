/**
 * Owns the question of a holder's authorization server to a tally about calls that were made. Contract:
 * "Tally for a jointly held resource"; docs/choices.md says why a holder may know.
 */
import { asOwner, type Owner } from '../identifiers.ts'
import { findByKid, isExpectedTyp, parseJws, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { idMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'
import { namedSigner, readShortLived, type NamedSigner } from './verdict.ts'

/** Who asks about which account; `iss` signs for the holder, times in seconds. */
export type AccessesRequest = {
  iss: string
  /** The tally. */
  aud: string
  holder: Owner
  account: Owner
  iat: number
  exp: number
}

/** How long a request is valid. */
export const ACCESSES_REQUEST_SECONDS = 120

/** The compact request. */
export function signAccessesRequest(request: AccessesRequest, key: PrivateKey): string {
  return signJws({ typ: TYP.accessesRequest, payload: request }, key)
}

/**
 * The holder and key that a request claims, unverified: to find that key by. Refuses (`invalid_request`)
 * anything that is no such request by form and `typ`.
 */
export function accessesRequester(jwt: string): NamedSigner {
  const jws = parseJws(jwt)
  if (!isExpectedTyp(jws.header['typ'], { typ: TYP.accessesRequest }))
    refuse('invalid_request', `Send a signed request of typ ${TYP.accessesRequest}.`)
  return namedSigner(jws)
}

/**
 * Verifies a request by `issuer` to the tally `audience` at `now` (seconds): `typ`, signature by one of the
 * keys, `iss`, `aud`, `iat`, and an `exp` at most 120 s after it. Refuses with `invalid_request`. It does not
 * check whether she holds the account.
 */
export function verifyAccessesRequest(
  jwt: string,
  keys: VerificationKeys,
  expected: { issuer: string; audience: string; now: number },
): Verified<AccessesRequest> {
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.accessesRequest })
  const secondsMax = ACCESSES_REQUEST_SECONDS
  const request: AccessesRequest = {
    ...readShortLived(payload, { ...expected, what: 'request', secondsMax }),
    holder: asOwner(idMember(payload, 'holder')),
    account: asOwner(idMember(payload, 'account')),
  }
  return request as Verified<AccessesRequest>
}
