/**
 * The tally's database: src/storage/core with the tally's own tables. Contract: "Tally for a jointly held
 * resource".
 */
import type { Database as AnyDatabase, Db as AnyDb } from '../core/database.ts'
import type { Pools as AnyPools, Tx as AnyTx } from '../core/database.ts'
import { partyDatabase } from '../serving.ts'
import type { TallyTables } from './tables.ts'

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<TallyTables>
/** A transaction: the first parameter of functions that must run inside one. */
export type Tx = AnyTx<TallyTables>
export type Database = AnyDatabase<TallyTables>
export type Pools = AnyPools<TallyTables>

/** No process that serves requests may change or remove what was served, offered and countersigned. */
const SCHEMA = {
  party: 'tally',
  appendOnly: ['mandates', 'terms_versions', 'receipts'],
  permanent: [],
  sequences: [],
}

const BY = { setting: 'UMA_TALLY_MIGRATE', command: 'usher tally migrate' }

/** The database's migrations, and how it is opened. */
export const TALLY_DATABASE = partyDatabase<TallyTables>(SCHEMA, BY)
