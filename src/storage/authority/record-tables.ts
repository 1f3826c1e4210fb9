/**
 * The rows that record what happened: ledger, receipts, events, and how far each is numbered, as Postgres
 * holds them. Contract: "States and transitions", "Events".
 */
import type { ColumnType, Generated } from 'kysely'
import type { ClientId, Family, Handle, Owner } from '../../wire/identifiers.ts'
import type { NullableTimestamp, Timestamp } from './registry-tables.ts'

/** Stored as `json`, as in tables.ts. */
type Json<T> = ColumnType<T, string, string>

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

/** `id` exceeds what a JavaScript number holds, so it never leaves Postgres. */
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
  /** Set if an organization governed it then. */
  resource_id: string | null
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
