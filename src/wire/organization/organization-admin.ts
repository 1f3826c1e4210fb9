/**
 * Owns the token by which an organization's administrator acts at a member's authorization server. Contract:
 * "Organization membership, on the member's authorization server" (`/org/admin/{owner}/...`): a JWT by a key
 * that the organization publishes, bound to one request.
 */
import { s256 } from '../encoding.ts'
import { asOwner, type Owner } from '../identifiers.ts'
import {
  checkClaims,
  findByKid,
  isExpectedTyp,
  parseJws,
  signJws,
  verifyJws,
  type Verified,
} from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import { idMember, integerMember, optionalText, textMember, urlMember } from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'

/** How long a token may be valid. */
export const ORGANIZATION_ADMIN_SECONDS = 300

/**
 * `membership` is the id of the join by which she is a member, `admin` the name of the administrator; `htm`
 * and `htu` (without its query) name the one request, `body_s256` its bytes, if it has a body.
 */
export type OrganizationAdminClaims = {
  iss: string
  aud: string
  sub: Owner
  membership: string
  jti: string
  admin: string
  htm: string
  htu: string
  body_s256?: string
  iat: number
  exp: number
}

/** The request that a token must be for; `body` as it came, undefined if there is none. */
export interface BoundRequest {
  method: string
  /** Without its query. */
  url: string
  body: Uint8Array | undefined
}

/** The compact token. */
export function signOrganizationAdmin(claims: OrganizationAdminClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.organizationAdmin, payload: claims }, key)
}

/**
 * The organization and key that a token claims, not verified: used to find that key. Refuses
 * (`invalid_request`) anything that is no such token by form, `typ` and `iss`.
 */
export function organizationAdminIssuer(
  jwt: string,
  typAlias?: string,
): { issuer: string; kid: string | undefined } {
  const { header, payload } = parseJws(jwt)
  if (!isExpectedTyp(header['typ'], { typ: TYP.organizationAdmin, typAlias }))
    refuse('invalid_request', 'Send the token of an organization’s administrator.')
  const { kid } = header
  return { issuer: urlMember(payload, 'iss'), kid: typeof kid === 'string' ? kid : undefined }
}

/**
 * Verifies a token of `issuer` to `audience` at `now` (seconds) for exactly `request`: `typ`, signature by
 * one of the keys, `iss`, `aud`, `iat`, an `exp` at most 300 s after it, method, address and the bytes of the
 * body. Refuses with `invalid_request`. It checks neither the owner nor the membership, nor whether the token
 * was presented before.
 */
export function verifyOrganizationAdmin(
  jwt: string,
  keys: VerificationKeys,
  expected: {
    issuer: string
    audience: string
    now: number
    request: BoundRequest
    typAlias?: string | undefined
  },
): Verified<OrganizationAdminClaims> {
  const { issuer, audience, now, request, typAlias } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), { typ: TYP.organizationAdmin, typAlias })
  checkClaims(payload, { iss: issuer, aud: audience, now, requireExp: true })
  const iat = integerMember(payload, 'iat')
  const exp = integerMember(payload, 'exp')
  if (exp > iat + ORGANIZATION_ADMIN_SECONDS)
    refuse('invalid_request', `Sign the token again, for at most ${ORGANIZATION_ADMIN_SECONDS} s.`)
  const body_s256 = optionalText(payload, 'body_s256')
  const claims: OrganizationAdminClaims = {
    iss: issuer,
    aud: audience,
    sub: asOwner(textMember(payload, 'sub')),
    membership: idMember(payload, 'membership'),
    jti: idMember(payload, 'jti'),
    admin: adminMember(textMember(payload, 'admin')),
    htm: textMember(payload, 'htm'),
    htu: textMember(payload, 'htu'),
    ...(body_s256 === undefined ? {} : { body_s256 }),
    iat,
    exp,
  }
  if (claims.htm !== request.method || claims.htu !== request.url)
    refuse('invalid_request', 'Get a token for this request: its htm or htu names another.')
  if (body_s256 !== (request.body === undefined ? undefined : s256(request.body)))
    refuse('invalid_request', 'Get a token for this body: body_s256 is not of its bytes.')
  return claims as Verified<OrganizationAdminClaims>
}

const ADMIN_CHARACTERS_MAX = 200

/** The name is shown to the owner, and stored. */
function adminMember(name: string): string {
  return name.length <= ADMIN_CHARACTERS_MAX && !name.includes('\0')
    ? name
    : refuse('invalid_request', `Name the administrator in at most ${ADMIN_CHARACTERS_MAX} characters.`)
}
