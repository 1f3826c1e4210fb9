/**
 * The context of every endpoint of an organization. Contract: "The organization's authority".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { OrganizationPoint } from '../config/provisioning/organization-file.ts'
import type { Administrator } from '../credentials/administrators.ts'
import type { AttemptLimit } from '../credentials/attempt-limit.ts'
import type { AcceptedCredentials } from '../credentials/presentation.ts'
import type { RealmKeys } from '../credentials/realm-keys.ts'
import type { JwksCache } from '../http/outbound/jwks-cache.ts'
import type { SecurityLog } from '../http/telemetry/security-log.ts'
import type { SignatureBase } from '../http/servers/signed-request.ts'
import type { Pools } from '../storage/organization/database.ts'
import type { Clock } from '../surface/clock.ts'
import type { OrganizationAlias } from '../wire/names.ts'
import type { MemberServers } from './admin/member-servers.ts'
import type { NoticeSender } from './notices/sender.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'

/** Where state is, and the log of what fails there. */
export interface OrganizationStore {
  readonly database: Pools
  readonly log: FastifyBaseLogger
}

/** Who it is to its members. */
export interface OrganizationIdentity {
  readonly issuer: string
  readonly id: string
  /** What members see. */
  readonly name: string
}

/** With what it signs, and the time by which it signs. */
export interface OrganizationSigner extends OrganizationIdentity {
  /** The keys in order: the first signs, all are published and verify. */
  readonly keys: readonly [PrivateKey, ...PrivateKey[]]
  readonly clock: Clock
  /** Whole seconds since the epoch, for signatures and tokens; rows are judged by the database's clock. */
  readonly now: () => number
}

/** All of it; what needs less takes one of the capabilities above. */
export interface Organization extends OrganizationStore, OrganizationSigner {
  /** Names that are accepted beside the contract's. */
  readonly aliases: readonly OrganizationAlias[]
  readonly security: SecurityLog
  /** The authority that every caller's signature covers. */
  readonly base: SignatureBase
  readonly invitationSeconds: number
  /** The issuers whose owners may join. */
  readonly authorities: readonly string[]
  /** What those publish. */
  readonly authorityKeys: JwksCache
  readonly enforcementPoints: readonly OrganizationPoint[]
  /** The published keys of enforcement points that prove themselves with keys. */
  readonly enforcementKeys: JwksCache
  /** The documents of an identity provider, by its issuer: fetched only from public addresses. */
  readonly identityKeys: (issuer: string) => RealmKeys
  /** Notifies members' authorities of what happened to a member. */
  readonly notices: NoticeSender
  /** The limit on codes that were not good. */
  readonly attempts: AttemptLimit
}

export interface Administration extends Organization {
  /** Sends administrators' acts on agents to the members' servers, which carry them out. */
  readonly members: MemberServers
  readonly accepted: AcceptedCredentials
  readonly administrators: readonly Administrator[]
}
