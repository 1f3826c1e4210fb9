/**
 * The uma-ticket grant, beats 2 to 4: one presentation spends one ticket, and what it gets follows from the
 * state of its negotiation. The order of the phases is fixed and each refusal ends the negotiation.
 * Contract: "Permission ticket" (states), "need_info answer", "Token endpoint".
 */
import { nextTicketState } from '../../rules/ticket.ts'
import { agreementFormats } from '../../wire/names.ts'
import { needInfo, requestSubmitted } from '../../wire/negotiation.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { offerTemplate, type TermsTemplate } from '../../wire/terms.ts'
import {
  newNonce,
  newTicket,
  openTicket,
  ticketHash,
  ticketTag,
  type SealedTicket,
} from '../../wire/ticket.ts'
import type { Issuer } from '../issuer.ts'
import { presentAgreement } from './agreement.ts'
import { denied, type Answer } from './answers.ts'
import {
  pauseOf,
  type Negotiation,
  type Offer,
  type Requested,
  type Standing,
  type TicketGrant,
  type TicketRequest,
} from './negotiation.ts'
import { collectOrWait } from './poll.ts'
import type { Owner } from '../../wire/identifiers.ts'

/** The presented ticket of a running negotiation, spent. */
interface Spent<Row> {
  family: Row
  /** The tag of the owner's tickets. */
  tag: string
}

const DECLINED = 'The terms were declined; the owner has been told. Start anew with a fresh challenge.'

/**
 * Answers one presentation of a ticket. Throws `invalid_grant` (400) where the ticket is unknown, spent or
 * expired, which are not told apart, and `invalid_request` where claim_token and its format do not belong.
 */
export async function negotiate<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  request: TicketRequest,
): Promise<Answer> {
  const { issuer, negotiations, onBehalfOf } = of
  const tag = ticketTag(request.ticket)
  if (tag === undefined) return invalidGrant()
  const sealed = openTicket(request.ticket, issuer.ticketKeys, issuer.now())
  if (sealed !== undefined && sealed.issuer === issuer.issuer)
    return onBehalfOf(sealed.owner, () => firstPresentation(of, sealed, request))
  const owner = await negotiations.ownerOf(tag)
  if (owner === undefined) return invalidGrant()
  return onBehalfOf(owner, () => laterPresentation(of, { owner, tag }, request))
}

/** Beat 2: the sealed ticket becomes a negotiation; a claim_token sent with it is not looked at. */
async function firstPresentation<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  sealed: SealedTicket,
  request: TicketRequest,
): Promise<Answer> {
  const { issuer, negotiations } = of

  // 1. What stands over the resource now: a sealed ticket carries only names.
  const governed = await negotiations.governed(sealed).catch(keepingTicket(async () => request.ticket))

  // 2. The terms, unless the agent declines whatever they are.
  const declined = request.decline === 'true'
  const trigger = declined ? 'declined' : governed.fault === undefined ? 'presented' : 'refused'
  const offer =
    trigger === 'presented' && governed.fault === undefined ? offerOf(issuer, sealed, governed) : undefined

  // 3. The negotiation is opened, once, with its next ticket; the sealed one is spent by that.
  const next = newTicket(sealed.tag)
  const opened = await negotiations.open({
    sealed,
    state: nextTicketState('issued', trigger) as 'need_info' | 'denied' | 'ended',
    offer,
    nextHash: offer === undefined ? null : next.hash,
  })
  if (!opened) return invalidGrant()

  // 4. The answer.
  if (offer !== undefined) return askForAgreement(issuer, next.ticket, offer.template)
  const code = governed.fault === undefined ? 'denied' : governed.code
  await negotiations.tell(sealed, declined ? 'declined' : code)
  return denied((declined ? undefined : governed.fault) ?? DECLINED)
}

/** Beat 3 and every poll: the ticket is spent first, and what follows is as the negotiation stands. */
async function laterPresentation<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  { owner, tag }: { owner: Owner; tag: string },
  request: TicketRequest,
): Promise<Answer> {
  const { negotiations, decisions } = of

  // 1. The ticket is spent; of a negotiation that waits, the next one is good when this returns.
  const next = newTicket(tag)
  const family = await negotiations.spend({ owner, hash: ticketHash(request.ticket), nextHash: next.hash })
  if (family === undefined) return invalidGrant()

  // 2. The agent takes it back, or polls.
  const declines = request.decline === 'true'
  if (negotiations.waits(family)) {
    if (!declines) return collectOrWait(of, family, next.ticket).catch(keepingTicket(async () => next.ticket))
    await decisions.withdraw(family)
    return denied(DECLINED)
  }
  if (declines) {
    await negotiations.end(family, 'ended', 'declined')
    return denied(DECLINED)
  }

  // 3. It answers the terms.
  return answerTerms(of, { family, tag }, request).catch(keepingTicket(() => nextTicket(of, { family, tag })))
}

/** An outage ends no negotiation: whoever meets one is told the ticket with which it goes on. */
function keepingTicket(ticket: () => Promise<string>): (error: unknown) => Promise<never> {
  return async error => {
    if (!(error instanceof Refusal) || error.code !== 'temporarily_unavailable') throw error
    const { code, detail, status, headers = {}, extra } = error
    throw new Refusal(code, detail, {
      status,
      headers,
      extra: { ...extra, ticket: await ticket() },
      cause: error,
    })
  }
}

/** Beat 3, or a repeat of beat 2 where no agreement came or the terms were edited since they were offered. */
async function answerTerms<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  { family, tag }: Spent<Row>,
  request: TicketRequest,
): Promise<Answer> {
  const { issuer, negotiations } = of

  // 1. What stands over the resource now.
  const governed = await negotiations.governed(family)
  if (governed.fault !== undefined) {
    await negotiations.end(family, 'denied', governed.code)
    return denied(governed.fault)
  }

  // 2. The terms that were offered stand still, and an agreement came; else they are offered, again.
  const offer = offerOf(issuer, family, governed)
  const offered = family.template
  if (request.claim_token === undefined || offered?.template_id !== offer.template.template_id)
    return askForAgreement(issuer, await nextTicket(of, { family, tag }, offer), offer.template)

  // 3. In a format that is taken.
  const formats = agreementFormats(issuer)
  if (request.claim_token_format === undefined || !formats.includes(request.claim_token_format))
    refuse('invalid_request', otherFormat(request.claim_token_format, formats), {
      extra: { ticket: await nextTicket(of, { family, tag }) },
    })

  // 4. It is verified, held against the offer, and decided on.
  const next = newTicket(tag)
  const decision = await presentAgreement(of, {
    family,
    governed,
    template: offered,
    nextHash: next.hash,
    claimToken: request.claim_token,
  })
  switch (decision.kind) {
    case 'granted':
      return { status: 200, body: decision.body }
    case 'waiting':
      return { status: 403, body: requestSubmitted(decision.as, next.ticket, pauseOf(of)) }
    case 'refused':
      return denied(decision.sentence, decision.status)
    case 'terms-changed':
      return answerTerms(of, { family, tag }, { ticket: request.ticket })
  }
}

function offerOf<Governed>(
  { issuer }: Pick<Issuer, 'issuer'>,
  { resource_id, family }: Requested,
  governed: Standing<Governed>,
): Offer<Governed> {
  const template = offerTemplate(governed.terms, { issuer, resource_id, family, nonce: newNonce() })
  return { governed, template }
}

const FORMAT_CHARS_TOLD = 120

/** Which format was given and which are taken: who has another name for it finds out by this alone. */
function otherFormat(given: string | undefined, taken: readonly string[]): string {
  const told = given === undefined ? 'none' : JSON.stringify(given.slice(0, FORMAT_CHARS_TOLD))
  return `Send claim_token together with claim_token_format=${taken.join(' or ')}; the format given was ${told}.`
}

function askForAgreement(
  { specNs, aliases }: Pick<Issuer, 'specNs' | 'aliases'>,
  ticket: string,
  template: TermsTemplate,
): Answer {
  return { status: 403, body: needInfo({ specNs, aliases, ticket, template }) }
}

/** Issues the next ticket of a negotiation whose last one was just spent. */
async function nextTicket<Row extends Negotiation, Governed>(
  { negotiations }: Pick<TicketGrant<Row, Governed>, 'negotiations'>,
  { family, tag }: Spent<Row>,
  offer?: Offer<Governed>,
): Promise<string> {
  const next = newTicket(tag)
  return (await negotiations.proceed(family, next.hash, offer)) ? next.ticket : invalidGrant()
}

function invalidGrant(): never {
  return refuse(
    'invalid_grant',
    'The ticket is unknown, already presented or expired: make the call again for a fresh challenge.',
  )
}
