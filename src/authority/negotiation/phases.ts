/**
 * The uma-ticket grant, beats 2 to 4: one presentation spends one ticket, and what it gets follows from the
 * state of its negotiation. The order of the checks is fixed and each refusal ends the negotiation.
 * Contract: "Permission ticket" (states), "need_info answer", "Token endpoint".
 */
import { nextTicketState } from '../../rules/ticket.ts'
import { ownerOfTag, readOwner } from '../../storage/authority/owners.ts'
import {
  endFamily,
  openFamily,
  presentTicket,
  continueFamily,
  type FamilyRow,
  type NewFamily,
} from '../../storage/authority/tickets.ts'
import { onBehalfOf } from '../../storage/core/shares.ts'
import { specNames } from '../../wire/names.ts'
import { needInfo } from '../../wire/negotiation.ts'
import { refuse } from '../../wire/refusal.ts'
import { offerTemplate } from '../../wire/terms.ts'
import {
  newNonce,
  newTicket,
  openTicket,
  ticketHash,
  ticketTag,
  type SealedTicket,
} from '../../wire/ticket.ts'
import { presentAgreement } from './agreement.ts'
import { denied, type Answer } from './answers.ts'
import { collectOrWait, declineWaiting } from './poll.ts'
import type { Authority } from '../context.ts'
import { readGoverned, type Governed } from './governed.ts'

export interface TicketRequest {
  ticket: string
  claim_token?: string | undefined
  claim_token_format?: string | undefined
  /** `true` declines; every other value counts as absent. */
  decline?: string | undefined
}

const DECLINED = 'The terms were declined; the owner has been told. Start anew with a fresh challenge.'

/**
 * Answers one presentation of a ticket. Throws `invalid_grant` (400) where the ticket is unknown, spent or
 * expired, which are not told apart, and `invalid_request` where claim_token and its format do not belong.
 */
export async function negotiate(authority: Authority, request: TicketRequest): Promise<Answer> {
  const sealed = openTicket(request.ticket, authority.ticketKeys, authority.now())
  if (sealed !== undefined && sealed.issuer === authority.issuer)
    return onBehalfOf(sealed.owner, () => firstPresentation(authority, sealed, request))
  const tag = ticketTag(request.ticket)
  const owner = tag === undefined ? undefined : await ownerOfTag(authority.database, tag)
  if (tag === undefined || owner === undefined) return invalidGrant()
  return onBehalfOf(owner, () => laterPresentation(authority, { owner, tag }, request))
}

/** Beat 3 and every poll: the ticket is spent first, and what follows is as the negotiation stands. */
async function laterPresentation(
  authority: Authority,
  of: { owner: string; tag: string },
  request: TicketRequest,
): Promise<Answer> {
  const { family, next } = await spend(authority, of, request.ticket)
  if (family.state === 'awaiting_owner') {
    if (request.decline === 'true') return declineWaiting(authority, family, DECLINED)
    return collectOrWait(authority, family, next)
  }
  if (request.decline === 'true') return decline(authority, family)
  return withTerms(authority, family, request)
}

/** Beat 2: the sealed ticket becomes a negotiation; a claim_token sent with it is not looked at. */
async function firstPresentation(
  authority: Authority,
  sealed: SealedTicket,
  request: TicketRequest,
): Promise<Answer> {
  const { db } = authority.database
  const { owner, family, resource_id, resource_scopes, client_id } = sealed
  const governed = await readGoverned(db, sealed)
  const declined = request.decline === 'true'
  const trigger = declined ? 'declined' : governed.fault === undefined ? 'presented' : 'refused'
  const offer = trigger === 'presented' ? offered(authority, sealed, governed) : undefined
  const next = newTicket(ticketTag(request.ticket)!)
  const opened = await openFamily(db, {
    owner,
    family,
    state: nextTicketState('issued', trigger) as NewFamily['state'],
    client_id,
    resource_id,
    resource_scopes: [...resource_scopes],
    tier_id: offer?.tier_id ?? null,
    template: offer?.template ?? null,
    sealedExpiresAt: sealed.expires_at,
    ticketHash: offer === undefined ? null : next.hash,
    ticketSeconds: authority.limits.ticketSeconds,
    negotiationSeconds: authority.limits.negotiationSeconds,
  })
  if (!opened) return invalidGrant()
  if (offer !== undefined) return askForAgreement(authority, next.ticket, offer.template)
  await authority.refusals.count(owner, sealed.family, {
    reason: declined ? 'declined' : (governed.code ?? 'denied'),
  })
  return denied((declined ? undefined : governed.fault) ?? DECLINED)
}

/** Beat 3, or a repeat of beat 2 where no agreement came or the terms were edited since they were offered. */
async function withTerms(authority: Authority, family: FamilyRow, request: TicketRequest): Promise<Answer> {
  const governed = await readGoverned(authority.database.db, family)
  if (governed.fault !== undefined) return deny(authority, family, governed.code, governed.fault)
  const offer = family.template as { template_id: string } | null
  const stale = offer?.template_id !== offered(authority, family, governed).template.template_id
  if (request.claim_token === undefined || stale) return offerAgain(authority, family, governed)
  const { agreementFormat } = specNames(authority.specNs)
  if (request.claim_token_format !== agreementFormat) {
    const ticket = await rotate(authority, family)
    return refuse(
      'invalid_request',
      `Send claim_token together with claim_token_format=${agreementFormat}.`,
      {
        extra: { ticket },
      },
    )
  }
  const answer = await presentAgreement(authority, family, governed, request.claim_token)
  return answer === 'terms-changed' ? withTerms(authority, family, { ticket: request.ticket }) : answer
}

async function offerAgain(authority: Authority, family: FamilyRow, governed: Governed): Promise<Answer> {
  const offer = offered(authority, family, governed)
  const ticket = await rotate(authority, family, offer)
  return askForAgreement(authority, ticket, offer.template)
}

function askForAgreement(
  authority: Authority,
  ticket: string,
  template: ReturnType<typeof offerTemplate>,
): Answer {
  return { status: 403, body: needInfo({ specNs: authority.specNs, ticket, template }) }
}

function offered(
  authority: Authority,
  of: { resource_id: string; family: string },
  { tier }: Governed,
): { tier_id: string; template: ReturnType<typeof offerTemplate> } {
  const { resource_id, family } = of
  const template = offerTemplate(tier!.terms, {
    issuer: authority.issuer,
    resource_id,
    family,
    nonce: newNonce(),
  })
  return { tier_id: tier!.tier_id, template }
}

/** Spends a ticket that is not sealed; awaiting the owner, `next` is already valid when this returns. */
async function spend(
  authority: Authority,
  { owner, tag }: { owner: string; tag: string },
  ticket: string,
): Promise<{ family: FamilyRow; next: string }> {
  const next = newTicket(tag)
  const family = await presentTicket(authority.database.db, {
    owner,
    hash: ticketHash(ticket),
    nextHash: next.hash,
    awaitingSeconds: authority.limits.awaitingSeconds,
  })
  if (family === undefined) return invalidGrant()
  return { family, next: next.ticket }
}

/** Issues the next ticket of a negotiation whose last one was just spent. */
async function rotate(
  authority: Authority,
  family: FamilyRow,
  offer?: { tier_id: string; template: unknown },
): Promise<string> {
  const { db } = authority.database
  const { owner } = family
  const next = newTicket((await readOwner(db, owner))!.tag)
  const continued = await continueFamily(db, {
    owner,
    family: family.family,
    ticketHash: next.hash,
    ticketSeconds: authority.limits.ticketSeconds,
    ...(offer === undefined ? {} : { offer }),
  })
  return continued ? next.ticket : invalidGrant()
}

async function decline(authority: Authority, family: FamilyRow): Promise<Answer> {
  await endFamily(authority.database.db, family.owner, family.family, 'ended')
  await authority.refusals.count(family.owner, family.family, { reason: 'declined' })
  return denied(DECLINED)
}

async function deny(
  authority: Authority,
  family: FamilyRow,
  code: string | undefined,
  sentence: string,
): Promise<Answer> {
  await endFamily(authority.database.db, family.owner, family.family, 'denied')
  await authority.refusals.count(family.owner, family.family, { reason: code ?? 'denied' })
  return denied(sentence)
}

function invalidGrant(): never {
  return refuse(
    'invalid_grant',
    'The ticket is unknown, already presented or expired: make the call again for a fresh challenge.',
  )
}
