/**
 * Origins whose resource servers may not register with an owner, because she banned them. Contract: "Resource
 * server registration".
 */
import { sql, type Selectable } from 'kysely'
import type { Db, Tx } from '../database.ts'
import type { BannedOriginsTable } from '../tables.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import type { KeyPage } from '../../core/columns.ts'

export type BannedOriginRow = Selectable<BannedOriginsTable>

/**
 * Bans an origin. The caller holds the owner's queue lock, as a registration does: either the ban finds the
 * waiting registration, or the registration finds the ban. @returns whether this call banned it.
 */
export async function banOrigin(tx: Tx, owner: Owner, origin: string): Promise<boolean> {
  const made = await tx
    .insertInto('banned_origins')
    .values({ owner, origin, banned_at: sql<string>`clock_timestamp()` })
    .onConflict(conflict => conflict.columns(['owner', 'origin']).doNothing())
    .executeTakeFirst()
  return made.numInsertedOrUpdatedRows === 1n
}

/** Lets an origin register again. @returns false if it was not banned. */
export async function unbanOrigin(tx: Tx, owner: Owner, origin: string): Promise<boolean> {
  const done = await tx
    .deleteFrom('banned_origins')
    .where('owner', '=', owner)
    .where('origin', '=', origin)
    .executeTakeFirst()
  return done.numDeletedRows === 1n
}

/** The origins that an owner has banned after the given one, by origin. */
export function listBannedOrigins(db: Db, owner: Owner, page: KeyPage): Promise<BannedOriginRow[]> {
  return db
    .selectFrom('banned_origins')
    .selectAll()
    .where('owner', '=', owner)
    .where('origin', '>', page.after ?? '')
    .orderBy('origin')
    .limit(page.limit)
    .execute()
}
