/**
 * What every endpoint of the authorization server is handed: its settings, its keys, its store and a clock.
 * Contract: "Parties" (owner's authorization server).
 */
import type { FastifyBaseLogger } from 'fastify'
import type { Database } from '../storage/authority/database.ts'
import type { Clock } from '../surface/clock.ts'
import type { Issuer } from '../surface/issuer.ts'
import type { AgentIssuers } from '../surface/agents/agent-issuers.ts'
import type { Announcements } from './owner/announcements.ts'
import type { OperatorDocuments } from './agents/operator-documents.ts'
import type { OrganizationClient } from './organization/client.ts'
import type { PublishedResources } from './registry/published-resources.ts'
import type { RefusalCounts } from './negotiation/refusal-counts.ts'
import type { Registry } from './registry/registry.ts'

/** Lifetimes and caps; each is a setting (docs/configuration.md). Seconds unless the name says otherwise. */
export interface Limits {
  ticketSeconds: number
  awaitingSeconds: number
  negotiationSeconds: number
  pollSeconds: number
  patSeconds: number
  reasonBytesMax: number
  trajectoryWindowSeconds: number
}

export interface Authority extends Issuer {
  readonly limits: Limits
  readonly database: Database
  /** Wakes held polls and event streams when something happened to an owner. */
  readonly announcements: Announcements
  /** Whose agent tokens are trusted, and their keys. */
  readonly issuers: AgentIssuers
  /** What operators publish. */
  readonly operators: OperatorDocuments
  /** Of which organizations owners may become members, and how they are asked. */
  readonly organizations: OrganizationClient
  readonly refusals: RefusalCounts
  /** What resources publish about themselves. */
  readonly published: PublishedResources
  /** What was pulled from resource servers, and when to pull again. */
  readonly registry: Registry
  readonly log: FastifyBaseLogger
  readonly clock: Clock
}
