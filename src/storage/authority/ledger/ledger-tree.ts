/**
 * The Merkle tree over an owner's ledger, as it is stored. The leaf is with its entry, full tiles and all
 * levels above are in `ledger_tiles`, and her head holds size, root and frontier. Whoever numbers entries
 * writes all of it in the same transaction. Leaves of entries that were numbered without them (before there
 * was a tree, or by an older program) follow by `completeTree`. Contract: "Events" (row 5); docs/choices.md,
 * "The tree of the ledger".
 *
 * Her head is locked wherever something of the tree is written; only a sweep, which deletes entries and keeps
 * their leaves, does without (sweep.ts).
 */
import { deletedLeaf, ledgerLeaf } from '../../../rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  GROUP_HASHES,
  HASH_BYTES,
  hashesIn,
  rootOf,
  TILE_HASHES,
  type LevelHash,
} from '../../../rules/ledger/merkle.ts'
import type { Owner } from '../../../wire/identifiers.ts'
import { inTransaction, prepared } from '../../core/database.ts'
import type { Db, Tx } from '../database.ts'
import { leafRuns } from './ledger-tiles.ts'

/** How many entries get a position or a leaf in one transaction at most: they fill one tile at most. */
export const ENTRIES_MAX = TILE_HASHES

/** An owner's head: her last position, and the tree, which may cover fewer. */
export interface Head {
  ledger: number
  tree_size: number
  frontier: Buffer
}

const LOCK_HEAD = prepared<Head>(
  'lock-head',
  'SELECT ledger, tree_size, frontier FROM heads WHERE owner = $1 FOR UPDATE',
)
const NEW_HEAD = prepared('new-head', 'INSERT INTO heads (owner) VALUES ($1) ON CONFLICT DO NOTHING')

/** Locks her head until the transaction ends, and reads it. Makes it if she has none. */
export async function lockHead(tx: Tx, owner: Owner): Promise<Head> {
  const { rows } = await LOCK_HEAD(tx, [owner])
  if (rows[0] !== undefined) return rows[0]
  await NEW_HEAD(tx, [owner])
  return (await LOCK_HEAD(tx, [owner])).rows[0]!
}

/** An entry, as it is read for its leaf. `id` exceeds what a number holds. */
interface ReadEntry {
  id: string
  seq: number | null
  ts: string
  kind: string
  /** Null if the row has none yet; then `new_salt` is to be written, which is null otherwise. */
  salt: Buffer | null
  new_salt: Buffer | null
  family: string | null
  handle: string | null
  count: number
  data: string
  /** Of the first with this handle among those that were read: the position of the one before it, if any. */
  before: number | null
}
type TreeEntry = ReadEntry & { seq: number }

/** For an entry from before there were salts; as the column's default is. */
const NEW_SALT = 'substring(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) FOR 16)'

/** $1 is the owner, $2 the position at or below which all entries before these are. */
const readEntries = (which: string, order: string): string => `
  SELECT e.id::text AS id, e.seq, e.ts, e.kind, e.salt, CASE WHEN e.salt IS NULL THEN ${NEW_SALT} END AS new_salt,
    e.family, e.handle, e.count, e.data::text AS data,
    CASE WHEN e.handle IS NOT NULL AND row_number() OVER (PARTITION BY e.handle ORDER BY e.${order}) = 1 THEN coalesce(
      (SELECT b.seq FROM ledger b WHERE b.owner = $1 AND b.handle = e.handle AND b.seq <= $2::bigint
        ORDER BY b.seq DESC LIMIT 1),
      (SELECT t.seq FROM ledger_tails t WHERE t.owner = $1 AND t.handle = e.handle)) END AS before
  FROM (SELECT * FROM ledger WHERE owner = $1 AND ${which}) e ORDER BY e.${order}`

const READ_UNNUMBERED = prepared<ReadEntry>(
  'entries-without-position',
  readEntries(`seq IS NULL ORDER BY id LIMIT ${ENTRIES_MAX}`, 'id'),
)
// It waits for a sweep that is deleting some of them, and lets none begin.
const READ_LEAFLESS = prepared<TreeEntry>(
  'entries-without-leaf',
  readEntries(`seq > $2::bigint AND seq <= $2::bigint + ${ENTRIES_MAX} ORDER BY seq FOR UPDATE`, 'seq'),
)

/**
 * What is to be written of entries, each in their order. There is an entry for each call, so the driver gets
 * nothing to convert: ids and positions are arrays as Postgres writes them, and leaves stand one after the
 * other (`leafIn`).
 */
export interface EntryValues {
  ids: string
  /** Null if all keep what they have; so do those that are null in it. */
  salts: (Buffer | null)[] | null
  /** Null without leaves, as these are. */
  prevs: string | null
  leaves: Buffer | null
}

/** What is to be written of her head: the tree as it is from now on. */
export interface TreeValues {
  size: number
  root: Uint8Array
  frontier: Buffer
}

/**
 * Reads the next entries without a position, and writes the tiles that they fill. @returns what the caller
 * must write to entries and head in this transaction; no tree, and no leaves, if older entries wait for
 * theirs.
 */
export async function placeEntries(
  tx: Tx,
  owner: Owner,
  head: Head,
): Promise<{ entries: EntryValues; tree: TreeValues | undefined }> {
  const { rows } = await READ_UNNUMBERED(tx, [owner, head.ledger])
  const placed = rows.map((row, n) => Object.assign(row, { seq: head.ledger + 1 + n }))
  if (head.tree_size < head.ledger) return { entries: valuesOf(placed), tree: undefined }
  return grow(tx, owner, { head, to: head.ledger + placed.length, entries: placed })
}

const TREE_BEHIND = prepared<{ behind: boolean }>(
  'tree-behind',
  'SELECT tree_size < ledger AS behind FROM heads WHERE owner = $1',
)
/** So many transactions at once, which take a tenth of a second: others have their turn after it. */
const STEPS_AT_ONCE = 8

/**
 * Gives their leaves to the next entries that have a position and no leaf. @returns whether there are more of
 * them. Positions whose entries were deleted before get the leaf that says so.
 */
export async function completeTree(db: Db, owner: Owner): Promise<boolean> {
  for (let step = 0; step < STEPS_AT_ONCE; step++) {
    const { rows } = await TREE_BEHIND(db, [owner])
    if (rows[0]?.behind !== true) return false
    await inTransaction(db, tx => completeStep(tx, owner))
  }
  return true
}

async function completeStep(tx: Tx, owner: Owner): Promise<void> {
  const head = await lockHead(tx, owner)
  const to = Math.min(head.ledger, head.tree_size + ENTRIES_MAX)
  // Another replica was quicker.
  if (to <= head.tree_size) return
  const { rows } = await READ_LEAFLESS(tx, [owner, head.tree_size])
  const { entries, tree } = await grow(tx, owner, { head, to, entries: rows })
  const { ids, salts, prevs, leaves } = entries
  await WRITE_LEAVES(tx, [owner, ids, salts, prevs, leaves, tree.size, tree.root, tree.frontier])
}

/** Of leaves that stand one after the other, the one of entry `nth`, from 1. */
export function leafIn(leaves: string, nth: string): string {
  return `substring(${leaves} FROM (${nth}::int - 1) * ${HASH_BYTES} + 1 FOR ${HASH_BYTES})`
}

const WRITE_LEAVES = prepared(
  'write-leaves',
  `WITH written AS (
      UPDATE ledger SET salt = coalesce(n.salt, ledger.salt), prev = n.prev, leaf = ${leafIn('$5::bytea', 'n.nth')}
      FROM unnest($2::bigint[], $3::bytea[], $4::bigint[]) WITH ORDINALITY AS n(id, salt, prev, nth)
      WHERE ledger.owner = $1 AND ledger.id = n.id)
    UPDATE heads SET tree_size = $6, tree_root = $7, frontier = $8 WHERE owner = $1`,
)

/** Grows the tree up to the position `to`, by these entries and by deleted ones where none of them stands. */
async function grow(
  tx: Tx,
  owner: Owner,
  { head, to, entries }: { head: Head; to: number; entries: readonly TreeEntry[] },
): Promise<{ entries: EntryValues; tree: TreeValues }> {
  const { tree_size: size } = head
  const prevs = previousOf(entries)
  const own = entries.map((entry, n) => leafOf(owner, entry, prevs[n] ?? 0))
  const added: Buffer[] = []
  const deleted: LevelHash[] = []
  for (let index = size, next = 0; index < to; index++) {
    if (entries[next]?.seq === index + 1) added.push(own[next++]!)
    else {
      added.push(deletedLeaf(owner, index + 1))
      deleted.push({ level: 0, index, hash: added.at(-1)! })
    }
  }
  const { frontier, above, groups } = appendLeaves({ size, hashes: hashesIn(head.frontier) }, added)
  // The first leaf that is in no full tile yet.
  const open = to - (to % TILE_HASHES)
  const full = open > size ? [await fullTile(tx, owner, { size, added })] : []
  const deletions = deleted.filter(({ index }) => index >= open)
  await writeTileRows(tx, owner, [...full, ...tilesOf([...deletions, ...above], groups)])
  const tree = { size: to, root: rootOf(frontier), frontier: Buffer.concat(frontier.hashes) }
  return { entries: { ...valuesOf(entries), prevs: arrayOf(prevs), leaves: Buffer.concat(own) }, tree }
}

/** A new object of the members that a leaf needs: it costs less than a copy of all. */
function leafOf(owner: Owner, entry: TreeEntry, prev: number): Buffer {
  const { ts, kind, family, handle, count, data } = entry
  const salt = (entry.salt ?? entry.new_salt)!
  return ledgerLeaf({ owner, ts, kind, prev, salt, family, handle, count, data })
}

const valuesOf = (entries: readonly TreeEntry[]): EntryValues => ({
  ids: arrayOf(entries.map(({ id }) => id)),
  salts: entries.some(({ new_salt }) => new_salt !== null) ? entries.map(({ new_salt }) => new_salt) : null,
  prevs: null,
  leaves: null,
})

/** Numbers as Postgres writes an array of them. */
const arrayOf = (numbers: readonly (string | number | null)[]): string =>
  `{${numbers.map(one => one ?? 'NULL').join(',')}}`

/** With a handle: the position of the entry before it with the same one, or 0. */
function previousOf(entries: readonly TreeEntry[]): (number | null)[] {
  const last = new Map<string, number>()
  return entries.map(({ handle, before, seq }) => {
    if (handle === null) return null
    const prev = last.get(handle) ?? before ?? 0
    last.set(handle, seq)
    return prev
  })
}

/** A tile, or what is put behind what there is of it. */
interface TileRow {
  level: number
  index: number
  hashes: Buffer
  group_roots: Buffer
}

const NO_GROUPS = Buffer.alloc(0)

/**
 * All leaves of the tile that these fill: those that were there before are with their entries, or are kept
 * where entries were deleted. One that is nowhere is 32 zero bytes: somebody took it out, and no proof that
 * needs it will hold.
 */
async function fullTile(
  tx: Tx,
  owner: Owner,
  { size, added }: { size: number; added: readonly Buffer[] },
): Promise<TileRow> {
  const first = size - (size % TILE_HASHES)
  const hashes = Buffer.alloc(TILE_HASHES * HASH_BYTES)
  const { rows } = first === size ? { rows: [] } : await LEAVES_OF_TILE(tx, [owner, first, size])
  for (const row of rows) row.hashes.copy(hashes, row.at * HASH_BYTES)
  for (let n = size - first; n < TILE_HASHES; n++) added[n - (size - first)]!.copy(hashes, n * HASH_BYTES)
  return { level: 0, index: first / TILE_HASHES, hashes, group_roots: NO_GROUPS }
}

/** $2 is the first leaf of the tile, $3 how many leaves the tree has. */
const LEAVES_OF_TILE = prepared<{ at: number; hashes: Buffer }>(
  'leaves-of-tile',
  `SELECT 0::bigint AS at, hashes FROM ledger_tiles
      WHERE owner = $1 AND level = 0 AND index = $2::bigint / ${TILE_HASHES}
    UNION ALL ${leafRuns('$2::bigint', '$3::bigint')}`,
)

/**
 * Puts hashes into their tiles, behind what is there, and the roots of groups that they complete. Those of
 * one tile stand in order and without gaps.
 */
export function writeTiles(
  tx: Tx,
  owner: Owner,
  hashes: readonly LevelHash[],
  groups: readonly LevelHash[],
): Promise<void> {
  return writeTileRows(tx, owner, tilesOf(hashes, groups))
}

function tilesOf(hashes: readonly LevelHash[], groups: readonly LevelHash[]): TileRow[] {
  const roots = byTile(groups, TILE_HASHES / GROUP_HASHES)
  return [...byTile(hashes, TILE_HASHES)].map(([name, tile]) => {
    const group_roots = roots.get(name)?.hashes ?? NO_GROUPS
    return { ...tile, group_roots }
  })
}

/** The hashes of each tile, one after the other, if each has so many places. */
function byTile(hashes: readonly LevelHash[], places: number): Map<string, Omit<TileRow, 'group_roots'>> {
  const tiles = new Map<string, { level: number; index: number; parts: Buffer[] }>()
  for (const { level, index: at, hash } of hashes) {
    const index = Math.floor(at / places)
    const name = `${level}/${index}`
    const tile = tiles.get(name) ?? { level, index, parts: [] }
    tile.parts.push(hash)
    tiles.set(name, tile)
  }
  return new Map(
    [...tiles].map(([name, { level, index, parts }]) => [
      name,
      { level, index, hashes: Buffer.concat(parts) },
    ]),
  )
}

async function writeTileRows(tx: Tx, owner: Owner, rows: readonly TileRow[]): Promise<void> {
  if (rows.length === 0) return
  await WRITE_TILES(tx, [
    owner,
    rows.map(({ level }) => level),
    rows.map(({ index }) => index),
    rows.map(({ hashes }) => hashes),
    rows.map(({ group_roots }) => group_roots),
  ])
}

const isFull = `octet_length(excluded.hashes) = ${TILE_HASHES * HASH_BYTES}`
/** How many bytes the roots of all complete groups of a tile have. */
const rootBytes = (hashes: string): string =>
  `octet_length(${hashes}) / ${GROUP_HASHES * HASH_BYTES} * ${HASH_BYTES}`

// A full tile replaces what was kept of it. Roots of groups that an older program left out stay out, and so
// do those behind them: each would be at another's place.
const WRITE_TILES = prepared(
  'write-tiles',
  `INSERT INTO ledger_tiles AS t (owner, level, index, hashes, group_roots)
    SELECT $1, n.level, n.index, n.hashes, n.roots
    FROM unnest($2::int[], $3::bigint[], $4::bytea[], $5::bytea[]) AS n(level, index, hashes, roots)
    ON CONFLICT (owner, level, index) DO UPDATE SET
      hashes = CASE WHEN ${isFull} THEN excluded.hashes ELSE t.hashes || excluded.hashes END,
      group_roots = CASE WHEN ${isFull} THEN excluded.group_roots
        WHEN coalesce(octet_length(t.group_roots), 0) = ${rootBytes('t.hashes')} THEN coalesce(t.group_roots, '') || excluded.group_roots
        ELSE t.group_roots END`,
)
