/**
 * The rows that record what happened: ledger, receipts, events, and how far each is numbered, as Postgres
 * holds them. Contract: "States and transitions", "Events".
 */
import type { Generated } from 'kysely'
import type { JsonColumn, NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { ClientId, Family, Handle, Owner } from '../../../wire/identifiers.ts'

export interface HeadsTable {
  owner: Owner
  ledger: Generated<number>
  events: Generated<number>
  receipts: Generated<number>
  /** How many positions of the ledger the tree covers. */
  tree_size: Generated<number>
  tree_root: Buffer | null
  frontier: Generated<Buffer>
  /** The time in the origin of her tree since the last restore, in seconds; null: there was none. */
  origin_at: number | null
}

/** One level of the tree over a ledger has tiles from 0 on, each of 256 hashes at most. */
export interface LedgerTilesTable {
  owner: Owner
  level: number
  index: number
  hashes: Buffer
  group_roots: Buffer | null
}

export interface LedgerTailsTable {
  owner: Owner
  handle: Handle
  seq: number
}

/** The last signed checkpoint of an origin. */
export interface LedgerCheckpointsTable {
  owner: Owner
  origin: string
  size: number
  root: Buffer
  kid: string
  note: string
  signed_at: Timestamp
  /** The hours since the epoch; null: none of this origin was signed before that hour, as far as is known. */
  hour: number | null
  /** The note that was signed last before that hour, and its key. */
  hour_note: string | null
  hour_kid: string | null
  /** When another origin took its place; null: it is the present one. */
  ended_at: Timestamp | null
  /** So many entries a witness has cosigned, more than the tree has; null: none has. */
  lost_size: number | null
}

/** The newest checkpoint of an origin that a witness has cosigned. */
export interface WitnessedCheckpointsTable {
  owner: Owner
  origin: string
  size: number
  note: string
  /** Lines of signatures, as they stand behind the note. */
  cosignatures: string
}

/** What a witness has cosigned last of an origin, as far as is known. */
export interface WitnessSizesTable {
  owner: Owner
  origin: string
  /** The thumbprint of its key. */
  witness: string
  size: number
}

export interface ReceiptsTable {
  owner: Owner
  jti: string
  family: Family
  handle: Handle
  issued_at: Timestamp
  receipt: string
}

export interface RevocationsTable {
  owner: Owner
  jti: string
  ends: number
  ended: Handle[]
  entry_id: string
  done_at: Generated<Date>
  /** Null until it may be signed. */
  jwt: string | null
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
  data: JsonColumn<Record<string, unknown>>
  count: Generated<number>
  once_key: string | null
  /** Set if an organization governed it then. */
  resource_id: string | null
  /** Null in rows from before there were salts, until they get their leaf. */
  salt: Generated<Buffer | null>
  /** The hash of the entry in the tree. */
  leaf: Buffer | null
  /** With a handle: the position of that handle's entry before, or 0. */
  prev: number | null
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
  data: JsonColumn<Record<string, unknown>>
}
