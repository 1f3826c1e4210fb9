/**
 * What a party provides so that agents can negotiate with it: the owners of terms, the state of a
 * negotiation, and the decision. Nothing here requires a connection or a tier. Contract: "Permission ticket",
 * "Agreement (claim_token, beat 3)".
 */
import type { IdentityDemand } from '../../wire/agents/identity-claim.ts'
import type { GrantAnswer, RequestKind } from '../../wire/negotiation/negotiation.ts'
import type { TermsTemplate, TermsVersion } from '../../wire/negotiation/terms.ts'
import type { SealedTicket } from '../../wire/negotiation/ticket.ts'
import type { AgentIssuers } from '../agents/agent-issuers.ts'
import type { Identified, Signed } from '../agents/identity.ts'
import type { Issuer } from '../issuer.ts'
import type { PollPlaces } from './poll-places.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/** The subject of a negotiation. */
export type Requested = Pick<
  SealedTicket,
  'owner' | 'family' | 'client_id' | 'resource_id' | 'resource_scopes'
>

/**
 * One negotiation as its party has stored it: the part that is the same for all parties; times in ISO 8601.
 */
export interface Negotiation extends Requested {
  /** The offer that was sent, null if none was. */
  template: TermsTemplate | null
  ticket_issued_at: string
  /** When the previous answer was given (for a held poll, the end of the hold); null for the first. */
  ticket_previous_at: string | null
  /** Set while it waits for a decision of another party than the agent; null before. */
  kind: RequestKind | null
  decision: 'approved' | 'denied' | null
}

/** The terms in force for a resource, and everything else that its party judges by. */
export type Standing<Governed> = Governed & { fault?: undefined; terms: TermsVersion }

/** Or why the request is refused, which ends the negotiation. */
export type Governing<Governed> = { fault: string; code: string; reason?: string } | Standing<Governed>

/** Why a request is refused. */
export interface Refused {
  code: string
  /** For the agent's developer. */
  sentence: string
  /** A code for it that the agent also gets, if there is one. */
  reason?: string | undefined
  /** Set if no signature was verified, so that the handle is only claimed. */
  unverified?: { handle: Handle | undefined }
  /** Stored with the reason. */
  data?: Record<string, unknown>
  /** The ledger's word for it; `refused` if left out. */
  kind?: 'identity_refused'
}

/** A party's answer to an agreement; its result has been written by then. */
export type Decision =
  | { kind: 'granted'; body: GrantAnswer }
  /**
   * It waits for a decision; the next ticket is valid from now on. `reasonShown` is false if it joined a
   * request whose reason is another.
   */
  | { kind: 'waiting'; as: RequestKind; reasonShown?: boolean | undefined }
  | { kind: 'refused'; sentence: string; reason?: string | undefined; status?: 429 }
  /** Nothing was written: the terms must be offered again. */
  | { kind: 'terms-changed' }

/**
 * A party's answer to a poll for an approval; like `Decision`, except that it has waited already. `gone`:
 * since the ticket was spent another poll collected the approval, or a repeat of the request took its place.
 */
export type Collected = Exclude<Decision, { kind: 'waiting' }> | { kind: 'gone' }

/** A verified agreement to the offer, for its party to decide on. */
export interface Agreed<Row, Governed> extends Signed {
  family: Row
  governed: Standing<Governed>
  /** The offer that it agrees to. */
  template: TermsTemplate
  /** SHA-256 of the ticket to poll with, if it must wait. */
  nextHash: Buffer
  /** How long to wait for documents of others, in ms since the epoch. */
  deadline: number
}

/** An offer as it is stored. */
export interface Offer<Governed> {
  governed: Standing<Governed>
  template: TermsTemplate
}

/** The rows of a party's negotiations. Each function that changes one is one conditional statement. */
export interface Negotiations<Row extends Negotiation, Governed> {
  /** The owner whose tickets carry this tag. */
  ownerOf(tag: string): Promise<Owner | undefined>
  /** `presenting`: what comes with the ticket; an agreement is fully judged later. */
  governed(of: Requested, presenting: 'ticket' | 'agreement'): Promise<Governing<Governed>>
  /**
   * First presentation. Without an offer, the negotiation ends with it, in the state that `state` says.
   * @returns false if the ticket was presented before.
   */
  open(first: {
    sealed: SealedTicket
    state: 'need_info' | 'denied' | 'ended'
    offer: Offer<Governed> | undefined
    nextHash: Buffer | null
  }): Promise<boolean>
  /**
   * Spends a ticket. If the negotiation waits, `nextHash` is valid from then on. Undefined if the ticket is
   * unknown, spent or expired.
   */
  spend(ticket: { owner: Owner; hash: Buffer; nextHash: Buffer }): Promise<Row | undefined>
  /**
   * Issues the next ticket of a negotiation whose last ticket was spent. @returns false if it has ended
   * meanwhile.
   */
  proceed(family: Row, nextHash: Buffer, offer?: Offer<Governed>): Promise<boolean>
  /** Whether it waits for somebody's decision, so that its tickets are polls. */
  waits(family: Row): boolean
  read(owner: Owner, family: Family): Promise<Row | undefined>
  /** Ends a negotiation in which nothing was agreed, and tells the owner why. */
  end(family: Row, state: 'denied' | 'ended', reason: string): Promise<void>
  /** Tells the owner about a negotiation that ended when it was opened. */
  tell(of: Requested, reason: string): Promise<void>
}

/** Why a request was denied, and the owner's own words about it. */
export interface Denial {
  sentence: string
  /** A code for it that the agent also gets, if there is one. */
  reason?: string | undefined
  ownerReason?: string | undefined
}

/** Who decides, and how a waiting agent gets the decision. */
export interface Decisions<Row extends Negotiation, Governed> {
  decide(agreed: Agreed<Row, Governed>): Promise<Decision>
  /**
   * Ends a negotiation because of a fault in its agreement, and tells the owner. `agent` is set if the signer
   * is known.
   */
  refuse(family: Row, agent: Identified | undefined, refused: Refused): Promise<void>
  /** Resolves when something happened to the owner, or after this many ms. */
  happened(owner: Owner, ms: number): Promise<unknown>
  /** Makes the approved grant, once, after checking again everything that it rests on. */
  collect(family: Row): Promise<Collected>
  /** Ends one that was denied. */
  deny(family: Row): Promise<Denial>
  /** The agent withdraws its waiting request. */
  withdraw(family: Row): Promise<void>
}

export interface TicketRequest {
  ticket: string
  claim_token?: string | undefined
  claim_token_format?: string | undefined
  /** `true` declines; every other value counts as absent. */
  decline?: string | undefined
}

/** The person or client who must be vouched for before terms are offered. */
export interface Identities<Row extends Negotiation, Governed> {
  /**
   * The assertion that is required now; undefined if none is required, or one was accepted. Throws
   * `temporarily_unavailable` if the party that vouches cannot be asked.
   * @param row the negotiation; undefined at its first presentation.
   */
  requirement(
    of: Requested,
    governed: Standing<Governed>,
    row: Row | undefined,
  ): Promise<IdentityDemand | undefined>
  /**
   * Accepts an assertion, once: with it the offer is stored, and `nextHash` is valid from then on. An
   * assertion that is not accepted ends the negotiation. Throws `temporarily_unavailable` if it cannot be
   * judged.
   */
  take(presented: {
    family: Row
    governed: Standing<Governed>
    claimToken: string
    nextHash: Buffer
    offer: Offer<Governed>
  }): Promise<{ kind: 'accepted' } | { kind: 'gone' } | { kind: 'refused'; sentence: string; reason: string }>
}

/** What negotiating needs; `Row` and `Governed` belong to the party, and only the party reads them. */
export interface TicketGrant<Row extends Negotiation, Governed> {
  issuer: Issuer
  agentIssuers: AgentIssuers
  negotiations: Negotiations<Row, Governed>
  decisions: Decisions<Row, Governed>
  identities: Identities<Row, Governed>
  /** The pause that polling agents are asked for; 0 means that no poll is held. */
  pollSeconds: number
  /** Where early polls are held. */
  pollPlaces: PollPlaces
  reasonBytesMax: number
}

/**
 * The pause that polling agents are asked for, in whole seconds; at least 1, even if early polls are not
 * held.
 */
export function pauseOf({ pollSeconds }: { pollSeconds: number }): number {
  return Math.max(1, pollSeconds)
}
