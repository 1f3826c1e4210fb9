/**
 * Owns the check of a verified agreement, and reads those of its claims that matter later. Whether it repeats
 * the offered terms unweakened is weakened-echo.ts. Contract: "Agreement (claim_token, beat 3)", "Errors"
 * (agreement verification failures).
 */
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { weakenedEcho, type EchoClaims, type OfferedTerms } from './weakened-echo.ts'

/** Claims of an agreement whose signature and `typ` wire has verified; no member's type is trusted yet. */
export interface SignedClaims extends EchoClaims {
  readonly iss?: unknown
  readonly aud?: unknown
  readonly iat?: unknown
  readonly reason?: unknown
  readonly mission?: unknown
  readonly operation?: unknown
}

/**
 * How it is judged: our issuer URL, the time in seconds since the epoch, `UMA_AS_MAX_REASON`, and how `iss`
 * may begin.
 */
export interface AgreementSetting {
  readonly issuer: string
  readonly now: number
  readonly maxReasonBytes: number
  readonly agentIssuerPrefixes: readonly string[]
}

export const AGREEMENT_WINDOW_SECONDS = 60
export const OPERATION_BYTES_MAX = 16_384
export const MISSION_S256_CHARS_MIN = 16
export const MISSION_S256_CHARS_MAX = 128

type AgreementCheck = (
  claims: SignedClaims,
  offer: OfferedTerms,
  setting: AgreementSetting,
) => string | undefined

/** The first that fails gives the answer. */
const AGREEMENT_CHECKS: readonly AgreementCheck[] = [
  issFault,
  audFault,
  iatFault,
  weakenedEcho,
  operationFault,
  reasonFault,
  missionFault,
]

/**
 * Why the agreement is refused (403 `request_denied`), as a sentence naming the claim and what to do;
 * undefined if it is accepted. Unknown claims are ignored.
 */
export function agreementFault(
  claims: SignedClaims,
  offer: OfferedTerms,
  setting: AgreementSetting,
): string | undefined {
  for (const check of AGREEMENT_CHECKS) {
    const fault = check(claims, offer, setting)
    if (fault !== undefined) return fault
  }
  return undefined
}

function issFault(
  { iss }: SignedClaims,
  _offer: OfferedTerms,
  { agentIssuerPrefixes }: AgreementSetting,
): string | undefined {
  return typeof iss === 'string' && agentIssuerPrefixes.some(prefix => iss.startsWith(prefix))
    ? undefined
    : 'iss: name the signing agent as `agent:<keyid>`.'
}

function audFault(
  { aud }: SignedClaims,
  _offer: OfferedTerms,
  { issuer }: AgreementSetting,
): string | undefined {
  const isList = Array.isArray(aud) && aud.every(one => typeof one === 'string')
  const named = aud === issuer || (isList && aud.includes(issuer))
  return named ? undefined : 'aud: name the authorization server that offered the terms, by its issuer URL.'
}

function iatFault(
  { iat }: SignedClaims,
  _offer: OfferedTerms,
  { now }: AgreementSetting,
): string | undefined {
  if (typeof iat !== 'number' || !Number.isSafeInteger(iat))
    return 'iat: give the time of signing in whole seconds.'
  return Math.abs(now - iat) <= AGREEMENT_WINDOW_SECONDS
    ? undefined
    : `iat: sign with a clock within ${AGREEMENT_WINDOW_SECONDS} seconds of ours, and send the agreement at once.`
}

function operationFault(claims: SignedClaims, offer: OfferedTerms): string | undefined {
  if (claims.operation === undefined)
    return offer.per_operation === true
      ? 'operation: these terms are per operation; name the tool and its parameters as `{tool, params}`.'
      : undefined
  const operation = operationOf(claims)
  if (operation === undefined)
    return 'operation: give `{tool, params}` with params an object, or the name of a tool called without arguments.'
  return operationBytes(operation) <= OPERATION_BYTES_MAX
    ? undefined
    : `operation: keep the tool and its parameters within ${OPERATION_BYTES_MAX} bytes.`
}

function reasonFault(
  { reason }: SignedClaims,
  _offer: OfferedTerms,
  { maxReasonBytes }: AgreementSetting,
): string | undefined {
  if (reason === undefined) return undefined
  return typeof reason === 'string' && utf8Bytes(reason) <= maxReasonBytes
    ? undefined
    : `reason: give text of at most ${maxReasonBytes} bytes, or leave it out.`
}

function missionFault(claims: SignedClaims): string | undefined {
  return claims.mission === undefined || missionOf(claims) !== undefined
    ? undefined
    : `mission: give \`{approver, s256}\` with an https URL and a hash of ${MISSION_S256_CHARS_MIN} to ${MISSION_S256_CHARS_MAX} characters, or leave it out.`
}

/** The only statement of an agent that is enforced: `params` is the arguments object of the tool. */
export interface Operation {
  tool: string
  params: JsonObject
}

/**
 * The operation the agreement names, or undefined if it names none or nothing readable: `{tool, params}`,
 * where absent params mean `{}`, or a string, which is a tool without arguments. Any other member makes it
 * unreadable, because otherwise the owner would see less than was signed.
 */
export function operationOf(claims: Pick<SignedClaims, 'operation'>): Operation | undefined {
  const { operation } = claims
  if (typeof operation === 'string') return operation === '' ? undefined : { tool: operation, params: {} }
  if (!isJsonObject(operation)) return undefined
  const { tool, params = {}, ...beside } = operation
  if (typeof tool !== 'string' || tool === '' || !isJsonObject(params)) return undefined
  return Object.keys(beside).length === 0 ? { tool, params } : undefined
}

/**
 * The agreement's reference to its mission: a claim to record and show, never to fetch. Undefined if there is
 * none, or if it is malformed.
 */
export function missionOf(
  claims: Pick<SignedClaims, 'mission'>,
): { approver: string; s256: string } | undefined {
  if (!isJsonObject(claims.mission)) return undefined
  const { approver, s256 } = claims.mission
  if (typeof approver !== 'string' || !isHttpsUrl(approver) || typeof s256 !== 'string') return undefined
  const sized = s256.length >= MISSION_S256_CHARS_MIN && s256.length <= MISSION_S256_CHARS_MAX
  return sized && /^[\x21-\x7e]+$/.test(s256) ? { approver, s256 } : undefined
}

/** The reason it gives, as text to be shown and never judged; undefined if it gives none. */
export function reasonOf({ reason }: Pick<SignedClaims, 'reason'>): string | undefined {
  return typeof reason === 'string' ? reason : undefined
}

/**
 * All that policy may see of reason and mission: whether they are missing. An empty reason counts as missing.
 */
export function absencesOf(claims: Pick<SignedClaims, 'reason' | 'mission'>): {
  reasonAbsent: boolean
  missionAbsent: boolean
} {
  return {
    reasonAbsent: claims.reason === undefined || claims.reason === '',
    missionAbsent: claims.mission === undefined,
  }
}

/**
 * The bare https URL rule of `mission.approver`; control characters and spaces, which URL parsers drop, are
 * refused.
 */
function isHttpsUrl(text: string): boolean {
  return /^https:\/\/[\x21-\x7e]+$/.test(text) && URL.canParse(text)
}

function operationBytes({ tool, params }: Operation): number {
  const operation: Json = { tool, params }
  return utf8Bytes(canonicalize(operation))
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length
}
