/**
 * The Merkle tree of the ledger: RFC 9162, 2.1, and C2SP `tlog-tiles`. docs/choices.md, "The tree of the
 * ledger".
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  appendLeaves,
  EMPTY_ROOT,
  HASH_BYTES,
  hashesIn,
  leafHash,
  nodeHash,
  planConsistency,
  planInclusion,
  planRoot,
  proofOf,
  proverOf,
  provesConsistency,
  provesInclusion,
  rootOf,
  TILE_HASHES,
  type Frontier,
  type ProofPlan,
  type Tile,
} from '../../src/rules/ledger/merkle.ts'
import { describeWith } from '../support/requirement.ts'
import { vectors } from '../support/vectors.ts'

const NONE: Frontier = { size: 0, hashes: [] }
const leavesOf = (size: number, from = 0) =>
  Array.from({ length: size }, (_, n) => leafHash(`leaf ${from + n}`))

/** RFC 9162, 2.1.1, word for word. */
function rootByDefinition(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 0) return createHash('sha256').digest()
  if (leaves.length === 1) return leaves[0]!
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  return nodeHash(rootByDefinition(leaves.slice(0, k)), rootByDefinition(leaves.slice(k)))
}

/** A log with all its tiles, as a store keeps them. */
function logOf(leaves: readonly Uint8Array[]) {
  const levels: Uint8Array[][] = [[...leaves]]
  const { frontier, above } = appendLeaves(NONE, leaves)
  for (const { level, index, hash } of above) {
    levels[level] ??= []
    expect(levels[level].length).toBe(index)
    levels[level].push(hash)
  }
  const read = ({ level, index }: Tile): Uint8Array =>
    Buffer.concat((levels[level] ?? []).slice(index * TILE_HASHES, (index + 1) * TILE_HASHES))
  const prove = (plan: ProofPlan): Buffer[] => proofOf(plan, read)
  return { size: leaves.length, root: Buffer.from(rootOf(frontier)), prove, read }
}

const changedBit = (bytes: Uint8Array, bit: number): Buffer => {
  const changed = Buffer.from(bytes)
  changed[Math.floor(bit / 8)]! ^= 1 << (bit % 8)
  return changed
}
const HASH_BITS = 8 * HASH_BYTES

describe('The tree', () => {
  it('without leaves has the hash of nothing as its root', () => {
    expect(EMPTY_ROOT.toString('hex')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    )
    expect(rootOf(NONE)).toEqual(EMPTY_ROOT)
  })

  /** Published with Certificate Transparency, whose trees are those of RFC 6962 and of RFC 9162. */
  const PUBLISHED_LEAVES = [
    '',
    '00',
    '10',
    '2021',
    '3031',
    '40414243',
    '5051525354555657',
    '606162636465666768696a6b6c6d6e6f',
  ]
  it.each([
    [1, '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d'],
    [2, 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125'],
    [3, 'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77'],
    [4, 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7'],
    [5, '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4'],
    [6, '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef'],
    [7, 'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c'],
    [8, '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328'],
  ])('of %i published leaves has the published root', (size, root) => {
    const leaves = PUBLISHED_LEAVES.slice(0, size).map(hex => leafHash(Buffer.from(hex, 'hex')))
    expect(Buffer.from(rootOf(appendLeaves(NONE, leaves).frontier)).toString('hex')).toBe(root)
  })

  it('takes a text as its UTF-8 bytes, and no leaf has the hash of a node', () => {
    expect(leafHash('é')).toEqual(leafHash(Buffer.from([0xc3, 0xa9])))
    const [left, right] = leavesOf(2)
    expect(leafHash(Buffer.concat([left!, right!]))).not.toEqual(nodeHash(left!, right!))
  })

  it('grown from its frontier in any steps is the whole tree, with the same hashes of its upper levels', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 6 }), steps => {
        let grown = NONE
        const above = []
        for (const step of steps) {
          const next = appendLeaves(grown, leavesOf(step, grown.size))
          expect(hashesIn(Buffer.concat(next.frontier.hashes))).toHaveLength(next.frontier.hashes.length)
          grown = next.frontier
          above.push(...next.above)
        }
        const leaves = leavesOf(grown.size)
        const whole = appendLeaves(NONE, leaves)
        expect(grown).toEqual(whole.frontier)
        expect(rootOf(grown)).toEqual(rootByDefinition(leaves))
        expect(above).toEqual(whole.above)
      }),
      { numRuns: 20 },
    )
  })

  it('takes no hash of another length for a node', () => {
    const [left, right] = leavesOf(2)
    for (const cut of [left!.subarray(1), Buffer.concat([left!, right!])]) {
      expect(() => nodeHash(cut, right!)).toThrow(RangeError)
      expect(() => nodeHash(left!, cut)).toThrow(RangeError)
    }
  })

  it('does not grow from a frontier of another size', () => {
    for (const size of [0, 2, 5]) {
      const frontier = { size, hashes: leavesOf(size === 0 ? 1 : 3) }
      expect(() => appendLeaves(frontier, leavesOf(1))).toThrow(`a tree of ${size} leaves has`)
    }
  })

  it('has in level 1 the root of each full tile of leaves, and in level 2 that of each full tile of level 1', () => {
    const leaves = leavesOf(TILE_HASHES ** 2 + 1)
    const { above } = appendLeaves(NONE, leaves)
    const [first, second] = [1, 2].map(level => above.filter(one => one.level === level))
    expect(first!.map(({ index }) => index)).toEqual(Array.from({ length: TILE_HASHES }, (_, n) => n))
    expect(first![7]!.hash).toEqual(rootByDefinition(leaves.slice(7 * TILE_HASHES, 8 * TILE_HASHES)))
    expect(second).toEqual([{ level: 2, index: 0, hash: rootByDefinition(first!.map(({ hash }) => hash)) }])
  })
})

describe('A proof of inclusion', () => {
  it('holds for each leaf of each tree up to 40, and for no other place, tree or leaf', () => {
    for (let size = 1; size <= 40; size++) {
      const leaves = leavesOf(size)
      const log = logOf(leaves)
      for (const [index, leaf] of leaves.entries()) {
        const proof = log.prove(planInclusion(index, size))
        expect(provesInclusion({ index, leaf }, log, proof)).toBe(true)
        const other = (index + 1) % size
        if (size > 1) expect(provesInclusion({ index: other, leaf }, log, proof)).toBe(false)
        expect(provesInclusion({ index, leaf: leafHash('another') }, log, proof)).toBe(false)
        expect(provesInclusion({ index, leaf }, log, [...proof, leaf])).toBe(false)
        if (size > 1) expect(provesInclusion({ index, leaf }, log, proof.slice(1))).toBe(false)
        const twice = { ...log, size: 2 * size }
        expect(provesInclusion({ index, leaf }, twice, proof)).toBe(false)
      }
    }
  })

  it('fails with any bit changed, of the leaf, of the root or of the proof', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 700 }),
        fc.nat(),
        fc.nat(),
        fc.nat(HASH_BITS - 1),
        (size, at, which, bit) => {
          const leaves = leavesOf(size)
          const [log, index] = [logOf(leaves), at % size]
          const leaf = leaves[index]!
          const proof = log.prove(planInclusion(index, size))
          expect(provesInclusion({ index, leaf }, log, proof)).toBe(true)
          expect(provesInclusion({ index, leaf: changedBit(leaf, bit) }, log, proof)).toBe(false)
          const { root } = log
          expect(provesInclusion({ index, leaf }, { size, root: changedBit(root, bit) }, proof)).toBe(false)
          const n = which % proof.length
          const changed = proof.with(n, changedBit(proof[n]!, bit))
          expect(provesInclusion({ index, leaf }, log, changed)).toBe(false)
        },
      ),
      { numRuns: 40 },
    )
  })

  it.each<[string, { index?: number; size?: number; cut?: boolean }]>([
    ['at a negative place', { index: -1 }],
    ['at half a place', { index: 1.5 }],
    ['behind the last leaf', { index: 5 }],
    ['in a tree without leaves', { index: 0, size: 0 }],
    ['in a tree of a size that numbers do not carry', { size: 2 ** 53 }],
    ['with a hash that is too short', { cut: true }],
  ])('shows nothing %s', (_what, { index = 2, size = 5, cut = false }) => {
    const leaves = leavesOf(5)
    const { root, prove } = logOf(leaves)
    const [first, ...rest] = prove(planInclusion(2, 5))
    const proof = [cut ? first!.subarray(1) : first!, ...rest]
    expect(provesInclusion({ index, leaf: leaves[2]! }, { size, root }, proof)).toBe(false)
  })

  it('of a leaf that the tree does not have cannot be planned', () => {
    for (const index of [-1, 3, 0.5]) expect(() => planInclusion(index, 3)).toThrow(RangeError)
  })
})

describe('A proof of consistency', () => {
  it('holds for all pairs of sizes up to 40, and with no other size or root', () => {
    const logs = Array.from({ length: 41 }, (_, size) => logOf(leavesOf(size)))
    for (let to = 1; to <= 40; to++)
      for (let from = 1; from <= to; from++) {
        const [older, newer] = [logs[from]!, logs[to]!]
        const proof = newer.prove(planConsistency(from, to))
        expect(provesConsistency(older, newer, proof)).toBe(true)
        const forked = { size: from, root: leafHash('forked') }
        expect(provesConsistency(forked, newer, proof)).toBe(false)
        expect(provesConsistency(older, { size: to, root: forked.root }, proof)).toBe(false)
        expect(provesConsistency(older, newer, [...proof, forked.root])).toBe(false)
        if (from < to) expect(provesConsistency(older, newer, proof.slice(0, -1))).toBe(false)
        expect(provesConsistency(older, { ...newer, size: 2 * to }, proof)).toBe(false)
        for (const size of [from - 1, from + 1])
          if (size !== to) expect(provesConsistency({ ...older, size }, newer, proof)).toBe(false)
      }
  })

  it('fails with any bit changed, of a root or of the proof', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 700 }),
        fc.nat(),
        fc.nat(),
        fc.nat(HASH_BITS - 1),
        (to, at, which, bit) => {
          const from = 1 + (at % (to - 1))
          const [older, newer] = [logOf(leavesOf(from)), logOf(leavesOf(to))]
          const proof = newer.prove(planConsistency(from, to))
          expect(provesConsistency(older, newer, proof)).toBe(true)
          const other = (head: { size: number; root: Uint8Array }) => ({
            size: head.size,
            root: changedBit(head.root, bit),
          })
          expect(provesConsistency(other(older), newer, proof)).toBe(false)
          expect(provesConsistency(older, other(newer), proof)).toBe(false)
          const n = which % proof.length
          const changed = proof.with(n, changedBit(proof[n]!, bit))
          expect(provesConsistency(older, newer, changed)).toBe(false)
        },
      ),
      { numRuns: 40 },
    )
  })

  it('of a tree with itself is empty, and of the tree without leaves there is none', () => {
    const [none, log] = [logOf([]), logOf(leavesOf(5))]
    expect(log.prove(planConsistency(5, 5))).toEqual([])
    expect(provesConsistency(log, log, [])).toBe(true)
    expect(provesConsistency(log, { ...log, root: none.root }, [])).toBe(false)
    expect(provesConsistency(none, log, [])).toBe(false)
    for (const from of [0, 6, 1.5]) expect(() => planConsistency(from, 5)).toThrow(RangeError)
  })
})

describe('The tiles of a proof', () => {
  it('are at most two of each level, and hold all that it reads', () => {
    const size = fc.integer({ min: 1, max: 2 ** 40 })
    fc.assert(
      fc.property(size, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (size, part) => {
        const index = Math.floor(part * size)
        for (const { tiles } of [planInclusion(index, size), planConsistency(index + 1, size)])
          for (const { level, index: number, hashes } of tiles) {
            expect(tiles.filter(one => one.level === level).length).toBeLessThanOrEqual(2)
            expect(hashes).toBeLessThanOrEqual(TILE_HASHES)
            expect(number * TILE_HASHES + hashes).toBeLessThanOrEqual(Math.floor(size / TILE_HASHES ** level))
          }
      }),
    )
  })

  it('are the only ones that are read, and one with too few hashes makes no proof', () => {
    const { read } = logOf(leavesOf(700))
    const plan = planInclusion(600, 700)
    const asked = new Set<string>()
    proofOf(plan, tile => {
      asked.add(`${tile.level}/${tile.index}`)
      return read(tile)
    })
    expect(asked).toEqual(new Set(plan.tiles.map(({ level, index }) => `${level}/${index}`)))
    expect(asked).toEqual(new Set(['0/2', '1/0']))
    expect(() => proofOf(plan, tile => read(tile).subarray(0, HASH_BYTES))).toThrow(RangeError)
  })
})

describe('Proofs that are made together', () => {
  it('are what each is by itself, and leave the tiles as they are', () => {
    const { read } = logOf(leavesOf(700))
    const tiles = new Map<string, Uint8Array>()
    const readOnce = (tile: Tile): Uint8Array => {
      const name = `${tile.level}/${tile.index}`
      return tiles.get(name) ?? tiles.set(name, read(tile)).get(name)!
    }
    const prove = proverOf(readOnce)
    const sizes = fc.integer({ min: 1, max: 700 })
    fc.assert(
      fc.property(sizes, fc.nat(), (size, at) => {
        const index = at % size
        for (const plan of [planInclusion(index, size), planConsistency(index + 1, size), planRoot(size)])
          expect(prove(plan)).toEqual(proofOf(plan, read))
      }),
    )
    for (const [level, index] of [...tiles.keys()].map(name => name.split('/').map(Number)))
      expect(tiles.get(`${level}/${index}`)).toEqual(read({ level: level!, index: index!, hashes: 0 }))
  })
})

/** What golang.org/x/mod/sumdb/tlog v0.32.0 printed; test/rules/tlog.go says how. */
const BY_GO = JSON.parse(readFileSync(new URL('tlog.json', import.meta.url), 'utf8')) as {
  size: number
  root: string
  inclusion: string
  consistency: string
}[]

describe('Go’s checksum database makes the same', () => {
  const leaves = leavesOf(BY_GO.at(-1)!.size)
  it.each(BY_GO)('roots and proofs of $size leaves', ({ size, root, inclusion, consistency }) => {
    const log = logOf(leaves.slice(0, size))
    const digestOf = (plans: ProofPlan[]) =>
      createHash('sha256')
        .update(Buffer.concat(plans.flatMap(log.prove)))
        .digest('hex')
    const places = Array.from({ length: size }, (_, index) => index)
    expect(log.root.toString('hex')).toBe(root)
    expect(digestOf(places.map(index => planInclusion(index, size)))).toBe(inclusion)
    expect(digestOf(places.map(index => planConsistency(index + 1, size)))).toBe(consistency)
  })
})

/** The records of github.com/transparency-dev/merkle, `testdata`, each in a list of all of one kind. */
interface InclusionRecord {
  leafIdx: number
  treeSize: number
  root: string | null
  leafHash: string | null
  proof: string[] | null
  desc: string
  wantErr: boolean
}
interface ConsistencyRecord {
  size1: number
  size2: number
  root1: string | null
  root2: string | null
  proof: string[] | null
  desc: string
  wantErr: boolean
}
const bytesOf = (text: string | null) => Buffer.from(text ?? '', 'base64')

/** Wherever they are kept beside this repository, they are tried; nothing here brings them. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the file's shape
function describeRecords<T>(name: string, title: string, register: (records: T[]) => void): void {
  const found = vectors<T[]>(name)
  const absent = { missing: `${name} is not in VECTORS_DIR`, inCi: false } as const
  describeWith(found === undefined ? absent : { found }, `${title} (${name})`, register)
}

describeRecords<InclusionRecord>('merkle/inclusion.json', 'Published proofs of inclusion', records => {
  it.each(records)('of leaf $leafIdx in $treeSize leaves: $desc', record => {
    const { leafIdx: index, treeSize: size, root, leafHash: leaf, proof, wantErr } = record
    const hashes = (proof ?? []).map(bytesOf)
    expect(provesInclusion({ index, leaf: bytesOf(leaf) }, { size, root: bytesOf(root) }, hashes)).toBe(
      !wantErr,
    )
  })
})

describeRecords<ConsistencyRecord>('merkle/consistency.json', 'Published proofs of consistency', records => {
  it.each(records)('from $size1 to $size2 leaves: $desc', record => {
    const { size1, size2, root1, root2, proof, wantErr } = record
    const [older, newer] = [
      { size: size1, root: bytesOf(root1) },
      { size: size2, root: bytesOf(root2) },
    ]
    expect(provesConsistency(older, newer, (proof ?? []).map(bytesOf))).toBe(!wantErr)
  })
})
