/**
 * The logins by which an owner is known at her realm, and the code that lets her enrol a first credential.
 * Contract: "Authentication" (owner at the owner API).
 */
import { sql, type Selectable } from 'kysely'
import { encodeBase64url, sha256 } from '../../../wire/encoding.ts'
import type { Db, Tx } from '../database.ts'
import { ownerOf } from '../owners/owners.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { LoginsTable } from '../tables.ts'
import type { KeyPage } from '../../core/columns.ts'

/** A subject means something only at its issuer, so only the two together identify a person. */
export interface LoginSubject {
  issuer: string
  subject: string
}

/** Which credentials are accepted; '' for `rpId` means that no passkey is. */
export interface AcceptedKinds {
  deviceKeys: boolean
  issuer: string | undefined
  rpId?: string | undefined
}

export type LoginRow = Selectable<LoginsTable>

/**
 * The name of a login in the directory: JSON of the pair, so that no two logins are written alike, whatever
 * characters they contain.
 */
export function loginKey({ issuer, subject }: LoginSubject): string {
  return JSON.stringify([issuer, subject])
}

/** A name for a login that fits in a path: the same everywhere, and revealing nothing. */
export function loginId(login: LoginSubject): string {
  return encodeBase64url(sha256(loginKey(login)))
}

/**
 * Binds a login to an owner. @returns the row; undefined if it is bound already, to her or to another owner
 * (both alike, so that nothing is revealed).
 */
export async function insertLogin(
  tx: Tx,
  { owner, name, issuer, subject }: LoginSubject & { owner: Owner; name: string },
): Promise<LoginRow | undefined> {
  const login = { issuer, subject }
  const claimed = await tx
    .insertInto('directory')
    .values({ kind: 'login', key: loginKey(login), owner })
    .onConflict(conflict => conflict.columns(['kind', 'key']).doNothing())
    .executeTakeFirst()
  if (claimed.numInsertedOrUpdatedRows === 0n) return undefined
  return tx
    .insertInto('logins')
    .values({ owner, id: loginId(login), ...login, name })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The owner of a login; undefined if it is bound to nobody. */
export function ownerOfLogin(db: Db, login: LoginSubject): Promise<Owner | undefined> {
  return ownerOf(db, 'login', loginKey(login))
}

/**
 * Which of these credentials are still hers: device keys, by kid, that are not revoked, and logins, by id,
 * that are bound. A key that a passkey let in also ends by itself; the caller judges that by its own clock.
 */
export async function listStanding(db: Db, owner: Owner, ids: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql<{ id: string }>`
    SELECT kid AS id FROM device_keys WHERE owner = ${owner} AND kid = ANY(${[...ids]}::text[]) AND revoked_at IS NULL
    UNION ALL SELECT kid FROM session_keys WHERE owner = ${owner} AND kid = ANY(${[...ids]}::text[]) AND revoked_at IS NULL
    UNION ALL SELECT id FROM logins WHERE owner = ${owner} AND id = ANY(${[...ids]}::text[])`.execute(db)
  return new Set(rows.map(({ id }) => id))
}

/** The owner's logins, by id. */
export function listLogins(db: Db, owner: Owner, page: KeyPage): Promise<LoginRow[]> {
  return db
    .selectFrom('logins')
    .selectAll()
    .where('owner', '=', owner)
    .where('id', '>', page.after ?? '')
    .orderBy('id')
    .limit(page.limit)
    .execute()
}

/**
 * Removes a login, which may then be bound again. @returns the removed login; undefined if she has none of
 * this id.
 */
export async function deleteLogin(tx: Tx, owner: Owner, id: string): Promise<LoginRow | undefined> {
  const row = await tx
    .deleteFrom('logins')
    .where('owner', '=', owner)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()
  if (row === undefined) return undefined
  await tx
    .deleteFrom('directory')
    .where('kind', '=', 'login')
    .where('key', '=', loginKey(row))
    .where('owner', '=', owner)
    .execute()
  return row
}

/**
 * Whether she has a credential that is accepted and does not end by itself: a device key in force, a passkey
 * of the relying party that lets such keys in (any passkey, if `rpId` is left out), or a login at the trusted
 * realm.
 */
export async function hasCredential(db: Db, owner: Owner, accepted: AcceptedKinds): Promise<boolean> {
  const rpId = accepted.rpId ?? null
  const { rows } = await sql<{ has: boolean }>`
    SELECT (${accepted.deviceKeys} AND (
        EXISTS (SELECT 1 FROM device_keys WHERE owner = ${owner} AND revoked_at IS NULL)
        OR EXISTS (SELECT 1 FROM passkeys WHERE owner = ${owner} AND removed_at IS NULL
          AND rp_id = coalesce(${rpId}, rp_id))))
      OR EXISTS (SELECT 1 FROM logins WHERE owner = ${owner} AND issuer = ${accepted.issuer ?? null}) AS has`.execute(
    db,
  )
  return rows[0]?.has === true
}

/** Replaces the owner's earlier code, if any. @returns when it expires. */
export async function replaceEnrolmentCode(
  db: Db,
  code: { owner: Owner; code_sha256: Buffer; lifetimeSeconds: number },
): Promise<string> {
  const { rows } = await sql<{ expires_at: string }>`
    INSERT INTO enrolment_codes (owner, code_sha256, expires_at)
    VALUES (${code.owner}, ${code.code_sha256}, now() + ${code.lifetimeSeconds} * interval '1 second')
    ON CONFLICT (owner) DO UPDATE
      SET code_sha256 = excluded.code_sha256, created_at = now(), expires_at = excluded.expires_at
    RETURNING expires_at`.execute(db)
  return rows[0]!.expires_at
}

/** Uses a code up. @returns whether it was hers, unused and unexpired: true for one caller only. */
export async function spendEnrolmentCode(tx: Tx, owner: Owner, code_sha256: Buffer): Promise<boolean> {
  const spent = await sql`
    DELETE FROM enrolment_codes
    WHERE owner = ${owner} AND code_sha256 = ${code_sha256} AND expires_at > now()`.execute(tx)
  return spent.numAffectedRows === 1n
}
