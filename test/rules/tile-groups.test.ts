/** Roots of groups of hashes, from which proofs of large trees are made: docs/details/ledger.md. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  appendLeaves,
  GROUP_HASHES,
  leafHash,
  planConsistency,
  planInclusion,
  proofOf,
  proverOf,
  rootOf,
  TILE_HASHES,
  type Frontier,
  type GroupReader,
  type Tile,
} from '../../src/rules/ledger/merkle.ts'

const NONE: Frontier = { size: 0, hashes: [] }
/** One full tile of level 1, and a group and a half of the next one. */
const SIZE = 280 * TILE_HASHES + 100
const GROUPS_OF_TILE = TILE_HASHES / GROUP_HASHES

describe('Above the leaves, the root of a group of hashes', () => {
  const leaves = Array.from({ length: SIZE }, (_, n) => leafHash(`leaf ${n}`))
  const { above, groups } = appendLeaves(NONE, leaves)
  const levels = [
    leaves,
    ...[1, 2].map(level => above.flatMap(one => (one.level === level ? [one.hash] : []))),
  ]
  const read = ({ level, index }: Tile): Uint8Array =>
    Buffer.concat(levels[level]!.slice(index * TILE_HASHES, (index + 1) * TILE_HASHES))

  it('is given when the group is complete, in order, and of leaves there is none', () => {
    const complete = Math.floor(levels[1]!.length / GROUP_HASHES)
    expect(groups.map(({ level, index }) => [level, index])).toEqual(
      Array.from({ length: complete }, (_, index) => [1, index]),
    )
    for (const { index, hash } of groups) {
      const own = levels[1]!.slice(index * GROUP_HASHES, (index + 1) * GROUP_HASHES)
      expect(hash).toEqual(rootOf(appendLeaves(NONE, own).frontier))
    }
  })

  it('makes the proofs that the tiles make, however many of a tile are known', () => {
    const roots = groups.map(({ hash }) => hash)
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: SIZE }),
        fc.nat(),
        fc.integer({ min: 0, max: GROUPS_OF_TILE }),
        (size, at, known) => {
          const groupsOf: GroupReader = ({ level, index }) =>
            level === 1
              ? Buffer.concat(roots.slice(index * GROUPS_OF_TILE, index * GROUPS_OF_TILE + known))
              : Buffer.alloc(0)
          const index = at % size
          for (const plan of [planInclusion(index, size), planConsistency(index + 1, size)])
            expect(proverOf(read, groupsOf)(plan)).toEqual(proofOf(plan, read))
        },
      ),
      { numRuns: 100 },
    )
  })

  it('saves the hashes below it: they are not read', () => {
    const widths: number[] = []
    const narrow = (tile: Tile): Uint8Array => {
      if (tile.level === 1) widths.push(tile.hashes)
      return read(tile)
    }
    const groupsOf: GroupReader = ({ level, index }) =>
      level === 1 && index === 0
        ? Buffer.concat(groups.slice(0, GROUPS_OF_TILE).map(({ hash }) => hash))
        : Buffer.alloc(0)
    // The first leaf of the second tile of leaves: beside it in level 1 stand 1, 2, 4 and 8 hashes, then
    // groups.
    const plan = planInclusion(TILE_HASHES, TILE_HASHES ** 2)
    expect(proverOf(narrow, groupsOf)(plan)).toHaveLength(16)
    expect(widths).toEqual([1, 4, 8, 16])
  })
})
