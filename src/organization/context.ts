/**
 * What every endpoint of an organization is handed. Contract: "The organization's authority".
 */
import type { FastifyBaseLogger } from 'fastify'
import type { AttemptLimit } from '../credentials/attempt-limit.ts'
import type { AcceptedCredentials } from '../credentials/presentation.ts'
import type { RealmKeys } from '../credentials/realm-keys.ts'
import type { JwksCache } from '../http/jwks-cache.ts'
import type { SignatureBase } from '../http/signed-request.ts'
import type { Database } from '../storage/organization/database.ts'
import type { Clock } from '../surface/clock.ts'
import type { Owner } from '../wire/identifiers.ts'
import type { OrganizationAlias } from '../wire/names.ts'
import type { NoticeSender } from './notices/sender.ts'
import type { PrivateKey, PublicKey } from '../wire/keys.ts'

/** Somebody who may use the administration: as the provisioning file says now. */
export interface Administrator {
  readonly name: string
  readonly keys: readonly PublicKey[]
  /** Who he is at the realm. */
  readonly subjects: readonly string[]
}

/** Who enforces, and what, as the provisioning file says now. It proves itself in exactly one way. */
export interface EnforcementPoint {
  readonly id: string
  /** Whose each RFC 9728 `resource` is. */
  readonly resources: ReadonlyMap<string, Owner>
  readonly proof: { kind: 'keys'; jwks_uri: string } | { kind: 'credential'; sha256: Buffer }
}

export interface Organization {
  readonly issuer: string
  readonly id: string
  /** What members are shown. */
  readonly name: string
  /** Names of others that are taken beside the contract's. */
  readonly aliases: readonly OrganizationAlias[]
  /** Ordered: the first signs, all are published and verified. */
  readonly keys: readonly [PrivateKey, ...PrivateKey[]]
  readonly database: Database
  readonly log: FastifyBaseLogger
  readonly clock: Clock
  /** Whole seconds since the epoch, for signatures and tokens; rows are judged by the database's clock. */
  now(): number
  /** What is signed over, by whomever. */
  readonly base: SignatureBase
  readonly invitationSeconds: number
  /** Issuers whose owners may join. */
  readonly authorities: readonly string[]
  /** What those publish. */
  readonly authorityKeys: JwksCache
  readonly enforcementPoints: readonly EnforcementPoint[]
  /** What those publish that prove themselves by keys. */
  readonly enforcementKeys: JwksCache
  /** What an identity provider publishes, by its issuer: fetched from public addresses alone. */
  readonly identityKeys: (issuer: string) => RealmKeys
  /** Tells those what happened to a member. */
  readonly notices: NoticeSender
  /** Of codes that were not good. */
  readonly attempts: AttemptLimit
}

/** What the administration is handed. */
export interface Administration extends Organization {
  readonly accepted: AcceptedCredentials
  readonly administrators: readonly Administrator[]
}
