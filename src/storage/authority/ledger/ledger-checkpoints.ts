/**
 * The last signed checkpoint of each owner's ledger. Its size never falls, whoever signs. Contract: "Events"
 * (row 5); docs/choices.md, "Checkpoints of the ledger".
 */
import type { TreeHead } from '../../../rules/ledger/merkle.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'

/** A replica signs for an owner at most once in so many seconds, and so do all together. */
export const SIGNING_INTERVAL_SECONDS = 1

/** A checkpoint as it is kept: the signed note, and what is in it. */
export interface SignedCheckpoint {
  origin: string
  size: number
  root: Buffer
  kid: string
  note: string
}

/**
 * Her present origin, for which `$2` is what every origin of the issuer begins with: a restore gives her
 * another one.
 */
const ORIGIN = `$2::text || o.tag || coalesce('/' || h.origin_at, '')`

/** An owner's tree, and what was signed of it last at its present origin. */
export interface SignableTree {
  origin: string
  /** How many entries have a position. */
  ledger: number
  /** How many of them the tree covers; null before her first entry. */
  tree_size: number | null
  tree_root: Buffer | null
  signed_size: number | null
  signed_root: Buffer | null
  /** Whether that was less than SIGNING_INTERVAL_SECONDS ago. */
  rests: boolean
  /** Whether anything was ever signed of her ledger, at any origin. */
  was_signed: boolean
  /** The entry that says what this origin replaces is not in the tree yet. */
  lacks_restored: boolean
  /** The time in her origin; null if it has none. */
  origin_at: number | null
  /** A witness has cosigned more entries than the tree has. */
  is_lost: boolean
}

/** @param base what every origin of the issuer begins with. @returns undefined if there is no such owner. */
export async function readSignableTree(
  db: Db,
  owner: Owner,
  base: string,
): Promise<SignableTree | undefined> {
  return (await READ_SIGNABLE(db, [owner, base])).rows[0]
}

const READ_SIGNABLE = prepared<SignableTree>(
  'read-signable-tree',
  `SELECT ${ORIGIN} AS origin, h.origin_at, coalesce(h.ledger, 0) AS ledger, h.tree_size, h.tree_root,
      c.size AS signed_size, c.root AS signed_root,
      coalesce(c.signed_at > clock_timestamp() - interval '${SIGNING_INTERVAL_SECONDS} second', false) AS rests,
      EXISTS (SELECT 1 FROM ledger_checkpoints e WHERE e.owner = $1) AS was_signed,
      c.lost_size IS NOT NULL AS is_lost,
      c.owner IS NULL AND h.origin_at IS NOT NULL
        AND EXISTS (SELECT 1 FROM ledger e WHERE e.owner = $1 AND e.seq IS NULL AND e.kind = 'restored') AS lacks_restored
    FROM owners o LEFT JOIN heads h ON h.owner = o.owner
      LEFT JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = ${ORIGIN}
    WHERE o.owner = $1`,
)

/** What a checkpoint was verified to continue. */
export interface Continuing {
  /** The one before it at this origin; undefined: none. */
  before?: TreeHead | undefined
  /** The time in the origin; null if it has none. */
  origin_at: number | null
}

/**
 * Keeps a checkpoint in place of the one before it. @returns whether it was kept. It was not if another one
 * came first, if that was less than SIGNING_INTERVAL_SECONDS ago, if its origin is not the owner's any more,
 * or, for a first one, if the tree is another by now.
 */
export async function keepCheckpoint(
  db: Db,
  owner: Owner,
  { origin, size, root, kid, note }: SignedCheckpoint,
  { before, origin_at }: Continuing,
): Promise<boolean> {
  const values = [owner, origin, size, root, kid, note]
  const { affected } =
    before === undefined
      ? await KEEP_FIRST(db, [...values, origin_at])
      : await KEEP_NEXT(db, [...values, before.size, before.root])
  return affected === 1n
}

// The lock waits for whoever is making the tree anew, which nobody does once there is a checkpoint, and for
// whoever gives her another origin.
const KEEP_FIRST = prepared(
  'keep-first-checkpoint',
  `INSERT INTO ledger_checkpoints (owner, origin, size, root, kid, note)
    SELECT owner, $2::text, tree_size, tree_root, $5::text, $6::text FROM heads
    WHERE owner = $1 AND tree_size = $3 AND tree_root = $4 AND origin_at IS NOT DISTINCT FROM $7::bigint FOR SHARE
    ON CONFLICT (owner, origin) DO NOTHING`,
)
// Whoever gives her another origin writes this row, so that whoever signs meanwhile waits for it and finds it
// ended.
const KEEP_NEXT = prepared(
  'keep-next-checkpoint',
  `UPDATE ledger_checkpoints c SET size = $3, root = $4, kid = $5, note = $6, signed_at = t.at,
      hour = CASE WHEN ${hourOf('c.signed_at')} < ${hourOf('t.at')} THEN ${hourOf('t.at')} ELSE c.hour END,
      hour_note = CASE WHEN ${hourOf('c.signed_at')} < ${hourOf('t.at')} THEN c.note ELSE c.hour_note END,
      hour_kid = CASE WHEN ${hourOf('c.signed_at')} < ${hourOf('t.at')} THEN c.kid ELSE c.hour_kid END
    FROM (SELECT clock_timestamp() AS at OFFSET 0) t
    WHERE c.owner = $1 AND c.origin = $2 AND c.size = $7 AND c.root = $8 AND c.size < $3 AND c.ended_at IS NULL AND c.lost_size IS NULL
      AND c.signed_at <= t.at - interval '${SIGNING_INTERVAL_SECONDS} second'`,
)

/** Hours since the epoch, which are the same in every time zone of a session. */
function hourOf(time: string): string {
  return `floor(extract(epoch FROM ${time}) / 3600)::bigint`
}

/**
 * The note that was signed last at her present origin before this hour (hours since the epoch), and the `kid`
 * of its key. Undefined if there is none, if it is not known any more, or if the hour has not begun by the
 * clock of the database, because then another one may follow.
 */
export async function readHourCheckpoint(
  db: Db,
  owner: Owner,
  { base, hour }: { base: string; hour: number },
): Promise<{ note: string; kid: string } | undefined> {
  const row = (await READ_HOUR(db, [owner, base, hour])).rows[0]
  return row?.note == null || row.kid === null ? undefined : { note: row.note, kid: row.kid }
}

const READ_HOUR = prepared<{ note: string | null; kid: string | null }>(
  'read-hour-checkpoint',
  `SELECT CASE WHEN ${hourOf('c.signed_at')} < $3::bigint THEN c.note WHEN c.hour = $3 THEN c.hour_note END AS note,
      CASE WHEN ${hourOf('c.signed_at')} < $3::bigint THEN c.kid WHEN c.hour = $3 THEN c.hour_kid END AS kid
    FROM owners o LEFT JOIN heads h ON h.owner = o.owner
      JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = ${ORIGIN}
    WHERE o.owner = $1 AND ${hourOf('clock_timestamp()')} >= $3`,
)

/** Her last checkpoint at her present origin. */
export async function readCheckpoint(
  db: Db,
  owner: Owner,
  base: string,
): Promise<SignedCheckpoint | undefined> {
  return (await READ_CHECKPOINT(db, [owner, base])).rows[0]
}

const READ_CHECKPOINT = prepared<SignedCheckpoint>(
  'read-checkpoint',
  `SELECT c.origin, c.size, c.root, c.kid, c.note FROM owners o LEFT JOIN heads h ON h.owner = o.owner
    JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = ${ORIGIN} WHERE o.owner = $1`,
)

/** The owner of the log with this origin, and how many entries its last checkpoint covers. */
export async function readLog(
  db: Db,
  { base, tag }: { base: string; tag: string },
): Promise<{ owner: Owner; size: number } | undefined> {
  return (await READ_LOG(db, [tag, base])).rows[0]
}

const READ_LOG = prepared<{ owner: Owner; size: number }>(
  'read-log',
  `SELECT o.owner, c.size FROM directory d JOIN owners o ON o.owner = d.owner AND o.tag = d.key
    LEFT JOIN heads h ON h.owner = o.owner
    JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = ${ORIGIN}
    WHERE d.kind = 'tag' AND d.key = $1`,
)

/** The newest head that is known of an origin that has ended. */
export type ReplacedHead = Pick<SignedCheckpoint, 'origin' | 'size' | 'root'>

/**
 * Gives her ledger another origin from now on, and ends all that she had: whoever is signing there meanwhile
 * is waited for, or does not keep what it signed. @returns the newest head that is known of what was the
 * present origin; undefined if nothing was signed there. To be called when her head is locked.
 */
export async function replaceOrigin(tx: Tx, owner: Owner): Promise<ReplacedHead | undefined> {
  await SET_ORIGIN(tx, [owner])
  // The rows as they are once they are locked: one may have been signed since this transaction began.
  const ended = (await END_ORIGINS(tx, [owner])).rows
  return ended.sort((one, other) => other.signed_at.getTime() - one.signed_at.getTime())[0]
}

// Two restores within a second have different origins, too.
const SET_ORIGIN = prepared(
  'set-ledger-origin',
  `UPDATE heads SET origin_at = greatest(floor(extract(epoch FROM clock_timestamp()))::bigint, origin_at + 1)
    WHERE owner = $1`,
)
const END_ORIGINS = prepared<{ origin: string; size: number; root: Buffer; signed_at: Date }>(
  'end-ledger-origins',
  `UPDATE ledger_checkpoints SET ended_at = clock_timestamp() WHERE owner = $1 AND ended_at IS NULL
    RETURNING origin, size, root, signed_at`,
)
