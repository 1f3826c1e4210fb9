/**
 * The last signed checkpoint of each owner's ledger. Its size never falls, whoever signs. Contract: "Events"
 * (row 5); docs/choices.md, "Checkpoints of the ledger".
 */
import type { TreeHead } from '../../../rules/ledger/merkle.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'

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
  `SELECT $2::text || o.tag AS origin, coalesce(h.ledger, 0) AS ledger, h.tree_size, h.tree_root,
      c.size AS signed_size, c.root AS signed_root,
      coalesce(c.signed_at > clock_timestamp() - interval '${SIGNING_INTERVAL_SECONDS} second', false) AS rests,
      EXISTS (SELECT 1 FROM ledger_checkpoints e WHERE e.owner = $1) AS was_signed
    FROM owners o LEFT JOIN heads h ON h.owner = o.owner
      LEFT JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = $2::text || o.tag
    WHERE o.owner = $1`,
)

/**
 * Keeps a checkpoint in place of `before`, the one at this origin from which it was verified to continue
 * (undefined: none). @returns whether it was kept. It was not if another one came first, if that was less
 * than SIGNING_INTERVAL_SECONDS ago, or, for a first one, if the tree is another by now.
 */
export async function keepCheckpoint(
  db: Db,
  owner: Owner,
  { origin, size, root, kid, note }: SignedCheckpoint,
  before: TreeHead | undefined,
): Promise<boolean> {
  const values = [owner, origin, size, root, kid, note]
  const { affected } =
    before === undefined
      ? await KEEP_FIRST(db, values)
      : await KEEP_NEXT(db, [...values, before.size, before.root])
  return affected === 1n
}

// The lock waits for whoever is making the tree anew, which nobody does once there is a checkpoint.
const KEEP_FIRST = prepared(
  'keep-first-checkpoint',
  `INSERT INTO ledger_checkpoints (owner, origin, size, root, kid, note)
    SELECT owner, $2::text, tree_size, tree_root, $5::text, $6::text FROM heads
    WHERE owner = $1 AND tree_size = $3 AND tree_root = $4 FOR SHARE
    ON CONFLICT (owner, origin) DO NOTHING`,
)
const KEEP_NEXT = prepared(
  'keep-next-checkpoint',
  `UPDATE ledger_checkpoints SET size = $3, root = $4, kid = $5, note = $6, signed_at = clock_timestamp()
    WHERE owner = $1 AND origin = $2 AND size = $7 AND root = $8 AND size < $3
      AND signed_at <= clock_timestamp() - interval '${SIGNING_INTERVAL_SECONDS} second'`,
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
  `SELECT c.origin, c.size, c.root, c.kid, c.note FROM owners o
    JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = $2::text || o.tag WHERE o.owner = $1`,
)

/** The owner of the log with this origin, and how many entries its last checkpoint covers. */
export async function readLog(
  db: Db,
  { base, tag }: { base: string; tag: string },
): Promise<{ owner: Owner; size: number } | undefined> {
  return (await READ_LOG(db, [base, tag])).rows[0]
}

const READ_LOG = prepared<{ owner: Owner; size: number }>(
  'read-log',
  `SELECT o.owner, c.size FROM directory d JOIN owners o ON o.owner = d.owner AND o.tag = d.key
    JOIN ledger_checkpoints c ON c.owner = o.owner AND c.origin = $1::text || o.tag
    WHERE d.kind = 'tag' AND d.key = $2`,
)
