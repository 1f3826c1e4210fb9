/**
 * The authority's database: what is in src/storage/core, over the authority's own tables.
 * Contract: "Resources and their fields".
 */
import { openDatabase as openAny, type Database as AnyDatabase } from '../core/database.ts'
import type { Db as AnyDb, Tx as AnyTx } from '../core/database.ts'
import type { Tables } from './tables.ts'

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<Tables>
/** A transaction: the first parameter of what must not be done alone. */
export type Tx = AnyTx<Tables>
export type Database = AnyDatabase<Tables>

/** Opens the pools. Nothing is connected until first use. */
export const openDatabase = openAny<Tables>
