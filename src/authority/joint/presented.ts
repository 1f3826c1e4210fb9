/**
 * Verifies again the agreement that a question is about: who signed it, to whom, and that it goes no further
 * than her own terms. Contract: "Tally for a jointly held resource" (`/joint/verdict`), "Agreement
 * (claim_token, beat 3)".
 */
import { agreementFault } from '../../rules/agreement.ts'
import { jointServer } from '../../rules/joint/joint.ts'
import type { JointQuestion } from '../../storage/authority/joint/joint-questions.ts'
import type { FamilyRow } from '../../storage/authority/negotiations/tickets.ts'
import { identify } from '../../surface/agents/identity.ts'
import type { Standing } from '../../surface/token/negotiation.ts'
import { encodeBase64url } from '../../wire/encoding.ts'
import type { JsonObject } from '../../wire/json.ts'
import { jointPurpose } from '../../wire/joint/mandate.ts'
import { agentIssuerPrefixes } from '../../wire/names.ts'
import type { Withheld } from '../../wire/documents/quote.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import type { VerdictRequest } from '../../wire/joint/verdict.ts'
import { withOperator } from '../agents/operators.ts'
import type { DecisionContext } from '../context.ts'
import type { Governed } from '../negotiation/governance.ts'
import type { TicketPresentation } from '../negotiation/presentation.ts'

interface AnswerContext {
  request: VerdictRequest
  question: JointQuestion
  governed: Standing<Governed>
  /** How long to wait for documents of others, in ms since the epoch. */
  deadline: number
}

/** How old an agreement may be while somebody is still asked about it. */
const AGREED_SECONDS_MAX = 7 * 86_400
const CLOCK_SECONDS = 60

/**
 * The agreement together with her records; or why it is refused before she is asked. Refuses 503 if the
 * issuer of the agent cannot be asked.
 */
export async function presentedOf(
  authority: DecisionContext,
  of: AnswerContext,
): Promise<TicketPresentation | { because: Withheld }> {
  const { request, governed, deadline } = of
  const signed = await identify(authority.issuers, encodeBase64url(request.agreement), deadline)
  if ('fault' in signed) return { because: 'terms' }
  const { claims, hash } = signed.agreement
  const template = templateOf(claims, of)
  if (hash !== request.contract || fault(authority, claims, template, request.iss) !== undefined)
    return { because: 'terms' }
  const agent = await withOperator(authority, request.owner, signed.agent, {
    otherKeys: [],
    deadline,
    agreed: claims,
  })
  return {
    family: rowOf(of, claims['scope'] as string[], template),
    governed,
    template,
    nextHash: Buffer.alloc(0),
    agreement: signed.agreement,
    agent,
    named: undefined,
  }
}

/**
 * Her own terms as an offer of the tally. The tally chooses the names of the offer, but not its purpose: that
 * is the purpose of joint terms, or her own.
 */
function templateOf(claims: JsonObject, { request, governed }: AnswerContext): TermsTemplate {
  const { terms } = governed.tier
  const textOf = (name: string): string => {
    const value = claims[name]
    return typeof value === 'string' && value !== '' ? value : ' '
  }
  return {
    template_id: textOf('template_id'),
    terms_uri: textOf('terms_uri'),
    proffered_by: textOf('proffered_by'),
    purpose: claims['purpose'] === terms.purpose ? terms.purpose : jointPurpose(request.account),
    nonce: textOf('nonce'),
    scope: [...terms.scope],
    expires_in: terms.expires_in,
    prohibited: [...terms.prohibited],
    resource_id: request.resource_id,
    family: request.negotiation,
    ...(terms.per_operation ? { per_operation: true as const } : {}),
  }
}

/**
 * Why it is refused. It was signed up to seven days ago, so its time is judged here; and it must itself name
 * the resource it is about, because otherwise a tally could name any.
 */
function fault(
  { now, limits, aliases }: DecisionContext,
  claims: JsonObject,
  template: TermsTemplate,
  tally: string,
): string | undefined {
  const { iat } = claims
  const at = now()
  if (typeof iat !== 'number' || iat > at + CLOCK_SECONDS || iat < at - AGREED_SECONDS_MAX)
    return 'iat: agree anew.'
  if (claims['resource_id'] !== template.resource_id) return 'resource_id: name the resource.'
  const echoes = { proffered_by: claims['proffered_by'] ?? template.proffered_by }
  return agreementFault({ ...claims, ...echoes }, template, {
    issuer: tally,
    now: iat,
    maxReasonBytes: limits.reasonBytesMax,
    agentIssuerPrefixes: agentIssuerPrefixes(aliases),
  })
}

/** The question in the form of a negotiation with her, as weighing and asking read one. */
function rowOf(
  { request, question, governed }: AnswerContext,
  scopes: string[],
  template: TermsTemplate,
): FamilyRow {
  const { owner, account, resource_id } = request
  const { family, asked_at } = question
  return {
    owner,
    family,
    state: 'need_info',
    client_id: jointServer(account),
    resource_id,
    resource_scopes: scopes,
    tier_id: governed.tier.tier_id,
    template,
    opened_at: asked_at,
    negotiation_expires_at: asked_at,
    ticket_issued_at: asked_at,
    ticket_previous_at: null,
    ticket_expires_at: asked_at,
    kind: null,
    handle: null,
    operator: null,
    attested: null,
    params_key: null,
    requested_at: null,
    held: null,
    item: null,
    decision: null,
    decided_by: null,
    decided_actor: null,
    decided_at: null,
    generation: null,
    denial_reason: null,
    owner_decision: null,
    identity: null,
  }
}
