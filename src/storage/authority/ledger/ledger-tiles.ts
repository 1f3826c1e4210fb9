/**
 * Reads the tiles of an owner's Merkle tree, and makes roots and proofs from them. docs/choices.md, "The tree
 * of the ledger". Contract: "Events" (row 5).
 */
import {
  HASH_BYTES,
  proverOf,
  TILE_HASHES,
  type GroupReader,
  type ProofPlan,
  type Tile,
  type TileReader,
} from '../../../rules/ledger/merkle.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { prepared } from '../../core/database.ts'
import type { Db } from '../database.ts'

const TILE_BYTES = TILE_HASHES * HASH_BYTES

/** A tile without its number of hashes. */
export type TilePlace = Pick<Tile, 'level' | 'index'>

/**
 * The tiles at these places, as one snapshot has them. What is nowhere is zero bytes, from which no root of
 * ours can be made. Of level 0, the last one alone may be open: its leaves are with their entries, and those
 * of deleted entries before them.
 */
export async function readTiles(db: Db, owner: Owner, places: readonly TilePlace[]): Promise<TileReader> {
  return (await readStored(db, owner, places)).read
}

/**
 * What makes the proofs of these plans, from one snapshot. It takes the stored roots of groups for those of
 * the tiles, so what decides whether a tree is the one that was signed reads the tiles instead.
 */
export async function readProver(
  db: Db,
  owner: Owner,
  plans: readonly ProofPlan[],
): Promise<(plan: ProofPlan) => Buffer[]> {
  const { read, groupsOf } = await readStored(
    db,
    owner,
    plans.flatMap(({ tiles }) => tiles),
  )
  return proverOf(read, groupsOf)
}

async function readStored(
  db: Db,
  owner: Owner,
  places: readonly TilePlace[],
): Promise<{ read: TileReader; groupsOf: GroupReader }> {
  const last = Math.max(-1, ...places.flatMap(({ level, index }) => (level === 0 ? [index] : [])))
  const { rows } = await READ_TILES(db, [
    owner,
    places.map(({ level }) => level),
    places.map(({ index }) => index),
    last,
  ])
  const tiles = new Map<string, Buffer>()
  const groups = new Map<string, Buffer>()
  for (const { level, index, at, hashes, group_roots } of rows) {
    const name = `${level}/${index}`
    const tile = tiles.get(name) ?? Buffer.alloc(TILE_BYTES)
    hashes.copy(tile, at * HASH_BYTES)
    tiles.set(name, tile)
    if (group_roots !== null) groups.set(name, group_roots)
  }
  return {
    read: ({ level, index }) => tiles.get(`${level}/${index}`) ?? Buffer.alloc(TILE_BYTES),
    groupsOf: ({ level, index }) => groups.get(`${level}/${index}`) ?? Buffer.alloc(0),
  }
}

/**
 * The leaves that are with her entries at the positions above `from` up to `to`, $1 being the owner: a row
 * for each run of them without a gap, and how many leaves are between `from` and its first. A leaf of another
 * length is none.
 */
export const leafRuns = (from: string, to: string): string => `
  SELECT min(e.seq) - 1 - ${from} AS at, string_agg(e.leaf, ''::bytea ORDER BY e.seq) AS hashes
  FROM (SELECT seq, leaf, seq - row_number() OVER (ORDER BY seq) AS run FROM ledger
    WHERE owner = $1 AND seq > ${from} AND seq <= ${to} AND octet_length(leaf) = ${HASH_BYTES}) e
  GROUP BY e.run`

const FIRST = `$4::bigint * ${TILE_HASHES}`
// A full tile comes last, so that it stands where both are; where it is, no entry is read.
const READ_TILES = prepared<{
  level: number
  index: number
  at: number
  hashes: Buffer
  group_roots: Buffer | null
}>(
  'read-tiles',
  `SELECT 0 AS level, $4::bigint AS index, r.at, r.hashes, NULL::bytea AS group_roots FROM (${leafRuns(FIRST, `(${FIRST} + ${TILE_HASHES})`)}) r
      WHERE NOT EXISTS (SELECT 1 FROM ledger_tiles f
        WHERE f.owner = $1 AND f.level = 0 AND f.index = $4::bigint AND octet_length(f.hashes) = ${TILE_BYTES})
    UNION ALL SELECT t.level, t.index, 0::bigint, t.hashes, t.group_roots
      FROM unnest($2::int[], $3::bigint[]) AS n(level, index)
      JOIN ledger_tiles t ON t.owner = $1 AND t.level = n.level AND t.index = n.index`,
)
