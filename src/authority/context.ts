/**
 * What every endpoint of the authorization server is handed: its settings, its keys, its store and a clock.
 * Contract: "Parties" (owner's authorization server).
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Pools } from '../storage/authority/database.ts'
import type { Clock } from '../surface/clock.ts'
import type { Issuer } from '../surface/issuer.ts'
import type { AgentIssuers } from '../surface/agents/agent-issuers.ts'
import type { Announcements } from './owner/events/announcements.ts'
import type { IdentityProviders } from './agents/identity-providers.ts'
import type { OperatorDocuments } from './agents/operator-documents.ts'
import type { CellView } from './cells/cells.ts'
import type { Clearances } from './organization/clearances.ts'
import type { OrganizationClient } from './organization/client.ts'
import type { Tallies } from './joint/tallies.ts'
import type { Checkpoints } from './ledger/checkpoints.ts'
import type { Publishers } from './registry/publishers.ts'
import type { RefusalCounts } from './negotiation/refusal-counts.ts'
import type { Quotas } from './quotas.ts'
import type { Registry } from './registry/registry.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'

/** Lifetimes and caps; each is a setting (docs/configuration.md). Seconds unless the name says otherwise. */
export interface LimitSettings {
  ticketSeconds: number
  awaitingSeconds: number
  negotiationSeconds: number
  pollSeconds: number
  patSeconds: number
  reasonBytesMax: number
  trajectoryWindowSeconds: number
  /** How many live grants one owner may have. */
  grantsPerOwner: number
}

/** Where state is, and the log of what fails there. */
export interface Store {
  readonly database: Pools
  readonly log: FastifyBaseLogger
}

/** Where state is, and what wakes held polls and event streams when something happened to an owner. */
export interface Wakeups extends Store {
  readonly announcements: Announcements
}

/** What other parties publish or answer, each read in its own way. */
export interface Documents {
  /** The issuers whose agent tokens are trusted, and their keys. */
  readonly issuers: AgentIssuers
  /** The identity providers that may vouch for the person behind an agent. */
  readonly identityProviders: IdentityProviders
  readonly operators: OperatorDocuments
  /** The organizations that owners may join, and how they are asked. */
  readonly organizations: OrganizationClient
  /** What organizations attest about her. */
  readonly clearances: Clearances
  /** The tallies under whose mandates owners may hold accounts jointly, and how they are asked. */
  readonly tallies: Tallies
  /** What resources publish about themselves, on the internet or in a trusted network. */
  readonly publishers: Publishers
  /** What was pulled from resource servers, and when to pull again. */
  readonly registry: Registry
}

/** The log that signs checkpoints of her ledger, if there are keys for it. */
export interface LedgerLog {
  /** The first signs checkpoints; empty: nothing of the log is served. */
  readonly logKeys: readonly PrivateKey[]
  /** Signs the heads of ledgers; undefined if there are no keys of the log. */
  readonly checkpoints: Checkpoints | undefined
}

/** How much an owner and her agents may have, and the counts of what was refused for it. */
export interface Limits {
  readonly limits: LimitSettings
  readonly refusals: RefusalCounts
  /** Counts what was refused because an owner had reached a limit. */
  readonly quotas: Quotas
}

/** What it takes to read a request and check who sent it. */
export interface RequestContext extends Issuer, Store, Documents {}

/** What it takes to decide a request. */
export interface DecisionContext extends RequestContext, Limits, Pick<LedgerLog, 'checkpoints'> {}

/** What the rounds need that ask organizations, or tell them something, for the owners who are due. */
export interface RoundContext extends Wakeups, Documents {}

/** All of it; what needs less takes one of the capabilities above, or `Signer`. */
export interface Authority extends Issuer, Wakeups, Documents, Limits, LedgerLog {
  /** The cell that is served, if there are several; undefined if there is one. */
  readonly cell: CellView | undefined
  readonly clock: Clock
}
