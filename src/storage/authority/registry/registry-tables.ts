/**
 * The rows of resource servers and what they registered, as Postgres holds them. Contract: "Registry
 * materialization", "Resource server establishment".
 */
import type { ColumnType, Generated } from 'kysely'
import type { NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { PublicJwk } from '../../../wire/signatures/keys.ts'
import type { Reach } from '../../../rules/organization/membership.ts'
import type { ClientId, Owner } from '../../../wire/identifiers.ts'

export type ResourceServerStatus = 'pending' | 'active' | 'revoked'

export interface ResourceServersTable {
  owner: Owner
  client_id: ClientId
  name: string
  resource_uri: string
  status: ResourceServerStatus
  auth: 'secret' | 'signature'
  secret_sha256: Buffer | null
  /** The secret before, in force until that one is used. */
  former_secret_sha256: Buffer | null
  /** The keys that the provisioning file lists for it; null if it registered itself, or has a secret. */
  client_keys: ColumnType<PublicJwk[] | null, string | null | undefined, string | null>
  /** The keys before, in force until what took their place is used. */
  former_keys: ColumnType<PublicJwk[] | null, string | null | undefined, string | null>
  registered_at: Timestamp
  decided_at: NullableTimestamp
  last_pat_issued: NullableTimestamp
  /** Each withdrawal increments it; a PAT is valid only for the generation in which it was issued. */
  generation: Generated<number>
  /** Whether its resources are pulled from what it publishes. */
  publishes: Generated<boolean>
}

/** Origins whose resource servers may not register with this owner. */
export interface BannedOriginsTable {
  owner: Owner
  origin: string
  banned_at: Timestamp
}

export interface RegistryPullsTable {
  owner: Owner
  client_id: ClientId
  attempt: number
  tried_at: Timestamp
  landed_at: NullableTimestamp
  failed_at: NullableTimestamp
  fault: string | null
  conflicts: Generated<number>
}

export interface ResourcesTable {
  owner: Owner
  resource_id: string
  client_id: ClientId
  name: string
  type: string | null
  resource_scopes: string[]
  consequence: string | null
  /**
   * The class of each tool, null if it declares none; null as a whole if the resource server does not
   * distinguish them.
   */
  tools: ColumnType<Record<string, string | null> | null, string | null | undefined, string | null>
  /** `joint`: it belongs to an account that she holds with others. */
  source: 'provisioned' | 'pulled' | 'joint'
  org: ColumnType<Reach | null, Reach | null | undefined, Reach | null>
  /** The only kind of approval that the resource accepts; null means any. */
  approval: ColumnType<'signed' | null, 'signed' | null | undefined, 'signed' | null>
}
