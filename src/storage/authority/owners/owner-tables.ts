/**
 * The rows of the owners themselves, as Postgres holds them: where each one lives, what opens her API, and
 * what was used already. Contract: "Resources and their fields", "Authentication".
 */
import type { ColumnType, Generated } from 'kysely'
import type { NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { Owner } from '../../../wire/identifiers.ts'

export interface DirectoryTable {
  kind: 'tag' | 'device_key' | 'login' | 'name' | 'passkey'
  key: string
  owner: Owner
  /** For a name in the directory of all cells: the cell of its owner; null means this database. */
  cell: Generated<string | null>
  /** The move that may change the cell. */
  move: Generated<string | null>
}

/** Owners who were ever moved into this cell or out of it. */
export interface MovesTable {
  owner: Owner
  move: string
  state: 'here' | 'leaving' | 'gone' | 'arriving'
  cell: string
  since: Timestamp
}

export interface OwnersTable {
  owner: Owner
  tag: string
  created_at: Timestamp
  suspended_at: NullableTimestamp
}

export interface RecoveriesTable {
  owner: Owner
  code_sha256: Buffer
  started_at: Timestamp
  in_force_at: Timestamp
  expires_at: Timestamp
}

/** Owners who were removed, or are being removed. */
export interface RemovalsTable {
  owner: Owner
  created_at: Timestamp
  began_at: Timestamp
  exported_at: NullableTimestamp
  ended_at: NullableTimestamp
}

export interface AdministratorSignaturesTable {
  digest: Buffer
  expires_at: Timestamp
}

export interface NamespacesTable {
  owner: Owner
  namespace: string
}

export interface QueuesTable {
  owner: Owner
  /** How many acts ended something of hers. */
  ends: Generated<number>
}

export interface DeviceKeysTable {
  owner: Owner
  kid: string
  jwk: ColumnType<Record<string, unknown>, string, string>
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

/**
 * Marks of identity assertions: each opens one negotiation, of any owner. The owner column is only for the
 * sweep.
 */
export type SpentAssertionsTable = SpentSignaturesTable

export interface ProvisionedTable {
  owner: Owner
  kind: string
  item: string
  applied_at: Timestamp
}
