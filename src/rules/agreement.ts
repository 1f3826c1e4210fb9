/**
 * Owns the check that a verified agreement repeats the offer unweakened, and reads those of its claims that
 * matter later. Contract: "Agreement (claim_token, beat 3)", "Errors" (agreement verification failures).
 */
import { canonicalize, isJsonObject, type Json, type JsonObject } from '../wire/json.ts'
import { OPTIONAL_ECHOES, type OptionalEcho, type TermsTemplate } from '../wire/negotiation/terms.ts'

/** The terms template as it was offered in this family. */
export type OfferedTerms = Readonly<TermsTemplate>

/** Claims of an agreement whose signature and `typ` wire has verified; no member's type is trusted yet. */
export interface SignedClaims {
  readonly iss?: unknown
  readonly aud?: unknown
  readonly iat?: unknown
  readonly template_id?: unknown
  readonly terms_uri?: unknown
  readonly proffered_by?: unknown
  readonly purpose?: unknown
  readonly scope?: unknown
  readonly expires_in?: unknown
  readonly prohibited?: unknown
  readonly resource_id?: unknown
  readonly family?: unknown
  readonly nonce?: unknown
  readonly per_operation?: unknown
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

/** The check that runs these in their order; the first that fails gives the answer. */
function firstFault(checks: readonly AgreementCheck[]): AgreementCheck {
  return (...judged) => {
    for (const check of checks) {
      const fault = check(...judged)
      if (fault !== undefined) return fault
    }
    return undefined
  }
}

const echoed =
  (claim: 'nonce' | 'family' | 'template_id' | 'terms_uri' | 'purpose' | OptionalEcho): AgreementCheck =>
  (claims, offer) =>
    claims[claim] === offer[claim]
      ? undefined
      : `${claim}: repeat the ${claim} of the offered terms unchanged.`

const echoedIfPresent =
  (claim: OptionalEcho): AgreementCheck =>
  (claims, offer, setting) =>
    claims[claim] === undefined ? undefined : echoed(claim)(claims, offer, setting)

/** Which of those claims an agreement leaves out; the receipt says so. */
export function absentEchoes(claims: Pick<SignedClaims, OptionalEcho>): OptionalEcho[] {
  return OPTIONAL_ECHOES.filter(claim => claims[claim] === undefined)
}

/** What of the offered terms the agreement does not repeat, or repeats weakened. */
const weakenedEcho = firstFault([
  echoed('nonce'),
  echoed('family'),
  echoed('template_id'),
  echoed('terms_uri'),
  echoedIfPresent('proffered_by'),
  echoedIfPresent('resource_id'),
  echoed('purpose'),
  prohibitedFault,
  expiresInFault,
  scopeFault,
  perOperationFault,
])

/**
 * Why the agreement is refused (403 `request_denied`), as a sentence naming the claim and what to do;
 * undefined if it is accepted. Unknown claims are ignored.
 */
export const agreementFault = firstFault([
  issFault,
  audFault,
  iatFault,
  weakenedEcho,
  operationFault,
  reasonFault,
  missionFault,
])

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
  const named = aud === issuer || (isStrings(aud) && aud.includes(issuer))
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

function prohibitedFault({ prohibited }: SignedClaims, offer: OfferedTerms): string | undefined {
  return isStrings(prohibited) && offer.prohibited.every(item => prohibited.includes(item))
    ? undefined
    : 'prohibited: repeat every prohibition of the offered terms; more may be added, none left out.'
}

function expiresInFault({ expires_in }: SignedClaims, offer: OfferedTerms): string | undefined {
  const agreed =
    typeof expires_in === 'number' &&
    Number.isSafeInteger(expires_in) &&
    expires_in > 0 &&
    expires_in <= offer.expires_in
  return agreed ? undefined : 'expires_in: give whole seconds, at least 1 and no more than the offered terms.'
}

function scopeFault({ scope }: SignedClaims, offer: OfferedTerms): string | undefined {
  return isStrings(scope) && scope.length > 0 && scope.every(item => offer.scope.includes(item))
    ? undefined
    : 'scope: give a list of at least one scope, all of them from the offered terms.'
}

/** The claim need not be repeated, but must not be contradicted. */
function perOperationFault({ per_operation }: SignedClaims, offer: OfferedTerms): string | undefined {
  return per_operation === undefined || per_operation === true || offer.per_operation !== true
    ? undefined
    : 'per_operation: repeat it as offered, or leave it out.'
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

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(item => typeof item === 'string')
}

function operationBytes({ tool, params }: Operation): number {
  const operation: Json = { tool, params }
  return utf8Bytes(canonicalize(operation))
}

function utf8Bytes(text: string): number {
  return new TextEncoder().encode(text).length
}
