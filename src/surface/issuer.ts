/**
 * The identity of an authorization server: its identifier, its keys, and the time by which it signs.
 * Contract: "Parties" (owner's authorization server), "Authorization server metadata members".
 */
import type { PrivateKey } from '../wire/signatures/keys.ts'
import type { Alias, TallyAlias } from '../wire/names.ts'
import type { Owner } from '../wire/identifiers.ts'
import type { LedgerHead } from '../wire/ledger/ledger-head.ts'
import type { TicketKey } from '../wire/negotiation/ticket.ts'

export interface Issuer {
  /** Its identifier and the base of every URL it names; no trailing slash. */
  readonly issuer: string
  readonly specNs: string
  /** Names that are accepted, and published, besides the contract's. */
  readonly aliases: readonly (Alias | TallyAlias)[]
  /** The keys in order: the first signs, all are published and verify. */
  readonly keys: readonly [PrivateKey, ...PrivateKey[]]
  readonly ticketKeys: readonly [TicketKey, ...TicketKey[]]
  /** Whole seconds since the epoch, for signatures and tokens; rows are judged by the database's clock. */
  readonly now: () => number
}

/** The heads of owners' ledgers that documents about them carry; a party without a log has none. */
export interface HourHeadSource {
  readonly checkpoints?: { readonly headOfHour: (owner: Owner) => LedgerHead | undefined } | undefined
}

/** What is needed to sign a token, or to verify one of its own. */
export type Signer = Pick<Issuer, 'issuer' | 'keys' | 'now'>
