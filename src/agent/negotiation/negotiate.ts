/**
 * Owns the agent's side of a negotiation, beats 2 to 4. Contract: "need_info answer (beat 2)", "Agreement
 * (claim_token, beat 3)", "Permission ticket": terms are checked before they are signed, and a grant before
 * it is kept.
 */
import { agreementHash, openClaimToken, signAgreement } from '../../wire/negotiation/agreement.ts'
import type { Challenge, RequestSubmitted } from '../../wire/negotiation/negotiation.ts'
import type { JsonObject } from '../../wire/json.ts'
import { ID_JAG } from '../../wire/names.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import { AgentError, fail, reading } from '../agent-error.ts'
import { identityToken } from './identity.ts'
import { namedBy, operationOf, toolOf, type ToolCall } from '../transports/mcp.ts'
import type { AuthorityMetadata, Directory } from './metadata.ts'
import { readOffer } from './offered-terms.ts'
import type { Profile } from '../profile.ts'
import { acceptGrant, type Accepted, type SignedAgreement } from './receipt.ts'
import { pause, presentTicket, type TokenAnswer, type TokenEndpointContext } from './token.ts'

/** One negotiation: the call it is for, and the challenge that began it. */
export interface NegotiationRequest {
  resource: string
  call: ToolCall
  challenge: Challenge
  signal?: AbortSignal | undefined
  /**
   * Whose resource it is by the challenge, if the key was chosen by that: then the terms must be hers before
   * anything is signed, and the grant too. Without it, any owner's terms may be signed.
   */
  owner?: string | undefined
  /**
   * The same was requested before, and the answer was lost: the earlier approval is collected, and the owner
   * is not asked again.
   */
  answerLost?: boolean | undefined
  /**
   * Called before the terms are signed, in place of the profile's `confirmTerms`; an error that it throws
   * ends the negotiation.
   */
  confirm?: ((template: TermsTemplate) => Promise<boolean>) | undefined
  /** Called with each ticket that waits for the owner before it is presented, so that it can be kept. */
  onWaiting?: ((waiting: WaitingRequest) => Promise<void>) | undefined
  /** Waits between two polls, at most this many seconds. */
  pause?: ((seconds: number) => Promise<void>) | undefined
  /**
   * Sends a poll before the interval is over, which the authority holds for at most this many seconds;
   * undefined, with nothing sent, if the pause is to come first. Left out: each such poll is sent.
   */
  pollEarly?:
    | ((send: () => Promise<TokenAnswer>, seconds: number) => Promise<TokenAnswer> | undefined)
    | undefined
}

/**
 * A request that waits for the owner: enough to poll it, also from another process. It is a secret of the
 * agent.
 */
export interface WaitingRequest {
  as_uri: string
  ticket: string
  kind: RequestSubmitted['kind']
  intervalSeconds: number
  signed: SignedAgreement
}

/** The parts of a running negotiation. */
interface AgentNegotiation {
  profile: Profile
  directory: Directory
  request: Omit<NegotiationRequest, 'challenge'>
  authority: AuthorityMetadata
  endpoint: TokenEndpointContext
  /** Every ticket presented so far, in their order. */
  used: Set<string>
}

/** Terms may be edited between offer and signature, and are then offered again, but only so often. */
const OFFERS_MAX = 3

/**
 * Negotiates a grant for one call: confirms the authority, checks and signs the terms, waits for the owner if
 * she is asked, and verifies receipt and grant. Fails with the authority's own refusal code, with a
 * `…_untrusted` code if two things that must agree do not, with `terms_declined`, or with
 * `waiting_timed_out`.
 */
export async function negotiate(
  profile: Profile,
  directory: Directory,
  request: NegotiationRequest,
): Promise<Accepted> {
  const negotiation = await begin(profile, directory, request)
  return conclude(negotiation, await firstAnswer(negotiation, request.challenge.ticket), undefined)
}

/**
 * Continues a request that waits for the owner. Fails like `negotiate`; and with `invalid_grant` if its
 * ticket has expired, or if another process presented it meanwhile: a new negotiation of the same agent joins
 * what waits.
 */
export async function resumeNegotiation(
  profile: Profile,
  directory: Directory,
  request: Omit<NegotiationRequest, 'challenge'> & { waiting: WaitingRequest },
): Promise<Accepted> {
  const { waiting } = request
  const negotiation = await reach(profile, directory, request)
  return conclude(negotiation, await present(negotiation, { ticket: waiting.ticket }), waiting.signed)
}

/** Withdraws a request that waits for the owner, by declining it. */
export async function withdrawRequest(
  profile: Profile,
  directory: Directory,
  request: { resource: string; call: ToolCall; waiting: WaitingRequest; signal?: AbortSignal | undefined },
): Promise<void> {
  await decline(await reach(profile, directory, request), request.waiting.ticket)
}

/** From an answer of the authority to the end of the negotiation. */
async function conclude(
  negotiation: AgentNegotiation,
  first: TokenAnswer,
  before: SignedAgreement | undefined,
): Promise<Accepted> {
  const { profile } = negotiation
  let answer = first
  let signed = before
  let deadline: number | undefined
  let pollsEarly = true
  for (let offers = 0; ;) {
    switch (answer.kind) {
      case 'need_info':
        if (++offers > OFFERS_MAX) fail('terms_untrusted', 'The terms changed with every answer.')
        signed = await agree(negotiation, answer)
        answer = await present(negotiation, {
          ticket: answer.ticket,
          claim_token: signed.claimToken,
          claim_token_format: profile.names.agreementFormat,
        })
        break
      case 'submitted':
        if (!signed) fail('answer_malformed', 'The authority asks the owner before it has seen an agreement.')
        deadline ??= performance.now() / 1000 + profile.waitSecondsMax
        await negotiation.request.onWaiting?.(waitingOf(negotiation, answer, signed))
        ;({ answer, pollsEarly } = await poll(negotiation, answer, {
          deadline,
          family: signed.template.family,
          pollsEarly,
        }))
        break
      case 'granted':
        if (!signed) fail('grant_untrusted', 'The authority granted before it had seen an agreement.')
        return acceptGrant(negotiation, { answer: answer.granted, signed })
    }
  }
}

/**
 * Asks for the terms of a challenge and declines them, which the owner finds in her ledger. Returns the
 * terms.
 */
export async function declineTerms(
  profile: Profile,
  directory: Directory,
  request: NegotiationRequest,
): Promise<TermsTemplate> {
  const negotiation = await begin(profile, directory, request)
  const answer = await firstAnswer(negotiation, request.challenge.ticket)
  if (answer.kind !== 'need_info') fail('answer_malformed', 'The authority offered no terms.')
  const template = readOffer(negotiation, answer.needed)
  profile.tell({ type: 'terms_offered', template })
  await decline(negotiation, answer.ticket)
  profile.tell({ type: 'terms_declined', template })
  return template
}

async function begin(
  profile: Profile,
  directory: Directory,
  request: NegotiationRequest,
): Promise<AgentNegotiation> {
  const { resource, challenge, signal } = request
  profile.tell({
    type: 'challenged',
    as_uri: challenge.as_uri,
    scope: challenge.scope,
    realm: challenge.realm,
  })
  const authority = await directory.authorityOf(resource, challenge, signal)
  profile.tell({
    type: 'authority_confirmed',
    as_uri: authority.issuer,
    metadata: challenge.resource_metadata,
  })
  const named = { ...request, call: namedBy(request.call, challenge) }
  return negotiationWith(profile, directory, { request: named, authority })
}

/** A negotiation continues at the authority where it began, which the resource must still name. */
async function reach(
  profile: Profile,
  directory: Directory,
  request: Omit<NegotiationRequest, 'challenge'> & { waiting: WaitingRequest },
): Promise<AgentNegotiation> {
  const authority = await directory.authorityNamed(request.resource, request.waiting.as_uri, request.signal)
  return negotiationWith(profile, directory, { request, authority })
}

function negotiationWith(
  profile: Profile,
  directory: Directory,
  { request, authority }: Pick<AgentNegotiation, 'request' | 'authority'>,
): AgentNegotiation {
  const { signal } = request
  const endpoint = {
    url: authority.tokenEndpoint,
    now: profile.now,
    signal,
    onRetry: (code: string, afterSeconds: number) => profile.tell({ type: 'retrying', code, afterSeconds }),
  }
  return { profile, directory, request, authority, endpoint, used: new Set() }
}

function present(
  negotiation: AgentNegotiation,
  presentation: Parameters<typeof presentTicket>[1],
): Promise<TokenAnswer> {
  return presentTicket(negotiation.endpoint, presentation, negotiation.used)
}

/**
 * The answer to the ticket alone. If an identity is required before any terms, it is presented once, and the
 * next answer counts.
 */
async function firstAnswer(negotiation: AgentNegotiation, ticket: string): Promise<TokenAnswer> {
  const { profile, authority, request } = negotiation
  const answer = await present(negotiation, { ticket })
  if (answer.kind !== 'need_info') return answer
  const presented = await identityToken(profile.identity, answer.needed, {
    authority: authority.issuer,
    resource: request.resource,
    tool: toolOf(request.call),
    jkt: profile.key.thumbprint,
    client_id: profile.client_id,
    allowLoopback: profile.allowLoopback,
    signal: request.signal,
  })
  if (presented === undefined) return answer
  profile.tell({ type: 'identity_presented', issuer: presented.issuer })
  const { claim_token } = presented
  return present(negotiation, { ticket: answer.ticket, claim_token, claim_token_format: ID_JAG })
}

function waitingOf(
  { authority }: AgentNegotiation,
  { ticket, submitted }: TokenAnswer & { kind: 'submitted' },
  signed: SignedAgreement,
): WaitingRequest {
  const { kind, interval: intervalSeconds } = submitted
  return { as_uri: authority.issuer, ticket, kind, intervalSeconds, signed }
}

/** Signs the terms, or declines them and fails with `terms_declined`. */
async function agree(
  negotiation: AgentNegotiation,
  answer: TokenAnswer & { kind: 'need_info' },
): Promise<SignedAgreement> {
  const { profile, request } = negotiation
  const template = readOffer(negotiation, answer.needed)
  profile.tell({ type: 'terms_offered', template })
  const confirm = request.confirm ?? profile.confirmTerms
  if (await confirm(template)) return sign(negotiation, template)
  await decline(negotiation, answer.ticket)
  profile.tell({ type: 'terms_declined', template })
  return fail('terms_declined', 'The terms were declined, so nothing was signed.')
}

async function sign(negotiation: AgentNegotiation, template: TermsTemplate): Promise<SignedAgreement> {
  const { profile, authority, request } = negotiation
  const operation = template.per_operation ? approvedOperation(request.call) : undefined
  const agent_token = await profile.agentToken()
  const claimToken = reading('request_invalid', 'The agreement cannot be signed', () =>
    signAgreement(
      {
        template,
        aud: authority.issuer,
        iat: profile.now(),
        reason: profile.reason,
        client_name: profile.client_name,
        mission: profile.mission,
        operation,
        introduction: profile.introductionTo(authority.issuer),
        answer_lost: request.answerLost === true ? true : undefined,
        agent_token,
        client_id: profile.client_id,
        signature_agent: profile.signature_agent,
      },
      profile.key,
    ),
  )
  const contract = agreementHash(claimToken)
  profile.tell({ type: 'agreement_signed', contract, operation })
  return { claimToken, compact: openClaimToken(claimToken).compact, contract, template, operation }
}

function approvedOperation(call: ToolCall): { tool: string; params: JsonObject } {
  return reading('request_invalid', 'The call cannot be approved', () => operationOf(call))
}

/** A declined negotiation ends with `request_denied`, which is then the expected answer. */
async function decline(negotiation: AgentNegotiation, ticket: string): Promise<void> {
  try {
    await present(negotiation, { ticket, decline: 'true' })
  } catch (error) {
    if (error instanceof AgentError && error.code === 'request_denied') return
    throw error
  }
  fail('answer_malformed', 'The authority went on with a negotiation that was declined.')
}

/** A poll is no longer held than a request of the agent may take. */
const HELD_SECONDS_MAX = 60

/**
 * The answer to the next poll. An authority holds a poll that is early until she decides or the interval is
 * over, so her decision arrives at once. One that answers it earlier holds none: then `pollsEarly` is false,
 * and the agent waits as long as the authority asks between polls, or for what is left of the time for
 * waiting: the last poll comes at its end, so that a decision made by then is collected.
 */
async function poll(
  negotiation: AgentNegotiation,
  { ticket, submitted }: TokenAnswer & { kind: 'submitted' },
  waiting: { deadline: number; family: string; pollsEarly: boolean },
): Promise<{ answer: TokenAnswer; pollsEarly: boolean }> {
  const { profile, request } = negotiation
  const { kind, interval: intervalSeconds, reason_shown } = submitted
  const joined = reason_shown === false ? { reasonShown: false as const } : {}
  profile.tell({ type: 'waiting', kind, family: waiting.family, intervalSeconds, ...joined })
  const left = waiting.deadline - performance.now() / 1000
  if (left <= 0) {
    fail(
      'waiting_timed_out',
      `The owner has not decided within ${profile.waitSecondsMax} s. The request still waits for her; call again to join it.`,
      { terminal: false },
    )
  }
  const isEarly = waiting.pollsEarly && intervalSeconds <= Math.min(left, HELD_SECONDS_MAX)
  const seconds = Math.min(intervalSeconds, left)
  const send = (): Promise<TokenAnswer> => present(negotiation, { ticket })
  const began = performance.now()
  const early = isEarly ? (request.pollEarly ?? sendNow)(send, intervalSeconds) : undefined
  if (early !== undefined) {
    const answer = await early
    return { answer, pollsEarly: performance.now() - began >= (intervalSeconds * 1000) / 2 }
  }
  await (request.pause?.(seconds) ?? pause(seconds, request.signal))
  return { answer: await send(), pollsEarly: waiting.pollsEarly }
}

function sendNow(send: () => Promise<TokenAnswer>): Promise<TokenAnswer> {
  return send()
}
