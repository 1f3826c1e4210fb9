/**
 * A witness's database: src/storage/core with the witness's own tables. docs/details/witness.md. Contract:
 * "Events" (row 5).
 */
import type { Db as AnyDb, Pools as AnyPools } from '../core/database.ts'
import { partyDatabase } from '../serving.ts'

/** The rows of a witness, as Postgres holds them (migrations/witness makes the tables). */
interface WitnessTables {
  issuers: { issuer: string; logs: number }
  checkpoints: {
    origin: string
    issuer: string
    size: number
    root: Buffer
    cosigned_at: string
    first_cosigned_at: string
  }
}

/** A connection or a transaction: the first parameter of every function of this folder. */
export type Db = AnyDb<WitnessTables>
export type Pools = AnyPools<WitnessTables>

/**
 * No process that serves requests can make a witness forget a log: it would believe another first checkpoint.
 */
const SCHEMA = { party: 'witness', appendOnly: [], permanent: ['issuers', 'checkpoints'], sequences: [] }

const BY = { setting: 'UMA_WITNESS_MIGRATE', command: 'usher witness migrate' }

/** The database's migrations, and how it is opened. */
export const WITNESS_DATABASE = partyDatabase<WitnessTables>(SCHEMA, BY)
