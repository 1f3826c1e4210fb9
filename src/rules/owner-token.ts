/**
 * Decides whether a token of the owner's realm is an access token meant for us. Contract: "Authentication"
 * (owner at the owner API): an OIDC access token, validated with her realm's published keys. The claims are
 * judged here, the signature elsewhere.
 */
import type { Json, JsonObject } from '../wire/json.ts'
import { member as claim } from '../wire/json-members.ts'

/**
 * A header `typ` that marks, or at least permits, an access token: RFC 9068's own, or the plain one of older
 * realms.
 */
export const ACCESS_TOKEN_TYPES = ['at+jwt', 'JWT'] as const
export type AccessTokenType = (typeof ACCESS_TOKEN_TYPES)[number]

/** Requirements for the realm's tokens; issuer, audience and parties are compared byte for byte. */
export interface RealmPolicy {
  issuer: string
  /** One of the token's audiences must be this. */
  audience: string
  /** Clients whose tokens are accepted if the realm sets no audience; if empty, none are. */
  authorizedParties: readonly string[]
  /** JWS algorithms; `EdDSA` admits its newer name `Ed25519` (RFC 9864). */
  algorithms: readonly string[]
  types: readonly AccessTokenType[]
}

/** A token as it was read; nothing in it is verified yet. */
export interface ReadToken {
  header: JsonObject
  payload: JsonObject
}

/** Clocks differ by this much (contract, "Limits"); no allowance is made for the end of a token. */
const SKEW_SECONDS = 60
/**
 * Claims that show another kind of token (OIDC Core §2, §3.3.2.11; Back-Channel Logout §2.4), or a proof that
 * we do not accept. Not `nonce`, which Keycloak and Authentik put into access tokens, too.
 */
const FOREIGN_CLAIMS = ['at_hash', 'c_hash', 's_hash', 'events', 'cnf'] as const
/** What an ID token tells of a login and of a person, and an access token need not. */
const LOGIN_CLAIMS = [
  'nonce',
  'auth_time',
  'acr',
  'amr',
  'sid',
  'email',
  'name',
  'picture',
  'preferred_username',
] as const
const SUBJECT_CHARACTERS_MAX = 255

/**
 * Why the token is not accepted, as a sentence that says what to do; undefined if it is, provided that its
 * signature verifies. In that case `sub` is a non-empty text and `exp` a number.
 */
export function ownerTokenFault(token: ReadToken, policy: RealmPolicy, now: number): string | undefined {
  const { header, payload } = token
  return (
    algorithmFault(claim(header, 'alg'), policy.algorithms) ??
    kindFault(token, policy.types) ??
    (claim(payload, 'iss') === policy.issuer
      ? undefined
      : 'Send a token of the realm that this authority trusts.') ??
    audienceFault(payload, policy) ??
    timeFault(payload, now) ??
    subjectFault(claim(payload, 'sub'))
  )
}

function algorithmFault(alg: Json | undefined, admitted: readonly string[]): string | undefined {
  const name = alg === 'Ed25519' && admitted.includes('EdDSA') ? 'EdDSA' : alg
  if (typeof name === 'string' && admitted.includes(name)) return undefined
  return `Send a token signed with one of ${admitted.join(', ')}.`
}

/** Access tokens look much like ID, refresh and logout tokens of the same realm, under the same keys. */
function kindFault({ header, payload }: ReadToken, types: readonly AccessTokenType[]): string | undefined {
  const fault = 'Send an access token: this is another kind of token.'
  const kind = claim(header, 'typ') ?? 'JWT'
  if (typeof kind !== 'string') return fault
  const word = kind.toLowerCase().replace(/^application\//, '')
  const type = ACCESS_TOKEN_TYPES.find(name => name.toLowerCase() === word)
  if (type === undefined) return fault
  if (!types.includes(type)) return `Send an access token whose header typ is ${types.join(' or ')}.`
  const bearer = claim(payload, 'typ')
  if (bearer !== undefined && bearer !== 'Bearer') return fault
  const use = claim(payload, 'token_use')
  if (use !== undefined && use !== 'access') return fault
  const foreign = FOREIGN_CLAIMS.find(name => Object.hasOwn(payload, name))
  if (foreign === 'cnf') return 'Send a plain bearer token: proofs of a bound token are not taken here.'
  if (foreign !== undefined) return fault
  if (Object.hasOwn(payload, 'nonce') && !isAccessTokenWithNonce(payload, type)) return fault
  return type === 'at+jwt' || isPlainAccessToken(payload) ? undefined : fault
}

/** Whether the realm calls it an access token, or, if it is of the plain type, whether it has a scope. */
function isAccessTokenWithNonce(payload: JsonObject, type: AccessTokenType): boolean {
  if (saysAccess(payload)) return true
  return type === 'JWT' && typeof claim(payload, 'scope') === 'string' && isText(claim(payload, 'azp'))
}

function saysAccess(payload: JsonObject): boolean {
  return claim(payload, 'typ') === 'Bearer' || claim(payload, 'token_use') === 'access'
}

/**
 * A plain `JWT` must show what it is: access tokens say what they are for (RFC 8693 §4.2), ID tokens do not.
 * Zitadel's do not either: they have an id and an audience beside their client, and tell of no login.
 */
function isPlainAccessToken(payload: JsonObject): boolean {
  if (saysAccess(payload) || claim(payload, 'scope') !== undefined || claim(payload, 'scp') !== undefined)
    return true
  const party = claim(payload, 'client_id') ?? claim(payload, 'azp')
  const audiences = [claim(payload, 'aud') ?? []].flat()
  return (
    isText(claim(payload, 'jti')) &&
    isText(party) &&
    audiences.some(audience => audience !== party) &&
    !LOGIN_CLAIMS.some(name => Object.hasOwn(payload, name))
  )
}

const isText = (value: Json | undefined): boolean => typeof value === 'string' && value !== ''

/** If there is an audience, it decides; the authorized party decides only without one. */
function audienceFault(
  payload: JsonObject,
  { audience, authorizedParties }: RealmPolicy,
): string | undefined {
  const aud = claim(payload, 'aud')
  if (aud !== undefined) {
    const named = Array.isArray(aud) ? aud.includes(audience) : aud === audience
    return named ? undefined : `Send a token whose audience is ${audience}.`
  }
  const azp = claim(payload, 'azp')
  const client = claim(payload, 'client_id')
  const party = azp ?? client
  const agree = azp === undefined || client === undefined || azp === client
  if (agree && typeof party === 'string' && authorizedParties.includes(party)) return undefined
  return `Send a token whose audience is ${audience}: this one has none.`
}

function timeFault(payload: JsonObject, now: number): string | undefined {
  const times = ['exp', 'nbf', 'iat'].map(name => claim(payload, name))
  if (times.some(time => time !== undefined && !isTime(time)))
    return 'Send a token whose times are numbers of seconds since the epoch.'
  const [exp, nbf, iat] = times as (number | undefined)[]
  if (exp === undefined) return 'Send a token that expires.'
  if (now >= exp) return 'Get a fresh token: this one has expired.'
  const begins = Math.max(nbf ?? 0, iat ?? 0)
  return begins > now + SKEW_SECONDS ? 'Send the token once its time has begun.' : undefined
}

function isTime(value: Json): boolean {
  return typeof value === 'number' && Number.isFinite(value)
}

function subjectFault(sub: Json | undefined): string | undefined {
  const names =
    typeof sub === 'string' && /^[^\p{Cc}\p{Cs}]+$/u.test(sub) && sub.length <= SUBJECT_CHARACTERS_MAX
  return names ? undefined : 'Send a token that names its subject.'
}
