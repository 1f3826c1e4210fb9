/**
 * Owns the two access tokens: the RPT bound to an agent's key, and the resource server's PAT. Contract: "RPT
 * claims", "Protection access token (PAT)"; RFC 9068, RFC 7800.
 */
import type { JsonObject } from '../json.ts'
import {
  checkClaims,
  findByKid,
  isExpectedTyp,
  parseJws,
  signJws,
  timeClaim,
  verifyJws,
  type Verified,
} from '../signatures/jws.ts'
import { importPublicJwk, type PrivateKey, type PublicKey } from '../signatures/keys.ts'
import {
  asObject,
  integerMember,
  member,
  objectMember,
  optionalText,
  textMember,
  textsMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import {
  asClientId,
  asFamily,
  asHandle,
  asOwner,
  type ClientId,
  type Family,
  type Handle,
  type Owner,
} from '../identifiers.ts'

/** One granted permission; `exp` and `nbf` in seconds since the epoch. */
export type RptPermission = {
  resource_id: string
  resource_scopes: string[]
  exp: number
  nbf?: number
}

/** The exact operation of an ask-me grant; `params_s256` is the hash of the approved arguments. */
export type RptOperation = { tool: string; params_s256: string }

/** The RPT's claims; times in seconds. Only ask-me grants have `single_use` and `operation`. */
export type RptClaims = {
  iss: string
  sub: Handle
  /** The agent, as `sub`; never the resource server. */
  client_id: Handle
  aud: string
  jti: string
  iat: number
  exp: number
  cnf: { jwk: { kty: 'OKP'; crv: 'Ed25519'; x: string } }
  permissions: RptPermission[]
  contract: string
  owner: Owner
  family: Family
  consequence?: string
  clearance?: string
  single_use?: true
  operation?: RptOperation
  joint?: RptJoint
}

/** The basis of a tally's grant, by digests; introspection answers it whole. */
export type RptJoint = { account: Owner; mandate_s256: string; verdicts_s256: string[] }

/**
 * The PAT's claims: `sub` the owner, `azp` the resource server; `rs_generation` counts how often she had
 * withdrawn it when the PAT was issued, so that a new approval revives no old PAT.
 */
export type PatClaims = {
  iss: string
  sub: Owner
  azp: ClientId
  scope: string
  jti: string
  iat: number
  exp: number
  rs_generation: number
}

/** Keys to verify with: one's own, or another's as published. */
export type VerificationKeys = readonly (PublicKey & { readonly kid: string | undefined })[]

/**
 * The values that a token is checked against; without `now` only its signer and its form are checked, not its
 * times.
 */
export interface TokenExpectation {
  issuer?: string | undefined
  audience?: string | undefined
  now?: number | undefined
}

/** The compact RPT. */
export function signRpt(claims: RptClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.rpt, payload: claims }, key)
}

/**
 * The claims of an RPT made with one of the keys; refuses (`invalid_request`) every other kind, issuer,
 * audience, and time.
 */
export function verifyRpt(
  token: string,
  keys: VerificationKeys,
  expected: TokenExpectation = {},
): Verified<RptClaims> {
  const { payload } = verifyJws(token, findByKid(keys), { typ: TYP.rpt })
  checkTokenClaims(payload, expected)
  return readRpt(payload) as Verified<RptClaims>
}

/**
 * The claims of an RPT as its text has them, not verified: for its holder, which needs to know when it ends.
 * They must not be used to allow anything. Refuses (`invalid_request`) anything that is no RPT by `typ` and
 * form.
 */
export function readRptClaims(token: string): RptClaims {
  const { header, payload } = parseJws(token)
  if (!isExpectedTyp(header['typ'], { typ: TYP.rpt })) refuse('invalid_request', 'Send an RPT.')
  return readRpt(payload)
}

/** The compact PAT. */
export function signPat(claims: PatClaims, key: PrivateKey): string {
  return signJws({ typ: TYP.pat, payload: claims }, key)
}

/**
 * The claims of a PAT made with one of the keys; refuses (`invalid_request`) every other kind, issuer, and
 * time.
 */
export function verifyPat(
  token: string,
  keys: VerificationKeys,
  expected: TokenExpectation = {},
): Verified<PatClaims> {
  const { payload } = verifyJws(token, findByKid(keys), { typ: TYP.pat })
  checkTokenClaims(payload, expected)
  const claims: PatClaims = {
    iss: textMember(payload, 'iss'),
    sub: asOwner(textMember(payload, 'sub')),
    azp: asClientId(textMember(payload, 'azp')),
    scope: textMember(payload, 'scope'),
    jti: textMember(payload, 'jti'),
    iat: integerMember(payload, 'iat'),
    exp: integerMember(payload, 'exp'),
    rs_generation: integerMember(payload, 'rs_generation'),
  }
  return claims as Verified<PatClaims>
}

function checkTokenClaims(payload: JsonObject, { issuer, audience, now }: TokenExpectation): void {
  // With its own exp as the clock, nothing is expired; a token without exp is still refused.
  const exp = timeClaim(payload, 'exp')
  checkClaims(payload, {
    now: now ?? (exp ?? 0) - 1,
    requireExp: true,
    ...(issuer === undefined ? {} : { iss: issuer }),
    ...(audience === undefined ? {} : { aud: audience }),
  })
}

function readRpt(payload: JsonObject): RptClaims {
  const { x } = importPublicJwk(member(objectMember(payload, 'cnf'), 'jwk'))
  const consequence = optionalText(payload, 'consequence')
  const clearance = optionalText(payload, 'clearance')
  return {
    iss: textMember(payload, 'iss'),
    sub: asHandle(textMember(payload, 'sub')),
    client_id: asHandle(textMember(payload, 'client_id')),
    aud: textMember(payload, 'aud'),
    jti: textMember(payload, 'jti'),
    iat: integerMember(payload, 'iat'),
    exp: integerMember(payload, 'exp'),
    cnf: { jwk: { kty: 'OKP', crv: 'Ed25519', x } },
    permissions: readPermissions(payload),
    contract: textMember(payload, 'contract'),
    owner: asOwner(textMember(payload, 'owner')),
    family: asFamily(textMember(payload, 'family')),
    ...(consequence === undefined ? {} : { consequence }),
    ...(clearance === undefined ? {} : { clearance }),
    ...readSingleUse(payload),
  }
}

function readPermissions(payload: JsonObject): RptPermission[] {
  const permissions = member(payload, 'permissions')
  if (!Array.isArray(permissions) || permissions.length === 0) {
    refuse('invalid_request', 'Give permissions as a list of at least one object.')
  }
  return permissions.map(one => {
    const permission = asObject(one, 'each of permissions')
    return {
      resource_id: textMember(permission, 'resource_id'),
      resource_scopes: textsMember(permission, 'resource_scopes'),
      exp: integerMember(permission, 'exp'),
      ...(member(permission, 'nbf') === undefined ? {} : { nbf: integerMember(permission, 'nbf') }),
    }
  })
}

/** Only `true` means single use; a token with another value must not count as a standing one. */
function readSingleUse(payload: JsonObject): Pick<RptClaims, 'single_use' | 'operation'> {
  const single = member(payload, 'single_use')
  if (single === undefined && member(payload, 'operation') === undefined) return {}
  if (single !== true) refuse('invalid_request', 'Give single_use as true, or leave it and operation out.')
  const operation = objectMember(payload, 'operation')
  return {
    single_use: true,
    operation: { tool: textMember(operation, 'tool'), params_s256: textMember(operation, 'params_s256') },
  }
}
