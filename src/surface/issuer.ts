/**
 * Who speaks in whatever an authorization server says: its identifier, its keys, and the time by which it
 * signs. Contract: "Parties" (owner's authorization server), "Authorization server metadata members".
 */
import type { PrivateKey } from '../wire/keys.ts'
import type { Alias } from '../wire/names.ts'
import type { TicketKey } from '../wire/ticket.ts'

export interface Issuer {
  /** Its identifier and the base of every URL it names; no trailing slash. */
  readonly issuer: string
  readonly specNs: string
  /** Names of others that are taken, and told, beside the contract's. */
  readonly aliases: readonly Alias[]
  /** Ordered: the first signs, all are published and verified. */
  readonly keys: readonly [PrivateKey, ...PrivateKey[]]
  readonly ticketKeys: readonly [TicketKey, ...TicketKey[]]
  /** Whole seconds since the epoch, for signatures and tokens; rows are judged by the database's clock. */
  now(): number
}

/** What signing a token, or verifying one of its own, takes. */
export type Signer = Pick<Issuer, 'issuer' | 'keys' | 'now'>
