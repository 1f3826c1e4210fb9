/**
 * What witnesses have cosigned of owners' ledgers: when an owner's head is to be sent to them, the newest
 * head that one has cosigned, and where the proof for each begins. docs/details/ledger.md, "Witnesses".
 * Contract: "Events" (row 5).
 */
import type { Owner } from '../../../wire/identifiers.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'

/** So long after a head was signed it is sent, with what was signed meanwhile. */
const FIRST_SECONDS = 5

/**
 * Notes that a new head is to be sent to the witnesses. If her round is due already, it stays so; whoever has
 * taken it finds that something changed meanwhile, and leaves it due.
 */
export async function dueForWitnesses(db: Db, owner: Owner): Promise<void> {
  await DUE_FOR_WITNESSES(db, [owner])
}

const DUE_FOR_WITNESSES = prepared(
  'due-for-witnesses',
  `INSERT INTO due (owner, kind, at)
    SELECT owner, 'witness', clock_timestamp() + interval '${FIRST_SECONDS} seconds' FROM owners WHERE owner = $1
    ON CONFLICT (owner, kind, client_id) DO UPDATE SET at = due.at - interval '1 microsecond'`,
)

/** Makes her next round due, so long after this one. */
export async function witnessesAgain(db: Db, owner: Owner): Promise<void> {
  await WITNESSES_AGAIN(db, [owner])
}

const ROUND_PAUSE = '10 minutes'

const WITNESSES_AGAIN = prepared(
  'witnesses-again',
  `UPDATE due SET at = clock_timestamp() + interval '${ROUND_PAUSE}' WHERE owner = $1 AND kind = 'witness'`,
)

/**
 * The size that each witness has cosigned last at this origin, by the thumbprint of its key, as far as is
 * known.
 */
export async function readWitnessSizes(
  db: Db,
  owner: Owner,
  origin: string,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await READ_SIZES(db, [owner, origin])
  return new Map(rows.map(({ witness, size }) => [witness, size]))
}

const READ_SIZES = prepared<{ witness: string; size: number }>(
  'read-witness-sizes',
  'SELECT witness, size FROM witness_sizes WHERE owner = $1 AND origin = $2',
)

/** What a witness has cosigned: that it says so is enough, because a proof begins there. */
export interface WitnessSize {
  origin: string
  /** The thumbprint of its key. */
  witness: string
  size: number
}

/** Keeps where the next proof for this witness begins. */
export async function keepWitnessSize(
  db: Db,
  owner: Owner,
  { origin, witness, size }: WitnessSize,
): Promise<void> {
  await KEEP_SIZE(db, [owner, origin, witness, size])
}

const KEEP_SIZE = prepared(
  'keep-witness-size',
  `INSERT INTO witness_sizes (owner, origin, witness, size) VALUES ($1, $2, $3, $4)
    ON CONFLICT (owner, origin, witness) DO UPDATE SET size = excluded.size`,
)

/** A checkpoint, and lines of cosignatures that were verified. */
export interface WitnessedCheckpoint {
  origin: string
  size: number
  note: string
  cosignatures: string
}

/** Keeps it in place of an older one. The lines of several witnesses about one checkpoint stand together. */
export async function keepWitnessed(
  db: Db,
  owner: Owner,
  { origin, size, note, cosignatures }: WitnessedCheckpoint,
): Promise<void> {
  await KEEP_WITNESSED(db, [owner, origin, size, note, cosignatures])
}

const KEEP_WITNESSED = prepared(
  'keep-witnessed',
  `INSERT INTO witnessed_checkpoints AS w (owner, origin, size, note, cosignatures) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (owner, origin) DO UPDATE SET size = excluded.size, note = excluded.note,
      cosignatures = CASE WHEN w.size = excluded.size AND w.note = excluded.note
        THEN w.cosignatures || excluded.cosignatures ELSE excluded.cosignatures END
    WHERE w.size <= excluded.size`,
)

/** The newest signed note of this origin that a witness has cosigned, with the cosignatures. */
export async function readWitnessed(db: Db, owner: Owner, origin: string): Promise<string | undefined> {
  const row = (await READ_WITNESSED(db, [owner, origin])).rows[0]
  return row && row.note + row.cosignatures
}

const READ_WITNESSED = prepared<{ note: string; cosignatures: string }>(
  'read-witnessed',
  'SELECT note, cosignatures FROM witnessed_checkpoints WHERE owner = $1 AND origin = $2',
)

/**
 * Ends signing at this origin if a witness has cosigned more entries than her tree has: commits were lost, as
 * by a fail-over, and what would be signed from now on contradicts what was signed. @returns whether it did.
 */
export async function loseOrigin(
  db: Db,
  owner: Owner,
  { origin, size }: { origin: string; size: number },
): Promise<boolean> {
  return (await LOSE_ORIGIN(db, [owner, origin, size])).affected === 1n
}

const LOSE_ORIGIN = prepared(
  'lose-origin',
  `UPDATE ledger_checkpoints c SET lost_size = $3 FROM heads h
    WHERE c.owner = $1 AND c.origin = $2 AND c.ended_at IS NULL AND c.lost_size IS NULL
      AND h.owner = c.owner AND h.tree_size < $3`,
)
