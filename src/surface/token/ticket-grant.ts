/**
 * The uma-ticket grant, beats 2 to 4: one presentation spends one ticket, and the answer follows from the
 * state of its negotiation. The order of the phases is fixed and each refusal ends the negotiation. Contract:
 * "Permission ticket" (states), "need_info answer", "Token endpoint".
 */
import { nextTicketState } from '../../rules/ticket.ts'
import { needIdentity, type IdentityDemand } from '../../wire/agents/identity-claim.ts'
import { agreementFormats, ID_JAG } from '../../wire/names.ts'
import { needInfo, requestSubmitted } from '../../wire/negotiation/negotiation.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { offerTemplate, type TermsTemplate } from '../../wire/negotiation/terms.ts'
import {
  newNonce,
  newTicket,
  openTicket,
  ticketHash,
  ticketTag,
  type SealedTicket,
} from '../../wire/negotiation/ticket.ts'
import type { Issuer } from '../issuer.ts'
import { presentAgreement } from './agreement.ts'
import { denied, invalidGrant, type TokenReply } from './answers.ts'
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
 * Answers one presentation of a ticket. Throws `invalid_grant` (400) if the ticket is unknown, spent or
 * expired, which are not distinguished, and `invalid_request` if claim_token and its format do not belong
 * together.
 */
export async function negotiate<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  request: TicketRequest,
): Promise<TokenReply> {
  const { issuer, negotiations } = of
  const tag = ticketTag(request.ticket)
  if (tag === undefined) return invalidGrant()
  const sealed = openTicket(request.ticket, issuer.ticketKeys, issuer.now())
  if (sealed !== undefined && sealed.issuer === issuer.issuer) return firstPresentation(of, sealed, request)
  const owner = await negotiations.ownerOf(tag)
  if (owner === undefined) return invalidGrant()
  return laterPresentation(of, { owner, tag }, request)
}

/** Beat 2: the sealed ticket becomes a negotiation; a claim_token that is sent with it is ignored. */
async function firstPresentation<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  sealed: SealedTicket,
  request: TicketRequest,
): Promise<TokenReply> {
  const { issuer, negotiations } = of

  // 1. The state of the resource now, because a sealed ticket carries only names.
  const governed = await negotiations
    .governed(sealed, 'ticket')
    .catch(keepingTicket(async () => request.ticket))

  // 2. A decline is accepted, whatever the terms; otherwise, the terms.
  const declined = request.decline === 'true'
  const trigger = declined ? 'declined' : governed.fault === undefined ? 'presented' : 'refused'
  const offer =
    trigger === 'presented' && governed.fault === undefined ? offerOf(issuer, sealed, governed) : undefined

  // 3. The identity that must be vouched for first.
  const identity =
    offer === undefined
      ? undefined
      : await of.identities
          .requirement(sealed, offer.governed, undefined)
          .catch(keepingTicket(async () => request.ticket))

  // 4. The negotiation is opened, once, with its next ticket, which spends the sealed one.
  const next = newTicket(sealed.tag)
  const opened = await negotiations.open({
    sealed,
    state: nextTicketState('issued', trigger) as 'need_info' | 'denied' | 'ended',
    offer: identity === undefined ? offer : undefined,
    nextHash: offer === undefined ? null : next.hash,
  })
  if (!opened) return invalidGrant()

  // 5. The answer.
  if (identity !== undefined) return askForIdentity(next.ticket, identity)
  if (offer !== undefined) return askForAgreement(issuer, next.ticket, offer.template)
  const code = governed.fault === undefined ? 'denied' : governed.code
  await negotiations.tell(sealed, declined ? 'declined' : code)
  if (declined || governed.fault === undefined) return denied(DECLINED)
  return denied(governed.fault, governed)
}

/** Beat 3 and every poll: the ticket is spent first, and the rest follows the state of the negotiation. */
async function laterPresentation<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  { owner, tag }: { owner: Owner; tag: string },
  request: TicketRequest,
): Promise<TokenReply> {
  const { negotiations, decisions } = of

  // 1. The ticket is spent. If the negotiation waits, the next one is valid when this returns.
  const next = newTicket(tag)
  const family = await negotiations.spend({ owner, hash: ticketHash(request.ticket), nextHash: next.hash })
  if (family === undefined) return invalidGrant()

  // 2. The agent withdraws the request, or polls.
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

/** An outage ends no negotiation: the caller gets a ticket to continue with. */
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

/** Beat 3, or a repeat of beat 2 if no agreement came or the terms were edited since they were offered. */
async function answerTerms<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  { family, tag }: Spent<Row>,
  request: TicketRequest,
): Promise<TokenReply> {
  const { issuer, negotiations } = of

  // 1. The state of the resource now.
  const presenting = request.claim_token === undefined ? 'ticket' : 'agreement'
  const governed = await negotiations.governed(family, presenting)
  if (governed.fault !== undefined) {
    await negotiations.end(family, 'denied', governed.code)
    return denied(governed.fault, governed)
  }

  // 2. If somebody must be vouched for, asks for the assertion or accepts it; otherwise continues.
  const identity = await of.identities.requirement(family, governed, family)
  if (identity !== undefined) return answerIdentity(of, { family, tag }, { governed, identity, request })

  // 3. Continues if the offered terms are still in force and an agreement came; otherwise offers the terms
  //    (again).
  const offer = offerOf(issuer, family, governed)
  const offered = family.template
  if (request.claim_token === undefined || offered?.template_id !== offer.template.template_id)
    return askForAgreement(issuer, await nextTicket(of, { family, tag }, offer), offer.template)

  // 4. The agreement has an accepted format.
  const formats = agreementFormats(issuer)
  if (request.claim_token_format === undefined || !formats.includes(request.claim_token_format))
    refuse('invalid_request', otherFormat(request.claim_token_format, formats), {
      extra: { ticket: await nextTicket(of, { family, tag }) },
    })

  // 5. Verifies it, compares it with the offer, and decides on it.
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
      return { status: 403, body: requestSubmitted(decision.as, next.ticket, pauseOf(of), decision) }
    case 'refused':
      return denied(decision.sentence, decision)
    case 'terms-changed':
      return answerTerms(of, { family, tag }, { ticket: request.ticket })
  }
}

/** The assertion is accepted and the terms follow; if none came, it is requested. */
async function answerIdentity<Row extends Negotiation, Governed>(
  of: TicketGrant<Row, Governed>,
  { family, tag }: Spent<Row>,
  context: { governed: Standing<Governed>; identity: IdentityDemand; request: TicketRequest },
): Promise<TokenReply> {
  const { issuer, identities } = of
  const { governed, identity, request } = context

  // 1. An assertion came. (An agreement would be to terms that were offered before an assertion was
  // required.)
  const { claim_token: claimToken, claim_token_format: format } = request
  if (claimToken === undefined || (format !== undefined && agreementFormats(issuer).includes(format)))
    return askForIdentity(await nextTicket(of, { family, tag }), identity)
  if (format !== ID_JAG)
    refuse('invalid_request', otherFormat(format, [ID_JAG]), {
      extra: { ticket: await nextTicket(of, { family, tag }) },
    })

  // 2. It is verified and spent, and the same statement offers the terms.
  const next = newTicket(tag)
  const offer = offerOf(issuer, family, governed)
  const acceptance = await identities.take({ family, governed, claimToken, nextHash: next.hash, offer })
  switch (acceptance.kind) {
    case 'accepted':
      return askForAgreement(issuer, next.ticket, offer.template)
    case 'refused':
      return denied(acceptance.sentence, { reason: acceptance.reason })
    case 'gone':
      return invalidGrant()
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

/**
 * Says which format was given and which are accepted, because a client with another name for it finds out
 * only by this.
 */
function otherFormat(format: string | undefined, formats: readonly string[]): string {
  const name = format === undefined ? 'none' : JSON.stringify(format.slice(0, FORMAT_CHARS_TOLD))
  return `Send claim_token together with claim_token_format=${formats.join(' or ')}; the format given was ${name}.`
}

function askForIdentity(ticket: string, identity: IdentityDemand): TokenReply {
  return { status: 403, body: needIdentity({ ...identity, ticket }) }
}

function askForAgreement(
  { specNs, aliases }: Pick<Issuer, 'specNs' | 'aliases'>,
  ticket: string,
  template: TermsTemplate,
): TokenReply {
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
