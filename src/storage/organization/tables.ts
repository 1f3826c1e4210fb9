/**
 * The rows of an organization, as Postgres holds them (migrations/organization makes the tables). Contract:
 * "The organization's authority".
 */
import type { ColumnType, Generated } from 'kysely'
import type { JsonColumn, NullableTimestamp, Timestamp } from '../core/columns.ts'
import type { BreakGlassClaims } from '../../wire/organization/break-glass.ts'
import type { Charter } from '../../wire/organization/charter.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { Notice } from '../../wire/organization/notice.ts'

export interface HeadTable {
  one: Generated<boolean>
  version: Generated<number>
  activity: Generated<number>
}

export interface ChartersTable {
  version: number
  s256: string
  charter: JsonColumn<Charter>
  published_at: Timestamp
  by: string
}

export interface MembersTable {
  owner: Owner
  as_uri: string
  join_id: string
  role: string | null
  joined_at: Timestamp
  agreed_version: number
  view: Generated<number>
  view_version: number
  clearance: ColumnType<Record<string, string>, string | undefined, string>
  compliance: ColumnType<JsonObject | null, string | undefined, string>
  compliance_at: NullableTimestamp
}

export interface ActivityTable {
  seq: number
  ts: Timestamp
  kind: string
  admin: string | null
  owner: Owner | null
  data: JsonColumn<Record<string, unknown>>
}

export interface OrganizationSignaturesTable {
  digest: Buffer
  expires_at: Timestamp
}

export interface InvitationsTable {
  code_id: string
  owner: Owner
  as_uri: string
  note: string | null
  code_sha256: Buffer
  invited_at: Timestamp
  expires_at: Timestamp
  answer: 'joined' | 'declined' | 'withdrawn' | null
}

export interface JoinCodeTable {
  one: Generated<boolean>
  code_sha256: Buffer
  rotated_at: Timestamp
}

export interface WrongCodesTable {
  name: string
  hour: Timestamp
  count: number
}

export interface NoticeLinesTable {
  owner: Owner
  membership: string
  line: string
  as_uri: string
  due_at: Timestamp
  attempts: Generated<number>
}

export interface NoticesTable {
  jti: string
  place: Generated<number>
  owner: Owner
  membership: string
  line: string
  notice: JsonColumn<Notice>
  made_at: Timestamp
  status: number | null
  stopped_at: NullableTimestamp
}

export interface VouchersTable {
  voucher_sha256: Buffer
  owner: Owner
  admin: string
  reason: string
  opened_at: Timestamp
  expires_at: Timestamp
  held_by: string | null
  held_until: NullableTimestamp
  spent_at: NullableTimestamp
}

export interface BreakGlassGrantsTable {
  jti: string
  owner: Owner
  membership: string
  aud: string
  state: 'held' | 'live' | 'void' | 'consumed'
  rpt_sha256: Buffer | null
  claims: ColumnType<BreakGlassClaims | null, string | undefined, string>
  held_at: Timestamp
  expires_at: Timestamp
}

export interface OrganizationTables {
  head: HeadTable
  charters: ChartersTable
  members: MembersTable
  activity: ActivityTable
  spent_signatures: OrganizationSignaturesTable
  invitations: InvitationsTable
  join_code: JoinCodeTable
  wrong_codes: WrongCodesTable
  notice_lines: NoticeLinesTable
  notices: NoticesTable
  vouchers: VouchersTable
  break_glass_grants: BreakGlassGrantsTable
}
