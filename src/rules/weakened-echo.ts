/**
 * Owns whether an agreement repeats the terms that were offered, or has a weakened echo of them. Contract:
 * "Agreement (claim_token, beat 3)", "Errors" (`request_denied`: weakened echo).
 */
import { OPTIONAL_ECHOES, type OptionalEcho, type TermsTemplate } from '../wire/negotiation/terms.ts'

/** The terms template as it was offered in this family. */
export type OfferedTerms = Readonly<TermsTemplate>

/** The claims of an agreement that repeat members of the offered terms; no member's type is trusted yet. */
export interface EchoClaims {
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
}

type EchoCheck = (claims: EchoClaims, offer: OfferedTerms) => string | undefined

/** The first that fails gives the answer. */
const ECHO_CHECKS: readonly EchoCheck[] = [
  unchanged('nonce'),
  unchanged('family'),
  unchanged('template_id'),
  unchanged('terms_uri'),
  unchangedIfPresent('proffered_by'),
  unchangedIfPresent('resource_id'),
  unchanged('purpose'),
  prohibitedFault,
  expiresInFault,
  scopeFault,
  perOperationFault,
]

/**
 * Why the echo is refused (403 `request_denied`): a sentence that names a claim which does not repeat the
 * offered terms, or repeats them weakened, and says what to do. Undefined if the echo is whole: fewer scopes,
 * a shorter lifetime and more prohibitions are. Contract: "Agreement (claim_token, beat 3)".
 */
export function weakenedEcho(claims: EchoClaims, offer: OfferedTerms): string | undefined {
  for (const check of ECHO_CHECKS) {
    const fault = check(claims, offer)
    if (fault !== undefined) return fault
  }
  return undefined
}

/** Which of the claims that may be left out an agreement leaves out; the receipt says so. */
export function absentEchoes(claims: Pick<EchoClaims, OptionalEcho>): OptionalEcho[] {
  return OPTIONAL_ECHOES.filter(claim => claims[claim] === undefined)
}

function unchanged(
  claim: 'nonce' | 'family' | 'template_id' | 'terms_uri' | 'purpose' | OptionalEcho,
): EchoCheck {
  return (claims, offer) =>
    claims[claim] === offer[claim]
      ? undefined
      : `${claim}: repeat the ${claim} of the offered terms unchanged.`
}

function unchangedIfPresent(claim: OptionalEcho): EchoCheck {
  const check = unchanged(claim)
  return (claims, offer) => (claims[claim] === undefined ? undefined : check(claims, offer))
}

function prohibitedFault({ prohibited }: EchoClaims, offer: OfferedTerms): string | undefined {
  return isStrings(prohibited) && offer.prohibited.every(item => prohibited.includes(item))
    ? undefined
    : 'prohibited: repeat every prohibition of the offered terms; more may be added, none left out.'
}

function expiresInFault({ expires_in }: EchoClaims, offer: OfferedTerms): string | undefined {
  const agreed =
    typeof expires_in === 'number' &&
    Number.isSafeInteger(expires_in) &&
    expires_in > 0 &&
    expires_in <= offer.expires_in
  return agreed ? undefined : 'expires_in: give whole seconds, at least 1 and no more than the offered terms.'
}

function scopeFault({ scope }: EchoClaims, offer: OfferedTerms): string | undefined {
  return isStrings(scope) && scope.length > 0 && scope.every(item => offer.scope.includes(item))
    ? undefined
    : 'scope: give a list of at least one scope, all of them from the offered terms.'
}

/** The claim need not be repeated, but must not be contradicted. */
function perOperationFault({ per_operation }: EchoClaims, offer: OfferedTerms): string | undefined {
  return per_operation === undefined || per_operation === true || offer.per_operation !== true
    ? undefined
    : 'per_operation: repeat it as offered, or leave it out.'
}

function isStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(item => typeof item === 'string')
}
