/**
 * The rows of passkeys and of the device keys that they let in, as Postgres holds them. Contract:
 * "Authentication".
 */
import type { ColumnType } from 'kysely'
import type { NullableTimestamp, Timestamp } from '../../core/columns.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { PasskeyJwk } from '../../../wire/passkeys/passkey-registration.ts'

export interface PasskeysTable {
  owner: Owner
  id: string
  jwk: ColumnType<PasskeyJwk, string, string>
  rp_id: string
  name: string
  added_at: Timestamp
  removed_at: NullableTimestamp
}

/** `passkey` is the id of the passkey that let it in. */
export interface SessionKeysTable {
  owner: Owner
  kid: string
  jwk: ColumnType<Record<string, unknown>, string, string>
  name: string
  passkey: string
  enrolled_at: Timestamp
  expires_at: Timestamp
  revoked_at: NullableTimestamp
}
