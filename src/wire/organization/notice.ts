/**
 * Owns what an organization tells a member's authorization server unasked. Contract: "Organization
 * membership, on the member's authorization server" (`/org/notice`), "Events" (organization notice): a JWT by
 * a key that the organization publishes, in the body `{"notice": "<jwt>"}`.
 */
import { CHARTER_LIST_MAX } from './charter.ts'
import { asOwner, type Owner } from '../identifiers.ts'
import type { JsonObject } from '../json.ts'
import { checkClaims, findByKid, parseJws, signJws, verifyJws, type Verified } from '../signatures/jws.ts'
import type { PrivateKey } from '../signatures/keys.ts'
import {
  idMember,
  integerMember,
  objectMember,
  textMember,
  textOrNull,
  textsMember,
  urlMember,
} from '../json-members.ts'
import { TYP } from '../names.ts'
import { refuse } from '../refusal.ts'
import type { VerificationKeys } from '../negotiation/tokens.ts'

/** How long one attempt to deliver a notice is valid. */
export const NOTICE_SECONDS = 300
/**
 * The most bytes of a compact notice: one that tells of an opening names all that the clause in force reaches
 * and the member agreed to, which is at most what two charters name.
 */
export const NOTICE_BYTES_MAX = 204_800
const RESOURCES_MAX = 2 * CHARTER_LIST_MAX
/**
 * The most notices about one member's emergencies in an hour: of those that tell of an opening, and of those
 * that ask for a yes.
 */
export const EMERGENCIES_PER_HOUR = 60
/**
 * The most notices about one member in an hour, beyond which those are refused that neither end anything nor
 * tell of an emergency: each is remembered for days.
 */
export const NOTICES_PER_HOUR = 600

/** The grant of an emergency window; `exp` in seconds since the epoch. */
export type BreakGlassGrant = {
  jti: string
  resource_id: string
  scopes: string[]
  cnf_jkt: string
  operation: { tool: string; params_s256: string }
  exp: number
}

/** The event, as the claims beside `kind` describe it. */
export type Notice =
  | { kind: 'membership_ended'; by: string }
  /** Her group, or the facts attested about her; null if she is in no group. */
  | { kind: 'role_changed'; role: string | null }
  | { kind: 'charter_changed'; charter_version: number }
  | { kind: 'break_glass_opened'; resources: string[]; reason: string | null; by: string; window_s: number }
  | { kind: 'break_glass'; grant: BreakGlassGrant; reason: string | null; authorised_by: string }
  | { kind: 'break_glass_used' | 'break_glass_void'; grant: { jti: string } }

export type NoticeKind = Notice['kind']

/**
 * The recipient of a notice; `membership` is the id of the join by which she is a member, `jti` is the same
 * at every attempt.
 */
export type NoticeClaims = {
  iss: string
  aud: string
  sub: Owner
  membership: string
  jti: string
  iat: number
  exp: number
}

/**
 * A notice as it was signed. `notice` is undefined for a kind that is not known here: it is accepted, but
 * changes nothing.
 */
export interface ReceivedNotice {
  readonly claims: NoticeClaims
  readonly kind: string
  readonly notice: Notice | undefined
}

/**
 * The compact notice.
 */
export function signNotice(claims: NoticeClaims, notice: Notice, key: PrivateKey): string {
  return signJws({ typ: TYP.notice, payload: { ...claims, ...notice } }, key)
}

/**
 * The member that a notice claims to be about, not verified: used to find the keys. Refuses
 * (`invalid_request`) what cannot be read as one; of another `typ`, it is for `verifyNotice` to refuse.
 */
export function noticeIssuer(jwt: string): string {
  return urlMember(parseJws(jwt, NOTICE_BYTES_MAX).payload, 'iss')
}

/**
 * Verifies a notice of `issuer` to `audience` at `now` (seconds): `typ`, signature by one of the keys, `iss`,
 * `aud`, `iat`, an `exp` at most 300 s after it, and the members of its kind. Refuses with `invalid_request`.
 * It checks neither the owner nor the membership, nor whether the notice was received before.
 */
export function verifyNotice(
  jwt: string,
  keys: VerificationKeys,
  expected: { issuer: string; audience: string; now: number; typAlias?: string | undefined },
): Verified<ReceivedNotice> {
  const { issuer, audience, now, typAlias } = expected
  const { payload } = verifyJws(jwt, findByKid(keys), {
    typ: TYP.notice,
    typAlias,
    maxBytes: NOTICE_BYTES_MAX,
  })
  checkClaims(payload, { iss: issuer, aud: audience, now, requireExp: true })
  const iat = integerMember(payload, 'iat')
  const exp = integerMember(payload, 'exp')
  if (exp > iat + NOTICE_SECONDS)
    refuse('invalid_request', `Sign the notice again, for at most ${NOTICE_SECONDS} s.`)
  const claims: NoticeClaims = {
    iss: issuer,
    aud: audience,
    sub: asOwner(textMember(payload, 'sub')),
    membership: idMember(payload, 'membership'),
    jti: idMember(payload, 'jti'),
    iat,
    exp,
  }
  const kind = textMember(payload, 'kind')
  const received: ReceivedNotice = { claims, kind, notice: readNotice(kind, payload) }
  return received as Verified<ReceivedNotice>
}

function readNotice(kind: string, payload: JsonObject): Notice | undefined {
  switch (kind as NoticeKind) {
    case 'membership_ended':
      return { kind: 'membership_ended', by: textMember(payload, 'by') }
    case 'role_changed':
      return { kind: 'role_changed', role: textOrNull(payload, 'role') }
    case 'charter_changed':
      return { kind: 'charter_changed', charter_version: integerMember(payload, 'charter_version', 1) }
    case 'break_glass_opened':
      return {
        kind: 'break_glass_opened',
        resources: textsMember(payload, 'resources', false, RESOURCES_MAX),
        reason: textOrNull(payload, 'reason'),
        by: textMember(payload, 'by'),
        window_s: integerMember(payload, 'window_s', 1),
      }
    case 'break_glass':
      return {
        kind: 'break_glass',
        grant: readBreakGlassGrant(objectMember(payload, 'grant')),
        reason: textOrNull(payload, 'reason'),
        authorised_by: textMember(payload, 'authorised_by'),
      }
    case 'break_glass_used':
    case 'break_glass_void': {
      const grant = { jti: idMember(objectMember(payload, 'grant'), 'jti') }
      return { kind: kind as 'break_glass_used' | 'break_glass_void', grant }
    }
  }
  return undefined
}

/** The grant that a notice or an acceptance describes; refuses (`invalid_request`) any other form. */
export function readBreakGlassGrant(grant: JsonObject): BreakGlassGrant {
  const operation = objectMember(grant, 'operation')
  return {
    jti: idMember(grant, 'jti'),
    resource_id: textMember(grant, 'resource_id'),
    scopes: textsMember(grant, 'scopes'),
    cnf_jkt: idMember(grant, 'cnf_jkt'),
    operation: {
      tool: textMember(operation, 'tool'),
      params_s256: textMember(operation, 'params_s256'),
    },
    exp: integerMember(grant, 'exp'),
  }
}
