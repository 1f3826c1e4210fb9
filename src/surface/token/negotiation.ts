/**
 * What a party hands in so that agents negotiate with it: whose terms are offered, where a negotiation
 * stands, who decides. Nothing here presupposes a connection or a tier. Contract: "Permission ticket",
 * "Agreement (claim_token, beat 3)".
 */
import type { GrantAnswer, RequestKind } from '../../wire/negotiation.ts'
import type { TermsTemplate, TermsVersion } from '../../wire/terms.ts'
import type { SealedTicket } from '../../wire/ticket.ts'
import type { AgentIssuers } from '../agents/agent-issuers.ts'
import type { Identified, Signed } from '../agents/identity.ts'
import type { Issuer } from '../issuer.ts'
import type { OnBehalfOf } from '../resource-servers.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/** What is negotiated about. */
export type Requested = Pick<
  SealedTicket,
  'owner' | 'family' | 'client_id' | 'resource_id' | 'resource_scopes'
>

/** One negotiation as its party has stored it, as far as it is the same for all; times in ISO 8601. */
export interface Negotiation extends Requested {
  /** The offer that was sent, null where none was. */
  template: TermsTemplate | null
  ticket_issued_at: string
  /**
   * When the answer before it was given: a poll that was held counts from the end of that; null for the
   * first.
   */
  ticket_previous_at: string | null
  /** What waits for a decision that is not the agent's: null before it does. */
  kind: RequestKind | null
  decision: 'approved' | 'denied' | null
}

/** The terms that stand over a resource now, and whatever else its party judges by. */
export type Standing<Governed> = Governed & { fault?: undefined; terms: TermsVersion }

/** Or why nobody is let in, which ends the negotiation. */
export type Governing<Governed> = { fault: string; code: string } | Standing<Governed>

/** Why a request is refused. */
export interface Refused {
  code: string
  /** For the agent's developer. */
  sentence: string
  /** Set where nobody's signature was verified, so that the handle is only claimed. */
  unverified?: { handle: Handle | undefined }
  /** Kept beside the reason. */
  data?: Record<string, unknown>
}

/** What a party answers to an agreement; whatever it comes to is written by then. */
export type Decision =
  | { kind: 'granted'; body: GrantAnswer }
  /** It waits for somebody; the next ticket is good from now on. */
  | { kind: 'waiting'; as: RequestKind }
  | { kind: 'refused'; sentence: string; status?: 429 }
  /** Nothing was written: the terms are to be offered anew. */
  | { kind: 'terms-changed' }

/** What a party answers to whoever comes for an approval; as `Decision`, but that it has waited already. */
export type Collected = Exclude<Decision, { kind: 'waiting' }>

/** A verified agreement to what was offered, for its party to decide on. */
export interface Agreed<Row, Governed> extends Signed {
  family: Row
  governed: Standing<Governed>
  /** The offer that it agrees to. */
  template: TermsTemplate
  /** SHA-256 of the ticket to poll with, where it is to wait. */
  nextHash: Buffer
  /** All that documents of others may be waited for, in ms since the epoch. */
  deadline: number
}

/** An offer as it is stored. */
export interface Offer<Governed> {
  governed: Standing<Governed>
  template: TermsTemplate
}

/** The rows of a party's negotiations. Each function that moves one is one conditional statement. */
export interface Negotiations<Row extends Negotiation, Governed> {
  /** Whose tickets carry this tag. */
  ownerOf(tag: string): Promise<Owner | undefined>
  governed(of: Requested): Promise<Governing<Governed>>
  /**
   * First presentation. Without an offer the negotiation ends with it, as `state` says.
   * @returns false where the ticket was presented before.
   */
  open(first: {
    sealed: SealedTicket
    state: 'need_info' | 'denied' | 'ended'
    offer: Offer<Governed> | undefined
    nextHash: Buffer | null
  }): Promise<boolean>
  /**
   * Spends a ticket; of one that waits, `nextHash` is good from then on. Unknown, spent and expired are
   * undefined.
   */
  spend(ticket: { owner: Owner; hash: Buffer; nextHash: Buffer }): Promise<Row | undefined>
  /** Issues the next ticket of one whose last was spent. @returns false where it has ended meanwhile. */
  proceed(family: Row, nextHash: Buffer, offer?: Offer<Governed>): Promise<boolean>
  /** Whether it waits for somebody's decision, so that its tickets are polls. */
  waits(family: Row): boolean
  read(owner: Owner, family: Family): Promise<Row | undefined>
  /** Ends one in which nothing was agreed, and tells the owner why. */
  end(family: Row, state: 'denied' | 'ended', reason: string): Promise<void>
  /** Tells the owner of one that ended as it was opened. */
  tell(of: Requested, reason: string): Promise<void>
}

/** Who decides, and how an agent that waits comes by it. */
export interface Decisions<Row extends Negotiation, Governed> {
  decide(agreed: Agreed<Row, Governed>): Promise<Decision>
  /**
   * Ends a negotiation for a fault of its agreement, and tells the owner. `agent` where it is known who
   * signed.
   */
  refuse(family: Row, agent: Identified | undefined, refused: Refused): Promise<void>
  /** Resolves when something happened to the owner, or after so many ms. */
  happened(owner: Owner, ms: number): Promise<unknown>
  /** Makes the grant that was approved, once, after looking again at all it rests on. */
  collect(family: Row): Promise<Collected>
  /** Ends one that was denied. @returns the sentence that says why. */
  deny(family: Row): Promise<string>
  /** The agent takes back what waits. */
  withdraw(family: Row): Promise<void>
}

export interface TicketRequest {
  ticket: string
  claim_token?: string | undefined
  claim_token_format?: string | undefined
  /** `true` declines; every other value counts as absent. */
  decline?: string | undefined
}

/** What negotiating takes; `Row` and `Governed` are the party's own, and looked at by nobody but it. */
export interface TicketGrant<Row extends Negotiation, Governed> {
  issuer: Issuer
  onBehalfOf: OnBehalfOf
  agentIssuers: AgentIssuers
  negotiations: Negotiations<Row, Governed>
  decisions: Decisions<Row, Governed>
  /** The pause asked of agents that poll; 0: none is held back. */
  pollSeconds: number
  reasonBytesMax: number
}

/**
 * The pause asked of polling agents, in whole seconds: never none, also where early polls are not held back.
 */
export function pauseOf({ pollSeconds }: { pollSeconds: number }): number {
  return Math.max(1, pollSeconds)
}
