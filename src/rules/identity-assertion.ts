/**
 * Owns when an identity provider's assertion says who somebody is, to us. Contract: "need_info answer (beat
 * 2)" (format id-jag), "The organization's authority" (join by identity-provider vouching). The claims are
 * judged here, the signature elsewhere.
 */
import type { Json, JsonObject } from '../wire/json.ts'
import type { ReadToken } from './owner-token.ts'

/** `typ` of an assertion (draft-ietf-oauth-identity-assertion-authz-grant). */
const KIND = 'oauth-id-jag+jwt'
/** With which it may be signed; `EdDSA` admits its newer name. */
export const ASSERTION_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'] as const
const AHEAD_SECONDS_MAX = 60
/** How long one may be good for: it is remembered so long. */
export const ASSERTION_SECONDS_MAX = 3_600
const TEXT_MAX = 255

/** From whom, to whom, and of whom it must be; compared byte for byte. */
export interface ExpectedAssertion {
  issuer: string
  audience: string
  subject: string
}

/**
 * Why an assertion is not taken, as a sentence that says what to do; undefined where it is, provided that its
 * signature verifies.
 */
export function assertionFault(
  { header, payload }: ReadToken,
  { issuer, audience, subject }: ExpectedAssertion,
  now: number,
): string | undefined {
  if (!isKind(claim(header, 'typ'))) return `Send an assertion whose header typ is ${KIND}.`
  if (!ASSERTION_ALGORITHMS.some(alg => alg === claim(header, 'alg')))
    return `Send an assertion signed with one of ${ASSERTION_ALGORITHMS.join(', ')}.`
  if (claim(payload, 'iss') !== issuer) return `Send an assertion of ${issuer}.`
  if (!isOnly(claim(payload, 'aud'), audience)) return `Send an assertion whose only audience is ${audience}.`
  const jti = claim(payload, 'jti')
  if (typeof jti !== 'string' || jti === '' || jti.length > TEXT_MAX) return 'Send an assertion with a jti.'
  return (
    timeFault(payload, now) ??
    (claim(payload, 'sub') === subject
      ? undefined
      : 'Send an assertion of this person: it is of somebody else.')
  )
}

function claim(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

function isKind(typ: Json | undefined): boolean {
  return typeof typ === 'string' && typ.toLowerCase().replace(/^application\//, '') === KIND
}

function isOnly(aud: Json | undefined, audience: string): boolean {
  return Array.isArray(aud) ? aud.length === 1 && aud[0] === audience : aud === audience
}

function timeFault(payload: JsonObject, now: number): string | undefined {
  const [exp, iat, nbf = 0] = ['exp', 'iat', 'nbf'].map(name => claim(payload, name))
  if (!isTime(exp) || !isTime(iat) || !isTime(nbf))
    return 'Send an assertion with exp and iat, in seconds since the epoch.'
  if (now >= exp) return 'Get a fresh assertion: this one has expired.'
  if (exp > now + ASSERTION_SECONDS_MAX)
    return `Send an assertion that lasts at most ${ASSERTION_SECONDS_MAX} s.`
  return Math.max(iat, nbf) > now + AHEAD_SECONDS_MAX
    ? 'Send the assertion once its time has begun.'
    : undefined
}

function isTime(value: Json | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}
