/**
 * The authority's database: src/storage/core with the authority's own tables. Contract: "Resources and their
 * fields".
 */
import { openDatabase as openAny, type Database as AnyDatabase } from '../core/database.ts'
import type { DatabaseOptions, Db as AnyDb, Pools as AnyPools, Tx as AnyTx } from '../core/database.ts'
import { countBeforeCommit, settleAfterCommit } from '../core/after-commit.ts'
import { partyDatabase } from '../serving.ts'
import { letGo } from './grants/leases.ts'
import { raiseEnds } from './owners/ends.ts'
import type { AuthorityTables } from './tables.ts'

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<AuthorityTables>
/** A transaction: the first parameter of functions that must run inside one. */
export type Tx = AnyTx<AuthorityTables>
export type Database = AnyDatabase<AuthorityTables>
export type Pools = AnyPools<AuthorityTables>

/**
 * Opens the pools. Nothing is connected until first use. Whatever ends a grant through it, in a server or a
 * command, is counted, and returns once nobody relies on the grant any more.
 */
export function openDatabase(options: DatabaseOptions): Database {
  const database = openAny<AuthorityTables>(options)
  settleAfterCommit(database.db, letGo)
  countBeforeCommit(database.db, raiseEnds)
  return database
}

/** Published terms and receipts were signed, so no process that serves requests may change or remove one. */
const SCHEMA = {
  party: 'authority',
  appendOnly: ['receipts', 'terms_versions'],
  permanent: [],
  sequences: ['insertions'],
}

const BY = { setting: 'UMA_AS_MIGRATE', command: 'usher migrate' }

/** What makes acknowledgements need a standby, where the setting says so. */
export const standbySetting = (isRequired: boolean): string | undefined =>
  isRequired ? 'UMA_AS_REQUIRE_SYNC_STANDBY' : undefined

/** Its migrations, and how it is opened. */
export const AUTHORITY_DATABASE = partyDatabase<AuthorityTables>(SCHEMA, BY, openDatabase)
