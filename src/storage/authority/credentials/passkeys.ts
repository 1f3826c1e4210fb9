/**
 * The passkeys of owners: each belongs to one owner for ever, and a removed one stays listed. Contract:
 * "Authentication" (owner at the owner API).
 */
import { sql, type Selectable } from 'kysely'
import type { Owner } from '../../../wire/identifiers.ts'
import type { PasskeyJwk } from '../../../wire/passkeys/passkey-registration.ts'
import type { Db, Tx } from '../database.ts'
import { ownerOf } from '../owners/owners.ts'
import type { PasskeysTable } from './passkey-tables.ts'
import type { KeyPage } from '../../core/columns.ts'

export type PasskeyRow = Selectable<PasskeysTable>

/**
 * Registers it as hers. @returns undefined if it was registered before, by her or by another owner (both
 * alike, so that nothing is revealed).
 */
export async function insertPasskey(
  tx: Tx,
  passkey: { owner: Owner; id: string; jwk: PasskeyJwk; rp_id: string; name: string },
): Promise<PasskeyRow | undefined> {
  const claimed = await tx
    .insertInto('directory')
    .values({ kind: 'passkey', key: passkey.id, owner: passkey.owner })
    .onConflict(conflict => conflict.columns(['kind', 'key']).doNothing())
    .executeTakeFirst()
  if (claimed.numInsertedOrUpdatedRows === 0n) return undefined
  return tx
    .insertInto('passkeys')
    .values({ ...passkey, jwk: JSON.stringify(passkey.jwk) })
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The passkey of this id that was not removed, of any owner; undefined if there is none. */
export async function readPasskey(db: Db, id: string): Promise<PasskeyRow | undefined> {
  const owner = await ownerOf(db, 'passkey', id)
  return owner === undefined ? undefined : ownPasskey(db, owner, id)
}

/** The owner's passkey of this id that was not removed; undefined if she has none. */
export function ownPasskey(db: Db, owner: Owner, id: string): Promise<PasskeyRow | undefined> {
  return db
    .selectFrom('passkeys')
    .selectAll()
    .where('owner', '=', owner)
    .where('id', '=', id)
    .where('removed_at', 'is', null)
    .executeTakeFirst()
}

/** The owner's passkeys, by id, removed ones too. */
export function listPasskeys(db: Db, owner: Owner, page: KeyPage): Promise<PasskeyRow[]> {
  return db
    .selectFrom('passkeys')
    .selectAll()
    .where('owner', '=', owner)
    .where('id', '>', page.after ?? '')
    .orderBy('id')
    .limit(page.limit)
    .execute()
}

/** How many of her passkeys were not removed. */
export async function countPasskeys(db: Db, owner: Owner): Promise<number> {
  const { standing } = await db
    .selectFrom('passkeys')
    .select(of => of.fn.countAll<string>().as('standing'))
    .where('owner', '=', owner)
    .where('removed_at', 'is', null)
    .executeTakeFirstOrThrow()
  return Number(standing)
}

/** Removes one. @returns the removed passkey; undefined if she has none of this id, or removed it before. */
export function removePasskey(tx: Tx, owner: Owner, id: string): Promise<PasskeyRow | undefined> {
  return tx
    .updateTable('passkeys')
    .set({ removed_at: sql<string>`clock_timestamp()` })
    .where('owner', '=', owner)
    .where('id', '=', id)
    .where('removed_at', 'is', null)
    .returningAll()
    .executeTakeFirst()
}
