/**
 * Owns the answers of the token endpoint in beats 2 to 4, built by the authorization server and read by the
 * agent. Contract: "need_info answer (beat 2)", "Grant answer (beat 4)", "Errors"; UMA 2.0 Grant §3.3.5,
 * §3.3.6. Beat 1 is challenge.ts.
 */
import {
  asObject,
  compactMember,
  integerMember,
  member,
  optionalText,
  textMember,
  textsMember,
  wordMember,
} from '../json-members.ts'
import type { JsonObject } from '../json.ts'
import { agreementFormats, ALIAS_AGREEMENT_CLAIM, POP, specNames } from '../names.ts'
import { refuse } from '../refusal.ts'
import { parseTermsTemplate, type TermsTemplate } from './terms.ts'

export {
  isChallengeData,
  parseChallenge,
  parseChallengeData,
  type AuthorizationDetail,
  type Challenge,
  type ChallengeOptions,
  type Remediation,
} from './challenge.ts'

/**
 * One element of `required_claims`. UMA makes every member optional; ours carries them all, and the template.
 */
export type RequiredClaim = {
  claim_token_format: string[]
  claim_type?: string
  friendly_name?: string
  terms_template?: TermsTemplate
  /** These four ask for an identity assertion (identity-claim.ts). */
  identity_provider?: JsonObject
  audience?: string
  resource?: string
  scope?: string
}

/** 403 `need_info`: a rotated ticket and what to bring with it. */
export type NeedInfo = {
  error: 'need_info'
  ticket: string
  required_claims: RequiredClaim[]
}

/** The question to the owner: admit the agent, or approve one operation. */
const PENDING_KINDS = ['connection', 'operation'] as const
export type RequestKind = (typeof PENDING_KINDS)[number]

/** 403 `request_submitted`: poll with the ticket after `interval` seconds. */
export type RequestSubmitted = {
  error: 'request_submitted'
  /** Undefined in a received one that does not say what she is asked, as stock UMA 2.0 does not. */
  kind?: RequestKind | undefined
  ticket: string
  interval: number
  /** False if it joined a request that waits already, whose reason is another: the owner reads that one. */
  reason_shown?: false | undefined
}

/** The grant: the RPT, its lifetime in seconds, and the receipt (both compact JWS). */
export type GrantAnswer = {
  access_token: string
  token_type: typeof POP
  expires_in: number
  receipt: string
}

/**
 * Poll interval if the answer names none (UMA leaves it open; RFC 8628 §3.2 has 5 s), and the longest that is
 * accepted.
 */
const POLL_SECONDS_DEFAULT = 5
const POLL_SECONDS_MAX = 3600

/**
 * The `need_info` body that asks for a signed agreement to the template. If another name of the format is
 * accepted too, the claim is requested a second time under the other name, because an agent may look for
 * either; one agreement answers both.
 */
export function needInfo(of: {
  specNs: string
  aliases?: readonly string[]
  ticket: string
  template: TermsTemplate
}): NeedInfo {
  const { specNs, aliases = [], ticket, template } = of
  const formats = agreementFormats({ specNs, aliases })
  const claim = { friendly_name: "Agreement to the owner's terms", terms_template: template }
  const others = formats.slice(1)
  return {
    error: 'need_info',
    ticket,
    required_claims: [
      { claim_type: specNames(specNs).agreementClaim, claim_token_format: formats, ...claim },
      ...others.map(format => ({
        claim_type: ALIAS_AGREEMENT_CLAIM,
        claim_token_format: [format],
        ...claim,
      })),
    ],
  }
}

/** A received `need_info` body, each member of its type; refuses (`invalid_request`) any other. */
export function parseNeedInfo(json: unknown): NeedInfo {
  const object = asErrorBody(json, 'need_info')
  const claims = member(object, 'required_claims')
  if (!Array.isArray(claims) || claims.length === 0 || claims.length > 16) {
    refuse('invalid_request', 'Give required_claims as an array of 1 to 16 objects.')
  }
  return {
    error: 'need_info',
    ticket: textMember(object, 'ticket'),
    required_claims: claims.map(claim => readRequiredClaim(asObject(claim, 'each of required_claims'))),
  }
}

/**
 * The terms among the required claims that this agent can sign, by format; undefined if none are asked
 * for.
 */
export function offeredTerms(answer: NeedInfo, specNs: string): TermsTemplate | undefined {
  const { agreementFormat } = specNames(specNs)
  return answer.required_claims.find(claim => claim.claim_token_format.includes(agreementFormat))
    ?.terms_template
}

/** The `request_submitted` body; `interval` in seconds. */
export function requestSubmitted(
  kind: RequestKind,
  ticket: string,
  interval: number,
  { reasonShown = true } = {},
): RequestSubmitted & { kind: RequestKind } {
  return { error: 'request_submitted', kind, ticket, interval, ...(!reasonShown && { reason_shown: false }) }
}

/**
 * A received `request_submitted` body; refuses (`invalid_request`) any other body, and an interval over an
 * hour.
 */
export function parseRequestSubmitted(json: unknown): RequestSubmitted {
  const object = asErrorBody(json, 'request_submitted')
  const named = member(object, 'interval') !== undefined
  const interval = named ? integerMember(object, 'interval', 1) : POLL_SECONDS_DEFAULT
  if (interval > POLL_SECONDS_MAX) {
    refuse('invalid_request', `Give interval as at most ${POLL_SECONDS_MAX} seconds.`)
  }
  // It is only shown: what the agent does while she decides is the same, whatever she is asked.
  const kind = member(object, 'kind') === undefined ? undefined : wordMember(object, 'kind', PENDING_KINDS)
  const submitted = {
    error: 'request_submitted' as const,
    kind,
    ticket: textMember(object, 'ticket'),
    interval,
  }
  return member(object, 'reason_shown') === false ? { ...submitted, reason_shown: false } : submitted
}

/** The 200 body of a grant; `expires_in` in seconds. */
export function grantAnswer(grant: Omit<GrantAnswer, 'token_type'>): GrantAnswer {
  const { access_token, expires_in, receipt } = grant
  return { access_token, token_type: POP, expires_in, receipt }
}

/**
 * A received grant; `token_type` is compared without regard to case (RFC 6749 §7.1). Refuses
 * (`invalid_request`) any other.
 */
export function parseGrantAnswer(json: unknown): GrantAnswer {
  const object = asObject(json, 'the answer')
  if (textMember(object, 'token_type').toLowerCase() !== POP.toLowerCase()) {
    refuse('invalid_request', `Grant a token of type ${POP}.`)
  }
  return grantAnswer({
    access_token: compactMember(object, 'access_token'),
    expires_in: integerMember(object, 'expires_in', 1),
    receipt: compactMember(object, 'receipt'),
  })
}

function readRequiredClaim(object: JsonObject): RequiredClaim {
  const claim_type = optionalText(object, 'claim_type')
  const friendly_name = optionalText(object, 'friendly_name')
  const template = member(object, 'terms_template')
  return {
    claim_token_format: textsMember(object, 'claim_token_format', true),
    ...(claim_type === undefined ? {} : { claim_type }),
    ...(friendly_name === undefined ? {} : { friendly_name }),
    ...(template === undefined ? {} : { terms_template: parseTermsTemplate(template) }),
    ...readIdentity(object),
  }
}

function readIdentity(object: JsonObject): Partial<RequiredClaim> {
  const provider = member(object, 'identity_provider')
  const texts = (['audience', 'resource', 'scope'] as const).map(name => [name, optionalText(object, name)])
  return {
    ...(provider === undefined ? {} : { identity_provider: asObject(provider, 'identity_provider') }),
    ...(Object.fromEntries(texts.filter(([, text]) => text !== undefined)) as Partial<RequiredClaim>),
  }
}

function asErrorBody(json: unknown, error: string): JsonObject {
  const object = asObject(json, 'the answer')
  return member(object, 'error') === error ? object : refuse('invalid_request', `Answer with error ${error}.`)
}
