/**
 * The tiles in the file of a ledger that somebody verifies, and which of them are not those of the tree that
 * was signed. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import type { Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type { LedgerFileTile } from '../../wire/ledger/ledger-file.ts'
import type { LedgerFault } from './ledger-faults.ts'
import { growTree, HASH_BYTES, rootOf, TILE_HASHES, type LeafAt, type Tile } from './merkle.ts'

export interface StoredTiles {
  /** Keeps a tile, if it is one of this tree; of two in one place the first counts. */
  add: (tile: LedgerFileTile) => void
  /** How many leaves so many tiles have at most. */
  leavesMax: () => number
  /** The leaves as the tiles have them. */
  leafAt: LeafAt
  /** Tiles that are none of this tree, are there twice or have another width; then those that are absent. */
  faults: () => LedgerFault[]
  /**
   * Whether these leaves have the root that was signed, and which tiles above are not made from them. Nothing
   * is known of those where a leaf is absent.
   */
  compare: (leafAt: LeafAt) => { hasRoot: boolean; upper: LedgerFault[] }
}

/** The tiles of the tree with this head, none of which is there yet. */
export function storedTiles({ size, root }: Checkpoint): StoredTiles {
  const levels: { width: number; tiles: Map<number, Uint8Array> }[] = []
  for (let width = size; width > 0; width = Math.floor(width / TILE_HASHES))
    levels.push({ width, tiles: new Map() })
  const wrong: LedgerFault[] = []
  let count = 0
  const hashAt = (level: number, place: number): Uint8Array | undefined => {
    const at = (place % TILE_HASHES) * HASH_BYTES
    const hashes = levels[level]?.tiles.get(Math.floor(place / TILE_HASHES))
    return hashes?.subarray(at, at + HASH_BYTES)
  }
  return {
    add: ({ level, index, hashes }) => {
      count += 1
      const row = levels[level]
      const width = Math.min(TILE_HASHES, (row?.width ?? 0) - index * TILE_HASHES)
      const isOfWidth = width === Math.floor(hashes.length / HASH_BYTES)
      if (row === undefined || !isOfWidth || row.tiles.has(index))
        wrong.push(
          tileFault(
            { level, index },
            width > 0 ? 'is there twice or has another width' : 'is none of this tree',
          ),
        )
      else row.tiles.set(index, hashes)
    },
    leavesMax: () => count * TILE_HASHES,
    leafAt: place => hashAt(0, place),
    faults: () => {
      const absent = levels.flatMap(({ width, tiles }, level) =>
        Array.from({ length: Math.ceil(width / TILE_HASHES) }, (_, index) => index)
          .filter(index => !tiles.has(index))
          .map(index => tileFault({ level, index }, 'is not there')),
      )
      return [...wrong, ...absent]
    },
    compare: leafAt => {
      const others = new Map<string, LedgerFault>()
      const tree = growTree({ size: 0, hashes: [] }, size, {
        leafAt,
        above: ({ level, index: place, hash }) => {
          const stored = hashAt(level, place)
          const index = Math.floor(place / TILE_HASHES)
          if (stored !== undefined && !isSameHash(stored, hash))
            others.set(
              `${level}/${index}`,
              tileFault({ level, index }, 'is not made from the hashes below it'),
            )
        },
      })
      if (tree === undefined) return { hasRoot: false, upper: [] }
      return { hasRoot: isSameHash(rootOf(tree), root), upper: [...others.values()] }
    },
  }
}

function tileFault({ level, index }: Pick<Tile, 'level' | 'index'>, why: string): LedgerFault {
  const leaves = TILE_HASHES ** (level + 1)
  const sentence = `Tile ${level}/${index} ${why}: it is over the entries from ${index * leaves + 1} on. Export the ledger again.`
  return { code: 'tile', position: index * leaves + 1, sentence }
}

/** Whether both are there and the same. */
export function isSameHash(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && Buffer.compare(one, other) === 0
}
