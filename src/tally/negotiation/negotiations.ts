/**
 * What a tally provides to the surface so that agents can negotiate with it: its rows, and terms folded from
 * the quotes of holders. Contract: "Permission ticket", "Terms document".
 */
import { countedMandate, coversResource, type CountedMandate } from '../../rules/joint/mandate.ts'
import {
  accountOfTag,
  readAccount,
  readResource,
  readResourceServer,
  type AccountResourceRow,
} from '../../storage/tally/accounts.ts'
import {
  continueNegotiation,
  endNegotiation,
  openNegotiation,
  presentTicket,
  readNegotiation,
  type NegotiationRow,
} from '../../storage/tally/negotiations.ts'
import { publishTerms } from '../../storage/tally/terms.ts'
import type { Governing, Negotiation, Negotiations, Requested } from '../../surface/token/negotiation.ts'
import { jointPurpose } from '../../wire/joint/mandate.ts'
import type { TallyLimits, TallyStore } from '../context.ts'
import type { Collector } from './collector.ts'
import type { Quotes } from './quotes.ts'
import type { ClientId } from '../../wire/identifiers.ts'

/** The further facts, besides the terms, by which it judges. */
export interface GovernedAccount {
  mandate: CountedMandate
  version: number
  server: { client_id: ClientId; resource_uri: string }
  resource: AccountResourceRow
}

export type TallyNegotiation = NegotiationRow & Negotiation

/** The tier name in the template ids of an account. */
export const JOINT_TIER = 'joint'

export interface Negotiating extends TallyStore {
  limits: TallyLimits
  quotes: Quotes
  collector: Collector
}

/** The negotiations of the accounts of one store. */
export function negotiationsOf(of: Negotiating): Negotiations<TallyNegotiation, GovernedAccount> {
  const { database } = of
  const { ticketSeconds, awaitingSeconds, negotiationSeconds, pollSeconds } = of.limits
  const tell = (why: { account: string; family: string; reason: string }): void =>
    of.log.info(why, 'a negotiation ended without a grant')
  return {
    ownerOf: tag => accountOfTag(database.ofNobody, tag),
    governed: request => govern(of, request),
    open: async ({ sealed, state, offer, nextHash }) =>
      openNegotiation(database.of(sealed.owner), {
        ...sealed,
        account: sealed.owner,
        state,
        version: offer?.governed.version ?? 0,
        template: offer?.template ?? null,
        sealedExpiresAt: sealed.expires_at,
        ticketHash: nextHash,
        ticketSeconds,
        negotiationSeconds,
      }),
    spend: async ({ owner, hash, nextHash }) => {
      const ticket = { account: owner, hash, nextHash, awaitingSeconds, pollSeconds }
      const row = await presentTicket(database.of(owner), ticket)
      if (row?.state === 'awaiting_holders' && row.decision === null) of.collector.goOn(row)
      return row && rowOf(row)
    },
    proceed: ({ account, family }, ticketHash, offer) =>
      continueNegotiation(database.of(account), {
        account,
        family,
        ticketHash,
        ticketSeconds,
        ...(offer && { offer: { version: offer.governed.version, template: offer.template } }),
      }),
    waits: ({ state }) => state === 'awaiting_holders',
    read: async (owner, family) => {
      const row = await readNegotiation(database.of(owner), owner, family)
      return row && rowOf(row)
    },
    end: async ({ account, family }, state, reason) => {
      await endNegotiation(database.of(account), { account, family }, state)
      tell({ account, family, reason })
    },
    tell: async ({ owner, family }, reason) => tell({ account: owner, family, reason }),
  }
}

function rowOf(row: NegotiationRow): TallyNegotiation {
  return { ...row, owner: row.account, kind: row.state === 'awaiting_holders' ? 'operation' : null }
}

const UNGOVERNED = {
  fault: 'Nothing is offered for this resource: too few of its holders have terms for it.',
  code: 'ungoverned',
}

/** The folded terms over a resource, and the mandate in force. */
async function govern(of: Negotiating, request: Requested): Promise<Governing<GovernedAccount>> {
  const { owner: account, resource_id, client_id } = request
  const db = of.database.of(account)
  const [row, server, resource] = await Promise.all([
    readAccount(db, account),
    readResourceServer(db, account, client_id),
    readResource(db, account, resource_id),
  ])
  const mandate = row && countedMandate(row.mandate)
  if (mandate === undefined || 'fault' in mandate || !coversResource(mandate, resource_id)) return UNGOVERNED
  if (server?.status !== 'active' || resource?.client_id !== client_id)
    return { fault: 'The resource is not registered (any more).', code: 'unregistered' }
  const { terms: folded, weight } = await of.quotes.folded(mandate, resource_id)
  if (folded === undefined || weight < mandate.rule.threshold || folded.scope.length === 0) return UNGOVERNED
  const terms = await publishTerms(db, {
    owner: account,
    tier_id: JOINT_TIER,
    name: `${account}, held jointly`,
    purpose: jointPurpose(account),
    scope: folded.scope,
    expires_in: folded.expires_in,
    prohibited: folded.prohibited,
    per_operation: folded.per_operation || folded.ask_me,
    holders: mandate.holders.map(({ owner, issuer }) => ({ owner, issuer })),
  })
  return { mandate, version: row!.version, server, resource, terms }
}
