/**
 * Owns when an identity provider's assertion proves an identity to us. Contract: "need_info answer (beat
 * 2)" (format id-jag), "The organization's authority" (join by identity-provider vouching). The claims are
 * judged here, and the signature elsewhere. An accepted assertion binds what follows.
 */
import { isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { member as claim } from '../wire/json-members.ts'
import type { ReadToken } from './owner-token.ts'

/** `typ` of an assertion (draft-ietf-oauth-identity-assertion-authz-grant). */
const KIND = 'oauth-id-jag+jwt'
/** The algorithms of its signature; `EdDSA` includes its newer name. */
export const ASSERTION_ALGORITHMS = ['RS256', 'PS256', 'ES256', 'EdDSA', 'Ed25519'] as const
const AHEAD_SECONDS_MAX = 60
/** How long an assertion may be valid, because it is remembered that long. */
export const ASSERTION_SECONDS_MAX = 3_600
const TEXT_MAX = 255

/** Expected issuer, audience and subject; compared byte for byte. */
export interface ExpectedAssertion {
  issuer: string
  audience: string
  subject: string
}

/**
 * Why an assertion is not accepted, as a sentence that says what to do; undefined if it is, provided that its
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

/** Whether it claims to be an assertion only for `audience`. Nothing is verified here. */
export function isAssertionTo({ header, payload }: ReadToken, audience: string): boolean {
  return isKind(claim(header, 'typ')) && isOnly(claim(payload, 'aud'), audience)
}

/** Requirements for an agent's assertion, beyond those for any assertion. */
export interface ExpectedAgent {
  /** The RFC 9728 `resource` that was called. */
  resource: string
  /** The operations that it has. */
  operations: readonly string[]
}

/**
 * Why an assertion is not for an agent at this resource, as a sentence; undefined if it is, provided that
 * `assertionFault` finds nothing either. It names a key, and the resource or one of its operations; each that
 * it names is compared with the call.
 */
export function agentAssertionFault(
  { payload }: ReadToken,
  { resource, operations }: ExpectedAgent,
): string | undefined {
  const [named, scope, client_id] = ['resource', 'scope', 'client_id'].map(name => claim(payload, name))
  if (confirmedKey(payload) === undefined)
    return 'Send an assertion whose cnf.jkt is the thumbprint of the agent’s key.'
  if (client_id !== undefined && !(typeof client_id === 'string' && client_id !== ''))
    return 'Send an assertion whose client_id is a string.'
  if (named === undefined && scope === undefined)
    return 'Send an assertion that names the resource, or the operation in its scope.'
  if (named !== undefined && !isOnly(named, resource))
    return 'Send an assertion whose only resource is the one that is called.'
  if (scope !== undefined && !namedOperations(scope).some(one => operations.includes(one)))
    return 'Send an assertion whose scope holds the operation that is called.'
  return undefined
}

/** The parts of an accepted assertion that bind the rest of the negotiation. */
export interface AcceptedIdentity {
  issuer: string
  subject: string
  /** The digest of its compact form; the assertion itself is not kept. */
  s256: string
  /** Thumbprint of the key that must sign the agreement. */
  jkt: string
  /** The operator that the agreement must name; null if none. */
  client_id: string | null
  /** The operations that it is for; null if it named only the resource. */
  operations: readonly string[] | null
}

/** The parts of an assertion for an agent that are kept, after it was accepted. */
export function boundBy({ payload }: ReadToken): Pick<AcceptedIdentity, 'jkt' | 'client_id' | 'operations'> {
  const [scope, client_id] = ['scope', 'client_id'].map(name => claim(payload, name))
  return {
    jkt: confirmedKey(payload)!,
    client_id: (client_id as string | undefined) ?? null,
    operations: scope === undefined ? null : namedOperations(scope),
  }
}

/** Who vouches for whom, before terms are offered. */
export interface Vouching {
  readonly issuer: string
  readonly subject: string
}

/** Whether the accepted assertion is the one that is required now. */
export function isVouchedFor(accepted: AcceptedIdentity | null, vouching: Vouching): boolean {
  return accepted?.issuer === vouching.issuer && accepted.subject === vouching.subject
}

/**
 * Why an agreement is not by the party of the accepted assertion, as a sentence; undefined if it is.
 */
export function identityFault(
  accepted: AcceptedIdentity,
  signed: { jkt: string; client_id: string | undefined; operation: string | undefined },
): string | undefined {
  if (signed.jkt !== accepted.jkt) return 'Sign the agreement with the key that the identity assertion named.'
  if ((signed.client_id ?? null) !== accepted.client_id)
    return 'client_id: name the one that the identity assertion named, or none if it named none.'
  const { operations } = accepted
  if (operations !== null && signed.operation !== undefined && !operations.includes(signed.operation))
    return 'operation: the identity assertion was for another one.'
  return undefined
}

/** The thumbprint of the key that an assertion is bound to (RFC 7638, SHA-256). */
function confirmedKey(payload: JsonObject): string | undefined {
  const cnf = claim(payload, 'cnf')
  const jkt = isJsonObject(cnf) ? claim(cnf, 'jkt') : undefined
  return typeof jkt === 'string' && /^[\w-]{43}$/.test(jkt) ? jkt : undefined
}

function namedOperations(scope: Json): string[] {
  return typeof scope === 'string' ? scope.split(' ').filter(name => name !== '') : []
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
