/**
 * The authority's database: what is in src/storage/core, over the authority's own tables.
 * Contract: "Resources and their fields".
 */
import { openDatabase as openAny, type Database as AnyDatabase } from '../core/database.ts'
import type { Db as AnyDb, Tx as AnyTx } from '../core/database.ts'
import { migrate as migrateAny } from '../migrate.ts'
import type { Tables } from './tables.ts'

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<Tables>
/** A transaction: the first parameter of what must not be done alone. */
export type Tx = AnyTx<Tables>
export type Database = AnyDatabase<Tables>

/** Opens the pools. Nothing is connected until first use. */
export const openDatabase = openAny<Tables>

export { refuseEarlier } from '../migrate.ts'

/** Published terms and receipts are what was signed: nobody who serves requests changes or removes one. */
const SCHEMA = { party: 'authority', appendOnly: ['receipts', 'terms_versions'], sequences: ['insertions'] }

/**
 * Brings an authority's database up to date; as `migrate` of any party. @returns the names of the migrations
 * that this call applied.
 */
export function migrate(url: string, tell?: (line: string) => void): Promise<string[]> {
  return migrateAny(url, SCHEMA, tell)
}
