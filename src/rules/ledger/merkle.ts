/**
 * The Merkle tree of RFC 9162, section 2.1, over the leaves of one owner's ledger: how it grows, what its
 * tiles hold (C2SP `tlog-tiles`: 256 hashes each), its proofs, and how others verify them. Proofs name the
 * tiles that they are made from, so that a store reads those alone. Contract: "Events" (row 5);
 * docs/choices.md, "The tree of the ledger".
 *
 * Sizes and positions are counts of leaves, from 0. They are numbers, and so no tree has more than 2^53 - 1
 * leaves. A hash has 32 bytes.
 */
import { sha256, writeSha256 } from '../../wire/encoding.ts'

export const HASH_BYTES = 32
/** How many hashes a full tile holds. */
export const TILE_HASHES = 256
/** A full tile of one level is one hash of the level above: log2 of TILE_HASHES heights lie between them. */
const TILE_HEIGHT = 8
/**
 * Above level 0 a store may keep the root of each so many hashes of a tile, too. Then a large tree's proof is
 * made from few hashes more than a small one's.
 */
export const GROUP_HASHES = 16
const GROUP_HEIGHT = 4

const LEAF_PREFIX = Buffer.from([0])
/** As many as a size has binary ones, and the leaf that is added. */
const SUBTREES_MAX = 54
/** What is hashed for a node: 0x01 and two hashes. Used again, because there are as many nodes as leaves. */
const NODE = Buffer.alloc(1 + 2 * HASH_BYTES, 1)

/** The root of the tree without leaves. */
export const EMPTY_ROOT: Buffer = sha256('')

/** The hash of a leaf. A string stands for its UTF-8 bytes. */
export function leafHash(content: Uint8Array | string): Buffer {
  return sha256(typeof content === 'string' ? `\0${content}` : Buffer.concat([LEAF_PREFIX, content]))
}

/** The hash of the node above two others. @throws RangeError unless each has 32 bytes. */
export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  if (!isHash(left) || !isHash(right)) throw new RangeError('a hash has 32 bytes')
  NODE.set(left, 1)
  NODE.set(right, 1 + HASH_BYTES)
  return sha256(NODE)
}

/** Writes the hash of the node above the hash `from` of a row and the next one in place of the hash `to`. */
function joinInto(row: Buffer, { from, to }: { from: number; to: number }): void {
  row.copy(NODE, 1, from * HASH_BYTES, (from + 2) * HASH_BYTES)
  writeSha256(NODE, row, to * HASH_BYTES)
}

/**
 * All that is needed to add leaves to a tree: the roots of the perfect subtrees that it consists of, the
 * largest first. There are as many as the size has binary ones.
 */
export interface Frontier {
  readonly size: number
  readonly hashes: readonly Uint8Array[]
}

/** The hash at a place of a level: level 0 are the leaves, each level above has one for 256 below. */
export interface LevelHash {
  level: number
  index: number
  hash: Buffer
}

/**
 * The tree after these leaves (their hashes) were added, and the hashes that levels above 0 got by it, each
 * level's in order; `groups` are the roots of groups of such hashes, each at its place among those of its
 * level. @throws RangeError if the frontier has not as many hashes as a tree of its size.
 */
export function appendLeaves(
  before: Frontier,
  leaves: readonly Uint8Array[],
): { frontier: Frontier; above: LevelHash[]; groups: LevelHash[] } {
  const subtrees = before.size.toString(2).replaceAll('0', '').length
  if (before.hashes.length !== subtrees)
    throw new RangeError(
      `a tree of ${before.size} leaves has ${subtrees} subtrees, not ${before.hashes.length}`,
    )
  // The subtrees, one after the other: the last two are joined in place.
  const row = Buffer.alloc(SUBTREES_MAX * HASH_BYTES)
  let count = 0
  const hashAt = (n: number): Buffer => Buffer.from(row.subarray(n * HASH_BYTES, (n + 1) * HASH_BYTES))
  const add = (hash: Uint8Array): void => {
    if (!isHash(hash)) throw new RangeError('a hash has 32 bytes')
    row.set(hash, count++ * HASH_BYTES)
  }
  for (const hash of before.hashes) add(hash)
  const above: LevelHash[] = []
  const groups: LevelHash[] = []
  for (const [n, leaf] of leaves.entries()) {
    add(leaf)
    let index = before.size + n
    for (let height = 1; index % 2 === 1; height++) {
      count -= 1
      joinInto(row, { from: count - 1, to: count - 1 })
      index = (index - 1) / 2
      const level = Math.floor(height / TILE_HEIGHT)
      const at = height % TILE_HEIGHT
      if (at === 0) above.push({ level, index, hash: hashAt(count - 1) })
      else if (level > 0 && at === GROUP_HEIGHT) groups.push({ level, index, hash: hashAt(count - 1) })
    }
  }
  const hashes = Array.from({ length: count }, (_, n) => hashAt(n))
  return { frontier: { size: before.size + leaves.length, hashes }, above, groups }
}

/** The leaf at a place, from 0; undefined if it is not known. */
export type LeafAt = (place: number) => Uint8Array | undefined

/**
 * The tree with the leaves up to `to`, of which a tile at a time is in memory; undefined if one of them is
 * not known. `above` gets the hashes of the levels above 0, as far as it comes.
 */
export function growTree(
  before: Frontier,
  to: number,
  { leafAt, above }: { leafAt: LeafAt; above?: (hash: LevelHash) => void },
): Frontier | undefined {
  let frontier = before
  while (frontier.size < to) {
    const { size } = frontier
    const places = Array.from({ length: Math.min(TILE_HASHES, to - size) }, (_, n) => size + n)
    const leaves = places.map(leafAt).filter(leaf => leaf !== undefined)
    if (leaves.length < places.length) return undefined
    const grown = appendLeaves(frontier, leaves)
    if (above !== undefined) for (const hash of grown.above) above(hash)
    frontier = grown.frontier
  }
  return frontier
}

/** The root of a tree. */
export function rootOf({ hashes }: Frontier): Uint8Array {
  return joinRight(hashes) ?? EMPTY_ROOT
}

/** The root of a row of subtrees, the largest first. */
function joinRight(hashes: readonly Uint8Array[]): Uint8Array | undefined {
  return hashes.reduceRight<Uint8Array | undefined>(
    (right, left) => (right === undefined ? left : nodeHash(left, right)),
    undefined,
  )
}

/** The tile that is number `index` of its level, and how many hashes of it a proof uses at most. */
export interface Tile {
  level: number
  index: number
  hashes: number
}

/** The hashes of a tile, one after the other; more than were asked for do no harm. */
export type TileReader = (tile: Tile) => Uint8Array

/** The roots of the groups of a tile from its first one on, as far as they are known. */
export type GroupReader = (tile: Pick<Tile, 'level' | 'index'>) => Uint8Array

/** The leaves from `begin` up to, and without, `end`. */
interface EntryRange {
  begin: number
  end: number
}

/** A proof, before its hashes are read: one for each span, the root over the leaves of that span. */
export interface ProofPlan {
  readonly spans: readonly EntryRange[]
  /** At most two of each level. */
  readonly tiles: readonly Tile[]
}

/**
 * What proves that the leaf at `index` is in the tree of `size` leaves (RFC 9162, 2.1.3.1). @throws
 * RangeError if it is beyond that size.
 */
export function planInclusion(index: number, size: number): ProofPlan {
  if (!isCount(index) || !isCount(size) || index >= size)
    throw new RangeError(`leaf ${index} is not in a tree of ${size}`)
  const spans: EntryRange[] = []
  let [begin, end] = [0, size]
  while (end - begin > 1) {
    const middle = begin + splitOf(end - begin)
    if (index < middle) {
      spans.push({ begin: middle, end })
      end = middle
    } else {
      spans.push({ begin, end: middle })
      begin = middle
    }
  }
  return planOf(spans.toReversed())
}

/**
 * What proves that the tree of `to` leaves begins with that of `from` leaves (RFC 9162, 2.1.4.1). @throws
 * RangeError unless `from` is from 1 to `to`.
 */
export function planConsistency(from: number, to: number): ProofPlan {
  if (!isCount(from) || !isCount(to) || from < 1 || from > to)
    throw new RangeError(`no tree of ${to} begins with one of ${from}`)
  const spans: EntryRange[] = []
  let [begin, end] = [0, to]
  while (from < end) {
    const middle = begin + splitOf(end - begin)
    if (from <= middle) {
      spans.push({ begin: middle, end })
      end = middle
    } else {
      spans.push({ begin, end: middle })
      begin = middle
    }
  }
  // The verifier knows the root of the older tree, and so a span that is all of it is left out.
  if (begin > 0) spans.push({ begin, end })
  return planOf(spans.toReversed())
}

/**
 * What the root of a tree of this size is made from; `proofOf` has it alone. @throws RangeError if it is 0.
 */
export function planRoot(size: number): ProofPlan {
  if (!isCount(size) || size === 0) throw new RangeError(`no tile has the root of ${size} leaves`)
  return planOf([{ begin: 0, end: size }])
}

/** The hashes of a proof, read from its tiles. */
export function proofOf(plan: ProofPlan, read: TileReader): Buffer[] {
  return proverOf(read)(plan)
}

/**
 * Makes the hashes of proofs, each as `proofOf`. What several are made from is hashed once. Whether the roots
 * of groups are those of the tiles is not verified: if one is not, the proof does not hold.
 */
export function proverOf(read: TileReader, groupsOf?: GroupReader): (plan: ProofPlan) => Buffer[] {
  const roots = new Map<string, Uint8Array>()
  const rootAt = (subtree: Subtree): Uint8Array => {
    const { tile, from, count } = subtree
    const name = `${tile.level}/${tile.index}/${from}/${count}`
    const root = roots.get(name) ?? rootOfRow(readGroups(subtree, groupsOf) ?? readSubtree(subtree, read))
    roots.set(name, root)
    return root
  }
  return ({ spans }) => spans.map(span => Buffer.from(joinRight(subtreesOf(span).map(rootAt))!))
}

function planOf(spans: readonly EntryRange[]): ProofPlan {
  const tiles = new Map<string, Tile>()
  for (const { tile, from, count } of spans.flatMap(subtreesOf)) {
    const name = `${tile.level}/${tile.index}`
    const known = tiles.get(name) ?? { ...tile, hashes: 0 }
    tiles.set(name, { ...known, hashes: Math.max(known.hashes, from + count) })
  }
  return { spans, tiles: [...tiles.values()] }
}

/** A perfect subtree: over `count` hashes of one tile, the first of which is hash `from` of it. */
interface Subtree {
  tile: Pick<Tile, 'level' | 'index'>
  from: number
  count: number
}

/** The perfect subtrees that a span consists of, the largest first. */
function subtreesOf({ begin, end }: EntryRange): Subtree[] {
  const subtrees: Subtree[] = []
  for (let at = begin; at < end;) {
    let [leaves, level, below] = [1, 0, 1]
    while (leaves * 2 <= end - at) {
      leaves *= 2
      if (leaves === below * TILE_HASHES) [level, below] = [level + 1, leaves]
    }
    const first = at / below
    const from = first % TILE_HASHES
    subtrees.push({ tile: { level, index: (first - from) / TILE_HASHES }, from, count: leaves / below })
    at += leaves
  }
  return subtrees
}

/** The hashes that a subtree is over. */
function readSubtree({ tile, from, count }: Subtree, read: TileReader): Uint8Array {
  const bytes = read({ ...tile, hashes: from + count })
  const hashes = bytes.subarray(from * HASH_BYTES, (from + count) * HASH_BYTES)
  if (hashes.length !== count * HASH_BYTES)
    throw new RangeError(`tile ${tile.level}/${tile.index} has too few hashes`)
  return hashes
}

/** The roots of the groups that a subtree consists of; undefined if one is not known or it is no group. */
function readGroups({ tile, from, count }: Subtree, read: GroupReader | undefined): Uint8Array | undefined {
  if (read === undefined || tile.level === 0 || count < GROUP_HASHES) return undefined
  const [first, groups] = [from / GROUP_HASHES, count / GROUP_HASHES]
  const roots = read(tile).subarray(first * HASH_BYTES, (first + groups) * HASH_BYTES)
  return roots.length === groups * HASH_BYTES ? roots : undefined
}

/** The root over hashes that stand one after the other, whose number is a power of two. */
function rootOfRow(hashes: Uint8Array): Uint8Array {
  // A copy, in which each row of nodes is written over the one below it.
  const row = Buffer.from(hashes)
  for (let nodes = row.length / HASH_BYTES / 2; nodes >= 1; nodes /= 2)
    for (let n = 0; n < nodes; n++) joinInto(row, { from: 2 * n, to: n })
  return row.subarray(0, HASH_BYTES)
}

/** The hashes that stand one after the other in these bytes. */
export function hashesIn(bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: Math.floor(bytes.length / HASH_BYTES) }, (_, n) =>
    bytes.subarray(n * HASH_BYTES, (n + 1) * HASH_BYTES),
  )
}

/** The size of a tree and its root. */
export interface TreeHead {
  size: number
  root: Uint8Array
}

/**
 * Whether a proof shows that the leaf with this hash is at `index` of the tree (RFC 9162, 2.1.3.2). Whatever
 * else it is, such as a proof of another length or a hash of another length, it shows nothing.
 */
export function provesInclusion(
  { index, leaf }: { index: number; leaf: Uint8Array },
  { size, root }: TreeHead,
  proof: readonly Uint8Array[],
): boolean {
  if (!isCount(index) || !isCount(size) || index >= size) return false
  if (![leaf, root, ...proof].every(isHash)) return false
  const climb = { at: index, last: size - 1 }
  let hash = leaf
  for (const beside of proof) {
    const side = sideOf(climb)
    if (side === undefined) return false
    hash = side === 'left' ? nodeHash(beside, hash) : nodeHash(hash, beside)
  }
  return climb.last === 0 && isSame(hash, root)
}

/**
 * Whether a proof shows that the tree `to` begins with the tree `from` (RFC 9162, 2.1.4.2). Of the tree
 * without leaves nothing is proved.
 */
export function provesConsistency(from: TreeHead, to: TreeHead, proof: readonly Uint8Array[]): boolean {
  if (!isCount(from.size) || !isCount(to.size) || from.size > to.size) return false
  if (![from.root, to.root, ...proof].every(isHash)) return false
  if (from.size === to.size) return proof.length === 0 && isSame(from.root, to.root)
  if (from.size === 0) return false
  const climb = { at: from.size - 1, last: to.size - 1 }
  while (climb.at % 2 === 1) halve(climb)
  // Where the older tree is perfect, its root is where the proof begins, and is left out of it.
  const [start, ...rest] = climb.at === 0 ? [from.root, ...proof] : proof
  if (start === undefined) return false
  let [older, newer] = [start, start]
  for (const beside of rest) {
    const side = sideOf(climb)
    if (side === undefined) return false
    if (side === 'left') older = nodeHash(beside, older)
    newer = side === 'left' ? nodeHash(beside, newer) : nodeHash(newer, beside)
  }
  return climb.last === 0 && isSame(older, from.root) && isSame(newer, to.root)
}

/** Where a verifier stands: at place `at` of its height, whose last place is `last`. */
interface Climb {
  at: number
  last: number
}

/** On which side the next hash of a proof stands; it climbs there. Undefined at the top. */
function sideOf(climb: Climb): 'left' | 'right' | undefined {
  if (climb.last === 0) return undefined
  const isLeft = climb.at % 2 === 1 || climb.at === climb.last
  // A last place without a sibling is the same node one height above.
  if (isLeft) while (climb.at % 2 === 0 && climb.at > 0) halve(climb)
  halve(climb)
  return isLeft ? 'left' : 'right'
}

function halve(climb: Climb): void {
  climb.at = Math.floor(climb.at / 2)
  climb.last = Math.floor(climb.last / 2)
}

/** The largest power of two below n, which is at least 2: so many leaves stand in the left subtree. */
function splitOf(n: number): number {
  let left = 1
  while (left * 2 < n) left *= 2
  return left
}

const isCount = (n: number): boolean => Number.isSafeInteger(n) && n >= 0
const isHash = (bytes: Uint8Array): boolean => bytes.length === HASH_BYTES
const isSame = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0
