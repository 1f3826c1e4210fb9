/**
 * The organization's database: src/storage/core with the organization's own tables. Contract: "The
 * organization's authority".
 */
import type { Db as AnyDb, Pools as AnyPools, Tx as AnyTx } from '../core/database.ts'
import { partyDatabase } from '../serving.ts'
import type { OrganizationTables } from './tables.ts'

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<OrganizationTables>
/** A transaction: the first parameter of functions that must run inside one. */
export type Tx = AnyTx<OrganizationTables>
export type Pools = AnyPools<OrganizationTables>

/** No process that serves requests can change or remove what members agreed to, or the record of acts. */
const SCHEMA = { party: 'organization', appendOnly: ['charters', 'activity'], permanent: [], sequences: [] }

const BY = { setting: 'UMA_ORG_MIGRATE', command: 'usher organization migrate' }

/** The database's migrations, and how it is opened. */
export const ORGANIZATION_DATABASE = partyDatabase<OrganizationTables>(SCHEMA, BY)
