/**
 * The rows, as Postgres holds them (migrations/authority makes the tables). Column names are the wire's own
 * names. Contract: "Resources and their fields", "States and transitions".
 */
import type { ColumnType, Generated, RawBuilder } from 'kysely'
import type { JsonColumn, NullableTimestamp, Timestamp } from '../core/columns.ts'
import type { GrantClaims, OwnerDecision } from '../../rules/grant-content.ts'
import type { PendingKind } from '../../rules/connection.ts'
import type { Cut } from '../../rules/organization/tier-ceiling.ts'
import type { AcceptedIdentity } from '../../rules/identity-assertion.ts'
import type { MemberView } from '../../rules/organization/member-view.ts'
import type { ConnectionReach } from '../../rules/connection.ts'
import type { Reach } from '../../rules/organization/membership.ts'
import type { OwnerAllowance } from '../../wire/documents/allowance.ts'
import type { Actor } from '../../wire/owner/actor.ts'
import type { Admits } from '../../wire/owner/decision-statement.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'
import type { TermsTemplate } from '../../wire/negotiation/terms.ts'
import type { GrantBasis } from '../../rules/grant.ts'
import type { ShownItem } from './negotiations/shown-item.ts'
import type {
  EventsTable,
  HeadsTable,
  LedgerCheckpointsTable,
  LedgerTable,
  LedgerTailsTable,
  LedgerTilesTable,
  ReceiptPositionsTable,
  ReceiptsTable,
  RevocationsTable,
  RefusalCountsTable,
  ReportInstancesTable,
  WitnessedCheckpointsTable,
  WitnessSizesTable,
} from './ledger/record-tables.ts'
import type {
  AdministratorSignaturesTable,
  DeviceKeysTable,
  DirectoryTable,
  EnrolmentCodesTable,
  LoginsTable,
  MovesTable,
  NamespacesTable,
  OwnersTable,
  ProvisionedTable,
  QueuesTable,
  RecoveriesTable,
  RemovalsTable,
  SpentAssertionsTable,
  SpentSignaturesTable,
} from './owners/owner-tables.ts'
import type { JointAccountsTable, JointQuestionsTable, JointWithdrawalsTable } from './joint/joint-tables.ts'
import type { NotificationsTable, SubscriptionsTable } from './notifications/notification-tables.ts'
import type { PasskeysTable, SessionKeysTable } from './credentials/passkey-tables.ts'
import type {
  BannedOriginsTable,
  RegistryPullsTable,
  ResourcesTable,
  ResourceServersTable,
} from './registry/registry-tables.ts'

export type * from './joint/joint-tables.ts'
export type * from './owners/owner-tables.ts'
export type * from './ledger/record-tables.ts'
export type * from './registry/registry-tables.ts'

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
  rules: JsonColumn<StoredRule[]>
  clearance: JsonColumn<Record<string, string[]>>
  version: number
  epoch: Generated<number>
  deleted_at: NullableTimestamp
}

export interface TierResourcesTable {
  owner: Owner
  resource_id: string
  tier_id: string
  /** The same as for the resource. */
  org: ColumnType<Reach | null, RawBuilder<Reach | null> | undefined, Reach | null>
  /** Which hold it is: another one once the resource was out of the tier, or was governed. */
  hold: ColumnType<string, RawBuilder<string> | undefined, never>
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

/** What agents may do unasked at her ask-me tiers. */
export interface AllowancesTable {
  owner: Owner
  id: string
  version: number
  /** A name in `pg_timezone_names`. */
  zone: string
  among: OwnerAllowance['among']
  until: NullableTimestamp
  hold_s: number
  content: JsonColumn<Pick<OwnerAllowance, 'amounts' | 'windows' | 'tiers'>>
  made_at: Timestamp
}

export type FamilyState = 'need_info' | 'awaiting_owner' | 'granted' | 'denied' | 'ended'

export interface FamiliesTable {
  owner: Owner
  family: Family
  state: FamilyState
  client_id: ClientId
  resource_id: string
  resource_scopes: string[]
  tier_id: string | null
  /** The offer that was sent, null if none was. */
  template: JsonColumn<TermsTemplate | null>
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
  held: JsonColumn<GrantBasis | null>
  /** What the owner is shown. */
  item: JsonColumn<ShownItem | null>
  decision: 'approved' | 'denied' | null
  decided_by: string | null
  decided_actor: JsonColumn<Actor | null>
  decided_at: NullableTimestamp
  generation: number | null
  /** Her own words for a denial. */
  denial_reason: string | null
  /** Set if she signed her decision. */
  owner_decision: JsonColumn<OwnerDecision | null>
  /** If an identity was required before terms: what was accepted. */
  identity: JsonColumn<AcceptedIdentity | null>
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
  /** How far it reaches; null means everything. */
  /** What her approval let it in for: everything, or the tier that it asked at. */
  admits: Generated<Admits>
  reach: ConnectionReach | null
  /** The membership under which the organization ended its reach. */
  org_ended_in: string | null
  /** When she blocked the agent; null if she did not. */
  blocked_at: NullableTimestamp
  /** Whose windows of an allowance it uses, where each lineage has its own. */
  lineage: string | null
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
  /** The membership under which the organization blocked it. */
  org_blocked_in: string | null
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
  /** That of the tier on the resource when it was made. */
  hold: Generated<string>
  single_use: boolean
  claims: JsonColumn<GrantClaims>
  issued_at: Timestamp
  expires_at: Timestamp
  consumed_at: NullableTimestamp
  /** When its share of an allowance went back; it expired unspent before that. */
  returned_at: NullableTimestamp
  org_epoch: number | null
  org_handle_epoch: number | null
  org_operator: string | null
  org_operator_epoch: number | null
}

/** All but the first two are null if she is no member. */
export interface MembershipsTable {
  owner: Owner
  org_epoch: Generated<number>
  issuer: string | null
  join_id: string | null
  token: string | null
  joined_at: NullableTimestamp
  agreed: JsonColumn<MemberView | null>
  view: JsonColumn<MemberView | null>
  read_at: NullableTimestamp
  administrators_may: string[] | null
  /** The fields that the ceiling has cut since she joined. */
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

/** What must be done for an owner, and when (due.ts). */
export interface DueTable {
  owner: Owner
  kind: 'sweep' | 'pull' | 'view' | 'tell' | 'compliance' | 'withdraw' | 'notify' | 'witness'
  /** The resource server to pull from, the tally to tell, or the subscription; otherwise empty. */
  client_id: Generated<ClientId>
  at: Generated<string>
}

/** A sidecar that may use answers about her grants again for a moment (ADR 0021). */
export interface LeaseHoldersTable {
  owner: Owner
  id: string
  client_id: ClientId
  /** How often it was asked to drop what it has, and up to which of these times it said that it did. */
  asked: Generated<number>
  acknowledged: Generated<number>
  /** How often it was heard of. */
  renewals: Generated<number>
}

export interface AuthorityTables {
  directory: DirectoryTable
  moves: MovesTable
  namespaces: NamespacesTable
  owners: OwnersTable
  queues: QueuesTable
  device_keys: DeviceKeysTable
  passkeys: PasskeysTable
  session_keys: SessionKeysTable
  logins: LoginsTable
  enrolment_codes: EnrolmentCodesTable
  recoveries: RecoveriesTable
  removals: RemovalsTable
  administrator_signatures: AdministratorSignaturesTable
  spent_signatures: SpentSignaturesTable
  spent_assertions: SpentAssertionsTable
  provisioned: ProvisionedTable
  resource_servers: ResourceServersTable
  banned_origins: BannedOriginsTable
  resources: ResourcesTable
  registry_pulls: RegistryPullsTable
  tiers: TiersTable
  tier_resources: TierResourcesTable
  terms_versions: TermsVersionsTable
  allowances: AllowancesTable
  families: FamiliesTable
  connections: ConnectionsTable
  connection_operators: ConnectionOperatorsTable
  connection_tiers: ConnectionTiersTable
  operators: OperatorsTable
  grants: GrantsTable
  heads: HeadsTable
  receipts: ReceiptsTable
  revocations: RevocationsTable
  receipt_positions: ReceiptPositionsTable
  ledger: LedgerTable
  ledger_checkpoints: LedgerCheckpointsTable
  witnessed_checkpoints: WitnessedCheckpointsTable
  witness_sizes: WitnessSizesTable
  ledger_tiles: LedgerTilesTable
  ledger_tails: LedgerTailsTable
  refusal_counts: RefusalCountsTable
  report_instances: ReportInstancesTable
  events: EventsTable
  due: DueTable
  memberships: MembershipsTable
  organization_calls: OrganizationCallsTable
  joint_accounts: JointAccountsTable
  joint_questions: JointQuestionsTable
  joint_withdrawals: JointWithdrawalsTable
  subscriptions: SubscriptionsTable
  notifications: NotificationsTable
  lease_holders: LeaseHoldersTable
}
