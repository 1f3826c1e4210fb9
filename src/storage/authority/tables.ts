/**
 * The rows, as Postgres holds them (migrations/authority makes the tables). Column names are the wire's own
 * names. Contract: "Resources and their fields", "States and transitions".
 */
import type { ColumnType, Generated, RawBuilder } from 'kysely'
import type { GrantClaims } from '../../rules/grant-content.ts'
import type { Cut } from '../../rules/envelope.ts'
import type { MemberView } from '../../rules/member-view.ts'
import type { Reach } from '../../rules/membership.ts'
import type { Actor } from '../../wire/actor.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'
import type { TermsTemplate } from '../../wire/terms.ts'
import type { GrantBasis, ShownItem } from './grant-basis.ts'
import type {
  BannedOriginsTable,
  NullableTimestamp,
  RegistryPullsTable,
  ResourcesTable,
  ResourceServersTable,
  Timestamp,
} from './registry-tables.ts'

export type * from './registry-tables.ts'

/** Stored as `json`, not `jsonb`: agents author some of it, and jsonb refuses \u0000 and rewrites numbers. */
type Json<T> = ColumnType<T, string, string>

export interface DirectoryTable {
  kind: 'tag' | 'device_key' | 'login' | 'name'
  key: string
  owner: Owner
}

export interface OwnersTable {
  owner: Owner
  tag: string
  created_at: Timestamp
}

export interface NamespacesTable {
  owner: Owner
  namespace: string
}

export interface QueuesTable {
  owner: Owner
}

export interface DeviceKeysTable {
  owner: Owner
  kid: string
  jwk: Json<Record<string, unknown>>
  name: string
  enrolled_at: Timestamp
  revoked_at: NullableTimestamp
}

export interface LoginsTable {
  owner: Owner
  id: string
  issuer: string
  subject: string
  name: string
  bound_at: Timestamp
}

export interface EnrolmentCodesTable {
  owner: Owner
  code_sha256: Buffer
  created_at: Timestamp
  expires_at: Timestamp
}

export interface SpentSignaturesTable {
  owner: Owner
  digest: Buffer
  expires_at: Timestamp
}

export interface ProvisionedTable {
  owner: Owner
  kind: string
  item: string
  applied_at: Timestamp
}

/** A tier's rule as stored; its meaning is rules/tier.ts. */
export interface StoredRule {
  when: string[]
  then: 'auto' | 'ask' | 'refuse'
}

export interface TiersTable {
  owner: Owner
  tier_id: string
  name: string
  ask_me: boolean
  rules: Json<StoredRule[]>
  clearance: Json<Record<string, string[]>>
  version: number
  epoch: Generated<number>
  deleted_at: NullableTimestamp
}

export interface TierResourcesTable {
  owner: Owner
  resource_id: string
  tier_id: string
  /** As of the resource. */
  org: ColumnType<Reach | null, RawBuilder<Reach | null> | undefined, Reach | null>
}

export interface TermsVersionsTable {
  owner: Owner
  tier_id: string
  version: number
  name: string
  purpose: string
  scope: string[]
  expires_in: number
  prohibited: string[]
  per_operation: boolean
  published_at: Timestamp
}

export type FamilyState = 'need_info' | 'awaiting_owner' | 'granted' | 'denied' | 'ended'
export type PendingKind = 'connection' | 'operation'

export interface FamiliesTable {
  owner: Owner
  family: Family
  state: FamilyState
  client_id: ClientId
  resource_id: string
  resource_scopes: string[]
  tier_id: string | null
  /** The offer that was sent, null where none was. */
  template: Json<TermsTemplate | null>
  sealed_expires_at: Timestamp
  opened_at: Timestamp
  negotiation_expires_at: Timestamp
  ticket_hash: Buffer | null
  ticket_issued_at: Timestamp
  ticket_previous_at: NullableTimestamp
  ticket_expires_at: Timestamp
  kind: PendingKind | null
  handle: Handle | null
  operator: string | null
  attested: boolean | null
  params_key: string | null
  requested_at: NullableTimestamp
  /** What collecting the grant needs, kept from the agreement. */
  held: Json<GrantBasis | null>
  /** What the owner is shown. */
  item: Json<ShownItem | null>
  decision: 'approved' | 'denied' | null
  decided_by: string | null
  decided_actor: Json<Actor | null>
  decided_at: NullableTimestamp
  generation: number | null
}

export interface ConnectionsTable {
  owner: Owner
  handle: Handle
  status: 'active' | 'revoked'
  generation: Generated<number>
  identity: 'pseudonymous' | 'identified'
  label: string | null
  first_party: Generated<boolean>
  first_seen: Timestamp
  admitted_at: Timestamp
  last_access: NullableTimestamp
  revocations: Generated<number>
  introduced_by: Handle | null
  /** Thumbprint of the key that was last approved on it. */
  jkt: string | null
  org_epoch: Generated<number>
}

export interface ConnectionOperatorsTable {
  owner: Owner
  handle: Handle
  origin: string
  since: Timestamp
}

export interface ConnectionTiersTable {
  owner: Owner
  handle: Handle
  tier_id: string
  granted_at: NullableTimestamp
  approved_at: NullableTimestamp
  approved_generation: number | null
}

export interface OperatorsTable {
  owner: Owner
  origin: string
  name: string | null
  blocked_at: NullableTimestamp
  mine: Generated<boolean>
  org_epoch: Generated<number>
}

export interface GrantsTable {
  owner: Owner
  rpt_sha256: Buffer
  jti: string
  family: Family
  handle: Handle
  generation: number
  client_id: ClientId
  aud: string
  resource_id: string
  tier_id: string
  tier_epoch: number
  single_use: boolean
  claims: Json<GrantClaims>
  issued_at: Timestamp
  expires_at: Timestamp
  consumed_at: NullableTimestamp
  org_epoch: number | null
  org_handle_epoch: number | null
  org_operator: string | null
  org_operator_epoch: number | null
}

/** All but the first two are null where she is no member. */
export interface MembershipsTable {
  owner: Owner
  org_epoch: Generated<number>
  issuer: string | null
  join_id: string | null
  token: string | null
  joined_at: NullableTimestamp
  agreed: Json<MemberView | null>
  view: Json<MemberView | null>
  read_at: NullableTimestamp
  administrators_may: string[] | null
  /** That the ceiling has cut since she joined. */
  clamped_fields: Generated<Cut['field'][]>
}

export interface OrganizationCallsTable {
  owner: Owner
  id: string
  kind: 'join' | 'leave' | 'decline'
  issuer: string
  since: Timestamp
  attempts: Generated<number>
}

export interface HeadsTable {
  owner: Owner
  ledger: Generated<number>
  events: Generated<number>
  receipts: Generated<number>
}

export interface ReceiptsTable {
  owner: Owner
  jti: string
  family: Family
  handle: Handle
  issued_at: Timestamp
  receipt: string
}

export interface ReceiptPositionsTable {
  owner: Owner
  jti: string
  id: Generated<string>
  seq: number | null
}

/** `id` is far above what a number holds, so it never leaves Postgres. */
export interface LedgerTable {
  owner: Owner
  id: Generated<string>
  seq: number | null
  ts: Timestamp
  kind: string
  family: Family | null
  handle: Handle | null
  data: Json<Record<string, unknown>>
  count: Generated<number>
  once_key: string | null
}

export interface ReportInstancesTable {
  owner: Owner
  client_id: ClientId
  instance: string
  n: number
  previous: Generated<number>
  heard_at: Timestamp
  ended: boolean
  unknown_at: NullableTimestamp
}

export interface RefusalCountsTable {
  owner: Owner
  minute: Timestamp
  kind: string
  reason: string
  handle: Handle
  count: number
  families: Family[]
}

export interface EventsTable {
  owner: Owner
  id: Generated<string>
  seq: number | null
  at: Timestamp
  event: string
  data: Json<Record<string, unknown>>
}

/** What is to be done for an owner, and when (due.ts). */
export interface DueTable {
  owner: Owner
  kind: 'sweep' | 'pull' | 'view' | 'tell' | 'compliance'
  /** Of the resource server to be pulled from; empty else. */
  client_id: Generated<ClientId>
  at: Generated<string>
}

export interface Tables {
  directory: DirectoryTable
  namespaces: NamespacesTable
  owners: OwnersTable
  queues: QueuesTable
  device_keys: DeviceKeysTable
  logins: LoginsTable
  enrolment_codes: EnrolmentCodesTable
  spent_signatures: SpentSignaturesTable
  provisioned: ProvisionedTable
  resource_servers: ResourceServersTable
  banned_origins: BannedOriginsTable
  resources: ResourcesTable
  registry_pulls: RegistryPullsTable
  tiers: TiersTable
  tier_resources: TierResourcesTable
  terms_versions: TermsVersionsTable
  families: FamiliesTable
  connections: ConnectionsTable
  connection_operators: ConnectionOperatorsTable
  connection_tiers: ConnectionTiersTable
  operators: OperatorsTable
  grants: GrantsTable
  heads: HeadsTable
  receipts: ReceiptsTable
  receipt_positions: ReceiptPositionsTable
  ledger: LedgerTable
  refusal_counts: RefusalCountsTable
  report_instances: ReportInstancesTable
  events: EventsTable
  due: DueTable
  memberships: MembershipsTable
  organization_calls: OrganizationCallsTable
}
