/**
 * The rows of a tally, as Postgres holds them (migrations/tally makes the tables). Contract: "Tally for a
 * jointly held resource".
 */
import type { ColumnType, Generated } from 'kysely'
import type { JsonColumn, Timestamp } from '../core/columns.ts'
import type { GrantClaims, GrantContent } from '../../rules/grant-content.ts'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'
import type { Mandate } from '../../wire/joint/mandate.ts'
import type { TermsTemplate, TermsVersion } from '../../wire/negotiation/terms.ts'
import type { RptOperation } from '../../wire/negotiation/tokens.ts'

export interface AccountsTable {
  account: Owner
  tag: string
  version: Generated<number>
  mandate_s256: string
  mandate: JsonColumn<Mandate>
}

export interface MandatesTable {
  account: Owner
  version: number
  mandate_s256: string
  mandate: JsonColumn<Mandate>
  served_at: Timestamp
}

export interface AccountServersTable {
  account: Owner
  client_id: ClientId
  resource_uri: string
  status: 'active' | 'revoked'
  generation: Generated<number>
  secret_sha256: Buffer
}

export interface AccountResourcesTable {
  account: Owner
  resource_id: string
  client_id: ClientId
  name: string
  type: string | null
  resource_scopes: string[]
  consequence: string | null
  tools: ColumnType<Record<string, string> | null, string | null, string | null>
}

export interface TallyTermsVersionsTable {
  account: Owner
  version: number
  s256: string
  terms: JsonColumn<Omit<TermsVersion, 'version' | 'published_at'>>
  published_at: Timestamp
}

/** `awaiting_holders`: the agent polls, while holders are asked. */
export type NegotiationState = 'need_info' | 'awaiting_holders' | 'granted' | 'denied' | 'ended'

export interface NegotiationsTable {
  account: Owner
  family: Family
  state: NegotiationState
  client_id: ClientId
  resource_id: string
  resource_scopes: string[]
  /** The version of the mandate that it is counted under. */
  version: number
  template: ColumnType<TermsTemplate | null, string | null, string | null>
  sealed_expires_at: Timestamp
  negotiation_expires_at: Timestamp
  ticket_hash: Buffer | null
  ticket_issued_at: Timestamp
  ticket_previous_at: ColumnType<string | null, string | null | undefined, string | null>
  ticket_expires_at: Timestamp
  held: ColumnType<PendingAgreement | null, string | null | undefined, string | null>
  decision: 'approved' | 'denied' | null
  withdrawn: Generated<boolean>
}

/** The result of an agreement, kept while holders are asked; a grant is made from it. */
export interface PendingAgreement {
  content: GrantContent
  /** The operation that the agreement names, whether or not the grant will be bound to it. */
  named: RptOperation | null
}

export interface AnswersTable {
  account: Owner
  family: Family
  holder: Owner
  issuer: string
  weight: number
  state: Generated<'pending' | 'ready' | 'allowed' | 'refused'>
  verdict: string | null
  verdict_exp: number | null
  allowed_until: number | null
  withdrawn: Generated<boolean>
  asked: Generated<number>
  due_at: Timestamp
}

export interface TallyGrantsTable {
  account: Owner
  rpt_sha256: Buffer
  jti: string
  family: Family
  client_id: ClientId
  aud: string
  resource_id: string
  version: number
  single_use: boolean
  claims: JsonColumn<GrantClaims>
  expires_at: Timestamp
  consumed_at: ColumnType<string | null, string | null | undefined, string | null>
}

export interface TallyReceiptsTable {
  account: Owner
  jti: string
  receipt: string
  issued_at: Timestamp
}

export interface AccessesTable {
  account: Owner
  client_id: ClientId
  key: string
  family: Family
  jti: string
  tool: string
  summary: string | null
  at: Timestamp
  recorded_at: Timestamp
  resource_id: string | null
  handle: Handle | null
  n: ColumnType<string, never, never>
}

export interface WithdrawalsTable {
  issuer: string
  jti: string
  expires_at: Timestamp
}

export interface TallyTables {
  negotiations: NegotiationsTable
  answers: AnswersTable
  grants: TallyGrantsTable
  receipts: TallyReceiptsTable
  accesses: AccessesTable
  withdrawals: WithdrawalsTable
  accounts: AccountsTable
  mandates: MandatesTable
  resource_servers: AccountServersTable
  resources: AccountResourcesTable
  terms_versions: TallyTermsVersionsTable
}
