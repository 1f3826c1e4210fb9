/**
 * Codes by which people join: invitations of named persons, and one shared code. Only hashes are kept.
 * Contract: "The organization's authority" (join by invitation or shared code), "Limits".
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'
import type { InvitationsTable } from './tables.ts'
import type { KeyPage } from '../core/columns.ts'

export type InvitationRow = Selectable<InvitationsTable>

/** A person, as administrators and invitations name her. */
export interface Person {
  owner: Owner
  as_uri: string
}

const WAITS = sql<boolean>`answer IS NULL AND expires_at > now()`

/** Invites a person, under the lock of the head. @returns when it expires. */
export async function insertInvitation(
  tx: Tx,
  invitation: Pick<InvitationRow, 'code_id' | 'owner' | 'as_uri' | 'note' | 'code_sha256'>,
  lifetimeSeconds: number,
): Promise<string> {
  const { expires_at } = await tx
    .insertInto('invitations')
    .values({ ...invitation, expires_at: sql<string>`now() + ${lifetimeSeconds} * interval '1 second'` })
    .returning('expires_at')
    .executeTakeFirstOrThrow()
  return expires_at
}

/** Invitations that wait, after a code's id, by it. */
export function listInvitations(db: Db, { after, limit }: KeyPage): Promise<InvitationRow[]> {
  return db
    .selectFrom('invitations')
    .selectAll()
    .where(WAITS)
    .where('code_id', '>', after ?? '')
    .orderBy('code_id')
    .limit(limit)
    .execute()
}

/** The invitation that waits under the id of a code; undefined if none does. */
export function readInvitationByCode(db: Db, code_id: string): Promise<InvitationRow | undefined> {
  return db
    .selectFrom('invitations')
    .selectAll()
    .where('code_id', '=', code_id)
    .where(WAITS)
    .executeTakeFirst()
}

/** An invitation under the id of a code, whether or not it waits. */
export function readInvitation(db: Db, code_id: string): Promise<InvitationRow | undefined> {
  return db.selectFrom('invitations').selectAll().where('code_id', '=', code_id).executeTakeFirst()
}

/** The newest invitation that waits for a person; undefined if none does. */
export function readInvitationOf(db: Db, { owner, as_uri }: Person): Promise<InvitationRow | undefined> {
  return db
    .selectFrom('invitations')
    .selectAll()
    .where('owner', '=', owner)
    .where('as_uri', '=', as_uri)
    .where(WAITS)
    .orderBy('invited_at', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/**
 * Declines the invitations that wait for a person, or the one with this id, under the lock of the head.
 * @returns the ids of those that waited.
 */
export async function declineInvitations(
  tx: Tx,
  { owner, as_uri }: Person,
  code_id: string | undefined,
): Promise<string[]> {
  const declined = await tx
    .updateTable('invitations')
    .set({ answer: 'declined' })
    .where('owner', '=', owner)
    .where('as_uri', '=', as_uri)
    .where(WAITS)
    .$if(code_id !== undefined, query => query.where('code_id', '=', code_id!))
    .returning('code_id')
    .execute()
  return declined.map(row => row.code_id)
}

/** Answers a waiting invitation; its code is then invalid. @returns whether it waited. */
export async function answerInvitation(
  tx: Tx,
  code_id: string,
  answer: NonNullable<InvitationRow['answer']>,
): Promise<boolean> {
  const done = await tx
    .updateTable('invitations')
    .set({ answer })
    .where('code_id', '=', code_id)
    .where(WAITS)
    .executeTakeFirst()
  return done.numUpdatedRows === 1n
}

/** Replaces the shared code. */
export async function replaceJoinCode(tx: Tx, code_sha256: Buffer): Promise<void> {
  await sql`
    INSERT INTO join_code (code_sha256) VALUES (${code_sha256})
    ON CONFLICT (one) DO UPDATE SET code_sha256 = excluded.code_sha256, rotated_at = now()`.execute(tx)
}

/** The hash of the shared code; undefined if there is none. */
export async function readJoinCode(db: Db): Promise<Buffer | undefined> {
  const row = await db.selectFrom('join_code').select('code_sha256').executeTakeFirst()
  return row?.code_sha256
}

/** How often a wrong code was tried in this hour. */
export async function wrongCodes(db: Db, name: string): Promise<number> {
  const row = await db
    .selectFrom('wrong_codes')
    .select('count')
    .where('name', '=', name)
    .where('hour', '=', sql<string>`date_trunc('hour', now())`)
    .executeTakeFirst()
  return row?.count ?? 0
}

/** Counts one attempt with a wrong code. */
export async function countWrongCode(db: Db, name: string): Promise<void> {
  await sql`
    INSERT INTO wrong_codes (name, hour, count) VALUES (${name}, date_trunc('hour', now()), 1)
    ON CONFLICT (name, hour) DO UPDATE SET count = wrong_codes.count + 1`.execute(db)
}
