/**
 * Owns what tests of an owner's ledger share: a database with a second replica, a key of the log, and how
 * entries are appended and a head is signed.
 */
import { sql } from 'kysely'
import { signTree } from '../../src/authority/ledger/checkpoints.ts'
import type { Database } from '../../src/storage/authority/database.ts'
import { readCheckpoint } from '../../src/storage/authority/ledger/ledger-checkpoints.ts'
import { appendLedgerAll, type NewLedgerEntry } from '../../src/storage/authority/ledger/ledger.ts'
import { number } from '../../src/storage/authority/ledger/positions.ts'
import { asHandle, type Owner } from '../../src/wire/identifiers.ts'
import { originBase } from '../../src/wire/ledger/checkpoint.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'
import { replicatedStand } from './stands.ts'

const ISSUER = 'https://as.example'
/** What the origins of its ledgers begin with. */
export const BASE = originBase(ISSUER)
/** How long entries stay, for tests that sweep those of 41 days. */
export const RETENTION_SECONDS = 40 * 86_400

/** The head of an owner's tree, as it is stored. */
export interface StoredHead {
  size: number
  root: Buffer
  frontier: Buffer
  /** What her origin ends with. */
  tag: string
  /** The time in her origin; null before the first restore. */
  origin_at: number | null
}

export interface LedgerStand {
  database: Database
  /** As another replica has it. */
  replica: Database
  /** What heads are signed with. */
  key: PrivateKey
  /** Appends so many approvals and numbers them; of the default ones every second has a handle. */
  append: (owner: Owner, count: number, entryOf?: (n: number) => Partial<NewLedgerEntry>) => Promise<void>
  sign: (owner: Owner, at?: Database) => ReturnType<typeof signTree>
  /** The checkpoint at the origin that she has. */
  present: (owner: Owner) => ReturnType<typeof readCheckpoint>
  /** Makes the last checkpoints two seconds older, so that the next one may be signed. */
  rested: (owner: Owner) => Promise<unknown>
  headOf: (owner: Owner) => Promise<StoredHead>
}

const EVERY_SECOND = (n: number): Partial<NewLedgerEntry> => ({
  ...(n % 2 === 0 ? { handle: asHandle('jkt:one') } : {}),
  data: { n },
})

/** Starts the database before the tests of a file. */
export function ledgerStand(): LedgerStand {
  const { database, replica } = replicatedStand()
  const key = importPrivateJwk(generatePrivateJwk())
  return {
    database,
    replica,
    key,
    append: async (owner, count, entryOf = EVERY_SECOND) => {
      const entries = Array.from({ length: count }, (_, n) => ({ kind: 'approved' as const, ...entryOf(n) }))
      await appendLedgerAll(database.db, owner, entries)
      await number(database.db, owner)
    },
    sign: (owner, { db } = database) => signTree(db, owner, { issuer: ISSUER, key }),
    present: owner => readCheckpoint(database.db, owner, BASE),
    rested: owner =>
      sql`UPDATE ledger_checkpoints SET signed_at = signed_at - interval '2 seconds' WHERE owner = ${owner}`.execute(
        database.db,
      ),
    headOf: async owner => {
      const { rows } = await sql<StoredHead>`
        SELECT tree_size AS size, tree_root AS root, frontier, tag, origin_at
        FROM heads JOIN owners USING (owner) WHERE owner = ${owner}`.execute(database.db)
      return rows[0]!
    },
  }
}
