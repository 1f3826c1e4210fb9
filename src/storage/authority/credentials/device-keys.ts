/**
 * The device keys that owners enrolled: for good, or let in by a passkey for a while. One key belongs to one
 * owner for ever. Contract: "Authentication" (owner at the owner API).
 */
import { sql } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { Db, Tx } from '../database.ts'
import { ownerOf } from '../owners/owners.ts'
import type { KeyPage } from '../../core/columns.ts'

export interface DeviceKeyRow {
  owner: Owner
  kid: string
  jwk: Record<string, unknown>
  name: string
  enrolled_at: string
  revoked_at: string | null
  /** When it ends by itself, and the id of the passkey that let it in; null if it was enrolled for good. */
  expires_at: string | null
  passkey: string | null
  /** Neither revoked nor ended. */
  in_force: boolean
}

const KEYS = sql`(
  SELECT owner, kid, jwk, name, enrolled_at, revoked_at, NULL::timestamptz AS expires_at, NULL::text AS passkey,
    revoked_at IS NULL AS in_force
  FROM device_keys
  UNION ALL
  SELECT owner, kid, jwk, name, enrolled_at, revoked_at, expires_at, passkey,
    revoked_at IS NULL AND expires_at > clock_timestamp()
  FROM session_keys) keys`

interface NewKey {
  owner: Owner
  kid: string
  jwk: object
  name: string
}

/**
 * Enrols a device key for good.
 * @returns false if the key is already enrolled, by her or by another owner (both alike, so that nothing is
 * revealed).
 */
export async function insertDeviceKey(tx: Tx, key: NewKey): Promise<boolean> {
  if (!(await claim(tx, key))) return false
  await tx
    .insertInto('device_keys')
    .values({ ...key, jwk: JSON.stringify(key.jwk) })
    .execute()
  return true
}

/** Enrols a key that a passkey let in, for this many seconds. @returns like `insertDeviceKey`. */
export async function insertSessionKey(
  tx: Tx,
  key: NewKey & { passkey: string; lifetimeSeconds: number },
): Promise<boolean> {
  if (!(await claim(tx, key))) return false
  const { owner, kid, jwk, name, passkey, lifetimeSeconds } = key
  await sql`
    INSERT INTO session_keys (owner, kid, jwk, name, passkey, expires_at)
    VALUES (${owner}, ${kid}, ${JSON.stringify(jwk)}, ${name}, ${passkey},
      clock_timestamp() + ${lifetimeSeconds} * interval '1 second')`.execute(tx)
  return true
}

async function claim(tx: Tx, { kid, owner }: NewKey): Promise<boolean> {
  const claimed = await tx
    .insertInto('directory')
    .values({ kind: 'device_key', key: kid, owner })
    .onConflict(conflict => conflict.columns(['kind', 'key']).doNothing())
    .executeTakeFirst()
  return claimed.numInsertedOrUpdatedRows === 1n
}

/** A device key by its kid (thumbprint), of any owner, in force or not; undefined if unknown. */
export async function readDeviceKey(db: Db, kid: string): Promise<DeviceKeyRow | undefined> {
  const owner = await ownerOf(db, 'device_key', kid)
  if (owner === undefined) return undefined
  const { rows } = await sql<DeviceKeyRow>`
    SELECT * FROM ${KEYS} WHERE owner = ${owner} AND kid = ${kid}`.execute(db)
  return rows[0]
}

/** The owner's device keys, by kid, including those that are no longer in force. */
export async function listDeviceKeys(db: Db, owner: Owner, page: KeyPage): Promise<DeviceKeyRow[]> {
  const { rows } = await sql<DeviceKeyRow>`
    SELECT * FROM ${KEYS} WHERE owner = ${owner} AND kid > ${page.after ?? ''}
    ORDER BY kid LIMIT ${page.limit}`.execute(db)
  return rows
}

/** The public halves of the keys in force. */
export async function standingDeviceKeys(db: Db, owner: Owner): Promise<Record<string, unknown>[]> {
  const { rows } = await sql<Pick<DeviceKeyRow, 'jwk'>>`
    SELECT jwk FROM ${KEYS} WHERE owner = ${owner} AND in_force`.execute(db)
  return rows.map(({ jwk }) => jwk)
}

/** Revokes a device key. @returns whether this call revoked a key in force. */
export async function revokeDeviceKey(tx: Tx, owner: Owner, kid: string): Promise<boolean> {
  const { rows } = await sql`
    WITH enrolled AS (
      UPDATE device_keys SET revoked_at = clock_timestamp()
      WHERE owner = ${owner} AND kid = ${kid} AND revoked_at IS NULL RETURNING kid),
    let_in AS (
      UPDATE session_keys SET revoked_at = clock_timestamp()
      WHERE owner = ${owner} AND kid = ${kid} AND revoked_at IS NULL AND expires_at > clock_timestamp()
      RETURNING kid)
    SELECT kid FROM enrolled UNION ALL SELECT kid FROM let_in`.execute(tx)
  return rows.length > 0
}

/** Revokes the keys in force that a passkey let in. @returns these keys. */
export async function revokeKeysLetIn(
  tx: Tx,
  owner: Owner,
  passkey: string,
): Promise<{ kid: string; name: string }[]> {
  const { rows } = await sql<{ kid: string; name: string }>`
    UPDATE session_keys SET revoked_at = clock_timestamp()
    WHERE owner = ${owner} AND passkey = ${passkey} AND revoked_at IS NULL AND expires_at > clock_timestamp()
    RETURNING kid, name`.execute(tx)
  return rows
}

/** Revokes all keys that passkeys let in: she lets hers in again. */
export async function revokeAllLetIn(tx: Tx, owner: Owner): Promise<void> {
  await sql`
    UPDATE session_keys SET revoked_at = clock_timestamp()
    WHERE owner = ${owner} AND revoked_at IS NULL`.execute(tx)
}

/**
 * Revokes the keys in force that passkeys let in, except for the newest `count`. @returns the revoked keys.
 */
export async function revokeEarlierLetIn(
  tx: Tx,
  owner: Owner,
  count: number,
): Promise<{ kid: string; name: string; passkey: string }[]> {
  const { rows } = await sql<{ kid: string; name: string; passkey: string }>`
    UPDATE session_keys SET revoked_at = clock_timestamp()
    WHERE owner = ${owner} AND kid IN (
      SELECT kid FROM session_keys
      WHERE owner = ${owner} AND revoked_at IS NULL AND expires_at > clock_timestamp()
      ORDER BY enrolled_at DESC, kid OFFSET ${count})
    RETURNING kid, name, passkey`.execute(tx)
  return rows
}

/** The kids of the owner's device keys in force that have this name, in order. */
export async function deviceKeysNamed(db: Db, owner: Owner, name: string): Promise<string[]> {
  const { rows } = await sql<{ kid: string }>`
    SELECT kid FROM ${KEYS} WHERE owner = ${owner} AND name = ${name} AND in_force ORDER BY kid`.execute(db)
  return rows.map(({ kid }) => kid)
}
