/**
 * Makes a tree anew in which leaves are missing, before anything of it was signed. The sweep of a program
 * from before the tree deletes entries and keeps none of their leaves, so trees have gaps where its replicas
 * ran beside newer ones. docs/choices.md, "Checkpoints of the ledger". Contract: "Events" (row 5).
 */
import { deletedLeaf } from '../../../rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  HASH_BYTES,
  hashesIn,
  rootOf,
  TILE_HASHES,
  type Frontier,
  type LevelHash,
} from '../../../rules/ledger/merkle.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { inTransaction, prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import { lockHead, writeTiles } from './ledger-tree.ts'

const TILE_BYTES = TILE_HASHES * HASH_BYTES
const NO_HASH = Buffer.alloc(HASH_BYTES)
/** How many tiles are read at once; between them others have their turn. */
const TILES_AT_ONCE = 32

/**
 * Whether leaves of her tree are missing: a full tile has none of a position, or the open one has too few.
 */
const HAS_GAPS = prepared<{ gaps: boolean }>(
  'tree-has-gaps',
  `SELECT EXISTS (SELECT 1 FROM ledger_tiles t WHERE t.owner = $1 AND t.level = 0 AND t.index < h.tree_size / ${TILE_HASHES}
        AND (octet_length(t.hashes) <> ${TILE_BYTES} OR position($2::bytea IN t.hashes) > 0))
      OR (SELECT count(*) FROM ledger_tiles t WHERE t.owner = $1 AND t.level = 0 AND t.index < h.tree_size / ${TILE_HASHES})
        <> h.tree_size / ${TILE_HASHES}
      OR coalesce((SELECT octet_length(t.hashes) / ${HASH_BYTES} FROM ledger_tiles t
          WHERE t.owner = $1 AND t.level = 0 AND t.index = h.tree_size / ${TILE_HASHES}), 0)
        + (SELECT count(*) FROM ledger e WHERE e.owner = $1 AND e.seq > h.tree_size / ${TILE_HASHES} * ${TILE_HASHES}
          AND e.seq <= h.tree_size AND e.leaf IS NOT NULL) <> h.tree_size % ${TILE_HASHES} AS gaps
    FROM heads h WHERE h.owner = $1`,
)
const hasGaps = async (db: Db, owner: Owner): Promise<boolean> =>
  (await HAS_GAPS(db, [owner, NO_HASH])).rows[0]?.gaps === true

/**
 * Makes her tree anew if leaves are missing in it and nothing of it was signed. Each missing one is from then
 * on the leaf of a deleted entry. @returns whether it was made anew.
 */
export async function mendGaps(db: Db, owner: Owner): Promise<boolean> {
  if (!(await hasGaps(db, owner))) return false
  return inTransaction(db, async tx => {
    // From here on nobody numbers, and whoever signs first finds another tree than the one that was read.
    const { tree_size: size } = await lockHead(tx, owner)
    const { rows } = await WAS_SIGNED(tx, [owner])
    if (rows[0]?.signed === true || !(await hasGaps(tx, owner))) return false
    await makeAnew(tx, owner, size)
    return true
  })
}

const WAS_SIGNED = prepared<{ signed: boolean }>(
  'ledger-was-signed',
  'SELECT EXISTS (SELECT 1 FROM ledger_checkpoints WHERE owner = $1) AS signed',
)

async function makeAnew(tx: Tx, owner: Owner, size: number): Promise<void> {
  let frontier: Frontier = { size: 0, hashes: [] }
  const upper: LevelHash[] = []
  const groups: LevelHash[] = []
  for (let first = 0; first < size; first += TILES_AT_ONCE * TILE_HASHES) {
    const tiles = await wholeTiles(tx, owner, { first, size })
    for (const leaves of tiles) {
      const grown = appendLeaves(frontier, leaves)
      frontier = grown.frontier
      upper.push(...grown.above)
      groups.push(...grown.groups)
    }
  }
  await DELETE_UPPER(tx, [owner])
  await writeTiles(tx, owner, upper, groups)
  await WRITE_HEAD(tx, [owner, rootOf(frontier), Buffer.concat(frontier.hashes)])
}

const DELETE_UPPER = prepared('delete-upper-tiles', 'DELETE FROM ledger_tiles WHERE owner = $1 AND level > 0')
const WRITE_HEAD = prepared('mend-head', 'UPDATE heads SET tree_root = $2, frontier = $3 WHERE owner = $1')

/** The leaves of some tiles from the leaf `first` on, each mended, and written if it was. */
async function wholeTiles(
  tx: Tx,
  owner: Owner,
  { first, size }: { first: number; size: number },
): Promise<Buffer[][]> {
  const end = Math.min(size, first + TILES_AT_ONCE * TILE_HASHES)
  // Waits for a sweep that is deleting some of them, and lets none begin.
  const { rows: entries } = await LOCK_LEAVES(tx, [owner, first, end])
  const { rows: stored } = await READ_KEPT(tx, [owner, first / TILE_HASHES, Math.ceil(end / TILE_HASHES)])
  const leafAt = new Map(entries.map(({ seq, leaf }) => [seq - 1, leaf]))
  const hashesOf = new Map(stored.map(({ index, hashes }) => [index, hashes]))
  const tiles: Buffer[][] = []
  for (let at = first; at < end; at += TILE_HASHES) {
    const index = at / TILE_HASHES
    const count = Math.min(TILE_HASHES, end - at)
    const before = hashesIn(hashesOf.get(index) ?? NO_HASH.subarray(0, 0)).map(hash => Buffer.from(hash))
    const isFull = count === TILE_HASHES
    const isWhole = isFull
      ? before.length === TILE_HASHES && !before.some(hash => hash.equals(NO_HASH))
      : before.length + countBetween(leafAt, at, at + count) === count
    const leaves = Array.from({ length: count }, (_, n) => {
      const own = leafAt.get(at + n)
      if (!isWhole) return own ?? deletedLeaf(owner, at + n + 1)
      return isFull ? before[n]! : (own ?? before[n]!)
    })
    if (!isWhole) {
      const written = isFull ? leaves : leaves.filter((_, n) => !leafAt.has(at + n))
      await REPLACE_TILE(tx, [owner, index, Buffer.concat(written)])
    }
    tiles.push(leaves)
  }
  return tiles
}

const countBetween = (leafAt: ReadonlyMap<number, Buffer>, from: number, to: number): number =>
  Array.from({ length: to - from }, (_, n) => leafAt.has(from + n)).filter(Boolean).length

const LOCK_LEAVES = prepared<{ seq: number; leaf: Buffer }>(
  'lock-leaves',
  `SELECT seq, leaf FROM ledger WHERE owner = $1 AND seq > $2 AND seq <= $3 AND leaf IS NOT NULL
    ORDER BY seq FOR UPDATE`,
)
const READ_KEPT = prepared<{ index: number; hashes: Buffer }>(
  'read-kept-leaves',
  'SELECT index, hashes FROM ledger_tiles WHERE owner = $1 AND level = 0 AND index >= $2 AND index < $3',
)
const REPLACE_TILE = prepared(
  'replace-tile',
  `INSERT INTO ledger_tiles (owner, level, index, hashes) VALUES ($1, 0, $2, $3)
    ON CONFLICT (owner, level, index) DO UPDATE SET hashes = excluded.hashes`,
)
