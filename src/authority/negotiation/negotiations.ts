/**
 * What an authority provides to the surface so that agents can negotiate with it: its rows of negotiations,
 * its tiers, its owner's decision. Contract: "Permission ticket", "Token endpoint".
 */
import type { CountedRefusal } from '../../storage/authority/ledger/ledger.ts'
import { ownerOfTag } from '../../storage/authority/owners/owners.ts'
import {
  continueFamily,
  endFamily,
  openFamily,
  presentTicket,
  readFamily,
  type FamilyRow,
} from '../../storage/authority/negotiations/tickets.ts'
import { REMOTE_MS_MAX } from '../../surface/agents/identity.ts'
import type { Decisions, Negotiations } from '../../surface/token/negotiation.ts'
import type { Authority, DecisionContext, Documents, Limits, Store, Wakeups } from '../context.ts'
import { collect, denyWaiting, withdrawWaiting } from './collection.ts'
import { answerAgreement } from './agreement-answer.ts'
import { CLEARANCE_UNMET, type Governed } from './governance.ts'
import { IDENTITY_CODES, readVouched } from './identity.ts'
import { isCleared } from './organization.ts'
import { refuseAgreement } from './presentation.ts'

/** How long each part of a negotiation may take, in seconds. */
type Lifetimes = Pick<
  Authority['limits'],
  'ticketSeconds' | 'awaitingSeconds' | 'negotiationSeconds' | 'pollSeconds'
>

/** The negotiations of the owners of one store, over their tiers. */
export function negotiationsOf(
  authority: Store & Documents & Limits,
  { ticketSeconds, awaitingSeconds, negotiationSeconds, pollSeconds }: Lifetimes,
): Negotiations<FamilyRow, Governed> {
  const { database, refusals } = authority
  return {
    ownerOf: tag => ownerOfTag(database, tag),
    governed: async (of, presenting) => {
      const governed = await readVouched(authority, database.of(of.owner), of)
      // An agreement is weighed with an answer that carries its own attestation.
      if (governed.fault !== undefined || presenting === 'agreement') return governed
      return (await isCleared(authority, governed, Date.now() + REMOTE_MS_MAX)) ? governed : CLEARANCE_UNMET
    },
    open: ({ sealed, state, offer, nextHash }) =>
      openFamily(database.of(sealed.owner), {
        owner: sealed.owner,
        family: sealed.family,
        state,
        client_id: sealed.client_id,
        resource_id: sealed.resource_id,
        resource_scopes: [...sealed.resource_scopes],
        tier_id: offer?.governed.tier.tier_id ?? null,
        template: offer?.template ?? null,
        sealedExpiresAt: sealed.expires_at,
        ticketHash: nextHash,
        ticketSeconds,
        negotiationSeconds,
      }),
    spend: ticket => presentTicket(database.of(ticket.owner), { ...ticket, awaitingSeconds, pollSeconds }),
    proceed: ({ owner, family }, ticketHash, offer) =>
      continueFamily(database.of(owner), {
        owner,
        family,
        ticketHash,
        ticketSeconds,
        ...(offer && { offer: { tier_id: offer.governed.tier.tier_id, template: offer.template } }),
      }),
    waits: ({ state }) => state === 'awaiting_owner',
    read: (owner, family) => readFamily(database.of(owner), owner, family),
    end: async ({ owner, family }, state, reason) => {
      await endFamily(database.of(owner), owner, family, state)
      await refusals.count(owner, family, countedAs(reason))
    },
    tell: ({ owner, family }, reason) => refusals.count(owner, family, countedAs(reason)),
  }
}

/** A refusal that is about the caller is recorded so. */
function countedAs(reason: string): CountedRefusal {
  return IDENTITY_CODES.has(reason) ? { kind: 'identity_refused', reason } : { reason }
}

/** The owner decides, by her tiers or in person. */
export function decisionsOf(authority: DecisionContext & Wakeups): Decisions<FamilyRow, Governed> {
  const { database } = authority
  return {
    decide: agreed => answerAgreement(authority, agreed),
    refuse: async (family, agent, refused) => {
      await refuseAgreement(authority, family, agent, refused)
    },
    happened: (owner, ms) => authority.announcements.next(owner, ms),
    collect: family => collect(authority, family),
    deny: family => denyWaiting(database.of(family.owner), family),
    withdraw: family => withdrawWaiting(database.of(family.owner), family),
  }
}
