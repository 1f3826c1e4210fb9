/**
 * What a database says of one witness, for whoever asks whether that witness does its work: a head to show
 * it, and how many it lacks. docs/details/ledger.md, "Witnesses". Contract: "Events" (row 5).
 */
import { sql } from 'kysely'
import type { VerifierKey } from '../../../wire/ledger/verifier-key.ts'
import { AUTHORITY_DATABASE, type Db } from '../database.ts'

/** A head that the witness knows: the signed note, and the cosignatures behind it if its own is kept. */
export interface HeadOfWitness {
  size: number
  note: string
  cosignatures: string
}

export interface WitnessRecord {
  /** The one that it cosigned last; else one that it knows, without a cosignature of this key. */
  head: HeadOfWitness | undefined
  /** How many heads it lacks that were signed over an hour ago, and that rounds have sent ever since. */
  behind: number
}

/** A round comes every ten minutes, so what a witness lacks after an hour was sent and not taken. */
const BEHIND = '1 hour'

/** What the database at `url` says of it; nothing if that was not migrated so far. */
export async function readWitnessRecord(
  url: string,
  witness: Pick<VerifierKey, 'name' | 'keyId' | 'key'>,
): Promise<WitnessRecord> {
  const database = AUTHORITY_DATABASE.open({ url, poolMax: 2 })
  const { db } = database
  try {
    const { rows } = await sql<{ made: boolean }>`
      SELECT to_regclass('witness_sizes') IS NOT NULL AS made`.execute(db)
    if (rows[0]?.made !== true) return { head: undefined, behind: 0 }
    const id = witness.key.thumbprint
    const head = (await readCosignedLast(db, witness)) ?? (await readKnown(db, id))
    return { head, behind: await countBehind(db, id) }
  } finally {
    await database.close()
  }
}

/** Of a key id so many characters of base64 say the same, whatever follows it. */
const KEY_ID_CHARACTERS = 5
/** Key id and time: 12 bytes. */
const TIMED_CHARACTERS = 16

async function readCosignedLast(
  db: Db,
  { name, keyId }: Pick<VerifierKey, 'name' | 'keyId'>,
): Promise<HeadOfWitness | undefined> {
  const named = `— ${name} `
  const line = named + keyId.toString('base64').slice(0, KEY_ID_CHARACTERS)
  const { rows } = await sql<HeadOfWitness>`SELECT size, note, cosignatures FROM witnessed_checkpoints
    WHERE strpos(cosignatures, ${line}) > 0
    ORDER BY decode(substr(split_part(cosignatures, ${named}, 2), 1, ${TIMED_CHARACTERS}), 'base64') DESC
    LIMIT 1`.execute(db)
  return rows[0]
}

async function readKnown(db: Db, witness: string): Promise<HeadOfWitness | undefined> {
  const { rows } = await sql<HeadOfWitness>`SELECT c.size, c.note, '' AS cosignatures FROM witness_sizes s
    JOIN ledger_checkpoints c ON c.owner = s.owner AND c.origin = s.origin AND c.size = s.size
    WHERE s.witness = ${witness} AND c.ended_at IS NULL AND c.lost_size IS NULL
    ORDER BY c.signed_at DESC LIMIT 1`.execute(db)
  return rows[0]
}

async function countBehind(db: Db, witness: string): Promise<number> {
  const { rows } = await sql<{ behind: number }>`SELECT count(*)::int AS behind FROM ledger_checkpoints c
    LEFT JOIN witness_sizes s ON s.owner = c.owner AND s.origin = c.origin AND s.witness = ${witness}
    WHERE c.ended_at IS NULL AND c.lost_size IS NULL AND coalesce(s.size, 0) < c.size
      AND c.signed_at < clock_timestamp() - ${BEHIND}::interval
      AND EXISTS (SELECT 1 FROM due d WHERE d.owner = c.owner AND d.kind = 'witness')`.execute(db)
  return rows[0]!.behind
}
