/**
 * What an authority hands to the surface for agents to negotiate with: its rows of negotiations, its tiers,
 * its owner's decision. Contract: "Permission ticket", "Token endpoint".
 */
import { ownerOfTag } from '../../storage/authority/owners.ts'
import {
  continueFamily,
  endFamily,
  openFamily,
  presentTicket,
  readFamily,
  type FamilyRow,
} from '../../storage/authority/tickets.ts'
import type { Decisions, Negotiations } from '../../surface/token/negotiation.ts'
import type { Authority } from '../context.ts'
import { collect, denyWaiting, withdrawWaiting } from './collection.ts'
import { decide, type Deciding } from './decision.ts'
import { readGoverned, type Governed } from './governance.ts'
import { refuseAgreement } from './presentation.ts'

/** How long each part of a negotiation may take, in seconds. */
type Lifetimes = Pick<
  Authority['limits'],
  'ticketSeconds' | 'awaitingSeconds' | 'negotiationSeconds' | 'pollSeconds'
>

/** The negotiations of the owners of one store, over their tiers. */
export function negotiationsOf(
  { database, refusals }: Pick<Authority, 'database' | 'refusals'>,
  { ticketSeconds, awaitingSeconds, negotiationSeconds, pollSeconds }: Lifetimes,
): Negotiations<FamilyRow, Governed> {
  const { db } = database
  return {
    ownerOf: tag => ownerOfTag(database, tag),
    governed: of => readGoverned(db, of),
    open: ({ sealed, state, offer, nextHash }) =>
      openFamily(db, {
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
    spend: ticket => presentTicket(db, { ...ticket, awaitingSeconds, pollSeconds }),
    proceed: ({ owner, family }, ticketHash, offer) =>
      continueFamily(db, {
        owner,
        family,
        ticketHash,
        ticketSeconds,
        ...(offer && { offer: { tier_id: offer.governed.tier.tier_id, template: offer.template } }),
      }),
    waits: ({ state }) => state === 'awaiting_owner',
    read: (owner, family) => readFamily(db, owner, family),
    end: async ({ owner, family }, state, reason) => {
      await endFamily(db, owner, family, state)
      await refusals.count(owner, family, { reason })
    },
    tell: ({ owner, family }, reason) => refusals.count(owner, family, { reason }),
  }
}

/** The owner decides, by her tiers or in person. */
export function decisionsOf(
  authority: Deciding & Pick<Authority, 'announcements'>,
): Decisions<FamilyRow, Governed> {
  const { db } = authority.database
  return {
    decide: agreed => decide(authority, agreed),
    refuse: async (family, agent, refused) => {
      await refuseAgreement(authority, family, agent, refused)
    },
    happened: (owner, ms) => authority.announcements.next(owner, ms),
    collect: family => collect(authority, family),
    deny: family => denyWaiting(db, family),
    withdraw: family => withdrawWaiting(db, family),
  }
}
