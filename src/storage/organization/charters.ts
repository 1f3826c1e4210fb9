/**
 * Charter versions: immutable, numbered without gaps, one in force. Contract: "The organization's authority",
 * "Versioning" (a change publishes a new version).
 */
import { sql, type Selectable } from 'kysely'
import type { Charter } from '../../wire/organization/charter.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { Db, Tx } from './database.ts'
import type { ChartersTable } from './tables.ts'

export type CharterRow = Selectable<ChartersTable>

/**
 * Locks the head for a change; the holder of this lock alone changes charter, groups, members and codes.
 * @returns the version in force, or 0 if there is none.
 */
export async function lockHead(tx: Tx): Promise<number> {
  const { version } = await tx.selectFrom('head').select('version').forUpdate().executeTakeFirstOrThrow()
  return version
}

/** The charter in force; undefined if none was published yet. */
export function readCharter(db: Db): Promise<CharterRow | undefined> {
  return db
    .selectFrom('charters')
    .selectAll()
    .where('version', '=', eb => eb.selectFrom('head').select('version'))
    .executeTakeFirst()
}

/** A version, in force or not. */
export function readCharterVersion(db: Db, version: number): Promise<CharterRow | undefined> {
  return db.selectFrom('charters').selectAll().where('version', '=', version).executeTakeFirst()
}

/** Versions after a number, oldest first, without their texts. */
export function listCharters(
  db: Db,
  { after, limit }: { after: number; limit: number },
): Promise<Omit<CharterRow, 'charter'>[]> {
  return db
    .selectFrom('charters')
    .select(['version', 's256', 'published_at', 'by'])
    .where('version', '>', after)
    .orderBy('version')
    .limit(limit)
    .execute()
}

/**
 * Publishes the next version, under the lock of the head. `affects`: whose view it changes, everybody's or
 * that of one member.
 * @returns the row that is in force now.
 */
export async function publishCharter(
  tx: Tx,
  published: { charter: Charter; s256: string; by: string; affects: 'everybody' | Owner },
): Promise<CharterRow> {
  const { charter, s256, by, affects } = published
  const head = await tx
    .updateTable('head')
    .set({ version: sql<number>`version + 1` })
    .returning('version')
    .executeTakeFirstOrThrow()
  const row = await tx
    .insertInto('charters')
    .values({ version: head.version, charter: JSON.stringify(charter), s256, by })
    .returningAll()
    .executeTakeFirstOrThrow()
  await tx
    .updateTable('members')
    .set({ view: sql<number>`view + 1`, view_version: head.version })
    .$if(affects !== 'everybody', query => query.where('owner', '=', affects as Owner))
    .execute()
  return row
}
