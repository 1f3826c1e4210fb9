/**
 * Whether an owner's ledger is what its log signed: entries, chains, tiles, root and checkpoint, and whether
 * heads and receipts that others have fit it. It believes nothing that is in the file but what is below a
 * signature by keys that the caller has. docs/choices.md, "The file of a ledger"; docs/proof.md. Contract:
 * "Events" (row 5).
 */
import { verifyCheckpoint, type Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type { LedgerFile, LedgerFileEntry, LedgerFileTile } from '../../wire/ledger/ledger-file.ts'
import { logOfOrigin, tagOfOrigin } from '../../wire/ledger/ledger-head.ts'
import { parseNote } from '../../wire/ledger/signed-note.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import { compareKnownHeads, type HeadProofs, type HeadAt } from './known-heads.ts'
import { findOmissions, type ReceiptAt } from './known-receipts.ts'
import { faultAt, runsOf, type LedgerFault } from './ledger-faults.ts'
import { deletedLeaf, ledgerLeaf } from './ledger-leaf.ts'
import { appendLeaves, hashesIn, rootOf, TILE_HASHES, type LevelHash } from './merkle.ts'

/** What the caller knows of a ledger. Nothing of it may come from the file that is verified. */
export interface LedgerKnowledge {
  /** The keys of the log, `/ledger/jwks` of the authority. */
  keys: readonly PublishedKey[]
  /** The ledger's origin, with or without the time of a restore; if left out, any origin will do. */
  origin?: string | undefined
  /** The authority; if left out, any will do. */
  issuer?: string | undefined
  /** Heads that the caller has, of whatever ledgers; those of others are passed over. */
  heads?: readonly HeadAt[] | undefined
  /** Proofs of consistency between the checkpoint and heads whose roots the file does not give. */
  proofs?: HeadProofs | undefined
  /** Receipts whose signatures were verified. */
  receipts?: readonly ReceiptAt[] | undefined
  /** The first position that a retention has left: entries before it may be absent. 1 if left out. */
  first?: number | undefined
}

/** The checkpoint, if keys of the log signed it, and all that was found, in the order of the entries. */
export interface LedgerVerdict {
  checkpoint: Checkpoint | undefined
  faults: LedgerFault[]
}

/**
 * Verifies a ledger as it was exported. It is whole as far as its checkpoint says if no fault is found. What
 * was never entered it does not show, unless a receipt promises it.
 */
export function verifyLedger(file: LedgerFile, knowledge: LedgerKnowledge): LedgerVerdict {
  const signed = readSignedHead(file.checkpoint, knowledge.keys)
  if ('code' in signed) return { checkpoint: undefined, faults: [signed] }
  const { size } = signed
  const leavesMax = file.tiles.length * TILE_HASHES
  if (size > leavesMax) return { checkpoint: signed, faults: [tilesAbsent(size, leavesMax)] }
  const tiles = readTiles(file.tiles, size)
  const entries = readEntries(file, size)
  const tree = compareLeaves({ ...tiles, made: entries.leaves }, signed)
  const whole = new Map([...entries.byPosition].filter(([position]) => !tree.changed.has(position)))
  const first = knowledge.first ?? 1
  const ledger = { checkpoint: signed, leaves: tree.leaves, entries: whole }
  const gaps = gapsOf(entries.byPosition, { owner: file.owner, first, leaves: tree.leaves })
  const faults = [
    ...originFaults(signed, knowledge),
    ...tiles.faults,
    ...tree.faults,
    ...entries.faults,
    ...gaps,
    ...chainFaults(whole),
    ...compareKnownHeads(knowledge.heads ?? [], {
      ...ledger,
      keys: knowledge.keys,
      proofs: knowledge.proofs,
    }),
    ...findOmissions(knowledge.receipts ?? [], {
      owner: file.owner,
      checkpoint: signed,
      keys: knowledge.keys,
      entries: whole,
      isComplete: whole.size === size,
    }),
  ]
  return { checkpoint: signed, faults }
}

/** The checkpoint in a signed note, whatever its origin; or the fault that none of these keys signed it. */
export function readSignedHead(note: string, keys: readonly PublishedKey[]): Checkpoint | LedgerFault {
  try {
    const [origin = ''] = parseNote(note).text.split('\n', 1)
    return verifyCheckpoint(note, { origin, keys })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const why = error.detail ?? error.code
    const sentence = `No key of the log that you have signed the head of this ledger, so nothing else was checked. Give the keys that you know from elsewhere, and export the ledger again. ${why}`
    return { code: 'unsigned', sentence }
  }
}

/** Whether a checkpoint is of another ledger, or another authority, than the caller knows. */
export function originFaults(
  { origin }: Checkpoint,
  { origin: other, issuer }: LedgerKnowledge,
): LedgerFault[] {
  const isOther = other !== undefined && other !== origin && other !== logOfOrigin(origin)
  const isIssuers = issuer === undefined || tagOfOrigin(origin, issuer) !== undefined
  if (!isOther && isIssuers) return []
  const name = isOther ? other : `of ${issuer}`
  const sentence = `This ledger is ${origin}, and not ${name}: export the one that you want to verify.`
  return [{ code: 'other_origin', sentence }]
}

/** Nothing else is found out then: a signed size may be larger than any memory. */
function tilesAbsent(size: number, leavesMax: number): LedgerFault {
  const sentence = `The head covers ${size} entries, and the tiles have at most ${leavesMax} leaves: export the ledger again.`
  return { code: 'tile', position: leavesMax + 1, sentence }
}

/** The hashes of the tiles by level; a hash that is not there is undefined. */
interface TileHashes {
  levels: (Uint8Array | undefined)[][]
  faults: LedgerFault[]
}

/** Which tiles a tree of this size has, and whether each is there, once and as wide as it must be. */
function readTiles(tiles: readonly LedgerFileTile[], size: number): TileHashes {
  const faults: LedgerFault[] = []
  const levels: (Uint8Array | undefined)[][] = []
  for (let width = size; width > 0; width = Math.floor(width / TILE_HASHES))
    levels.push(Array.from<Uint8Array | undefined>({ length: width }))
  for (const { level, index, hashes } of tiles) {
    const row = levels[level]
    const begin = index * TILE_HASHES
    const there = hashesIn(hashes)
    const width = Math.min(TILE_HASHES, (row?.length ?? 0) - begin)
    if (row === undefined || width !== there.length || row[begin] !== undefined) {
      const why = width > 0 ? 'is there twice or has another width' : 'is none of this tree'
      faults.push(tileFault(level, index, why))
    } else for (const [n, hash] of there.entries()) row[begin + n] = hash
  }
  for (const [level, row] of levels.entries())
    for (let index = 0; index * TILE_HASHES < row.length; index++)
      if (row[index * TILE_HASHES] === undefined) faults.push(tileFault(level, index, 'is not there'))
  return { levels, faults }
}

function tileFault(level: number, index: number, why: string): LedgerFault {
  const leaves = TILE_HASHES ** (level + 1)
  const sentence = `Tile ${level}/${index} ${why}: it is over the entries from ${index * leaves + 1} on. Export the ledger again.`
  return { code: 'tile', position: index * leaves + 1, sentence }
}

interface EntriesRead {
  byPosition: Map<number, LedgerFileEntry>
  /** By position. */
  leaves: Map<number, Uint8Array>
  faults: LedgerFault[]
}

/** The entries that the checkpoint covers, and their leaves. Of two with one position the first counts. */
function readEntries({ owner, entries }: LedgerFile, size: number): EntriesRead {
  const read: EntriesRead = { byPosition: new Map(), leaves: new Map(), faults: [] }
  const beyond: number[] = []
  let last = 0
  for (const entry of entries) {
    const { seq } = entry
    if (seq <= last) {
      const about = `stands behind entry ${last}: entries were put in, moved or numbered anew.`
      read.faults.push(faultAt('order', { from: seq, to: seq }, about))
    }
    last = Math.max(last, seq)
    if (seq > size) beyond.push(seq)
    else if (!read.byPosition.has(seq)) {
      read.byPosition.set(seq, entry)
      read.leaves.set(seq, leafOf(owner, entry))
    }
  }
  for (const run of runsOf(beyond)) {
    const about = `is beyond the head, which covers ${size}: nothing proves it. Export the ledger again.`
    read.faults.push(faultAt('beyond_head', run, about))
  }
  return read
}

/** The leaf of an entry of this owner, made from what its line says. */
export function leafOf(owner: string, { data_text: data, prev, ...entry }: LedgerFileEntry): Uint8Array {
  return ledgerLeaf({ ...entry, owner, data, prev: prev ?? 0 })
}

interface TreeCompared {
  /** The leaves that were signed, by place from 0; if neither kind has the root, those of the tiles. */
  leaves: (Uint8Array | undefined)[]
  /** Positions of entries that are others than was signed. */
  changed: Set<number>
  faults: LedgerFault[]
}

/** Whether the leaves of entries and of tiles are the ones under the root, and which of them are not. */
function compareLeaves(
  { levels, made }: { levels: TileHashes['levels']; made: ReadonlyMap<number, Uint8Array> },
  head: Checkpoint,
): TreeCompared {
  const stored = levels[0] ?? []
  const mixed = stored.map((leaf, n) => made.get(n + 1) ?? leaf)
  const differing = [...made.keys()].filter(
    position => stored[position - 1] !== undefined && !isSame(made.get(position), stored[position - 1]),
  )
  const runs = runsOf(differing.toSorted((one, other) => one - other))
  if (isTreeOf(stored, head)) {
    const about =
      'is not what was signed: something was changed, put in, taken out or numbered anew there. Keep this file, and ask for the ledger of before.'
    const faults = runs.map(run => faultAt('entry', run, about))
    return {
      leaves: stored,
      changed: new Set(differing),
      faults: [...faults, ...upperFaults(stored, levels)],
    }
  }
  if (isTreeOf(mixed, head)) {
    const about = 'is what was signed, unlike the leaf in the tiles: export the ledger again.'
    const faults = runs.map(run => faultAt('leaf', run, about))
    return { leaves: mixed, changed: new Set(), faults: [...faults, ...upperFaults(mixed, levels)] }
  }
  const about = 'is not of the leaf in the tiles, and the leaves are not what was signed.'
  const sentence = `The ${head.size} leaves of this ledger have another root than was signed. It was changed after the head was signed; heads that were signed earlier tell where. Keep this file, and ask for the ledger of before.`
  const faults = [
    { code: 'root' as const, sentence },
    ...runs.map(run => faultAt('entry', run, about)),
    ...upperFaults(stored, levels),
  ]
  return { leaves: stored, changed: new Set(differing), faults }
}

function isTreeOf(leaves: readonly (Uint8Array | undefined)[], { size, root }: Checkpoint): boolean {
  if (leaves.length !== size || !isComplete(leaves)) return false
  return isSame(rootOf(appendLeaves({ size: 0, hashes: [] }, leaves).frontier), root)
}

/** Tiles above the leaves that are not made from them. One that is not there is told of already. */
function upperFaults(
  leaves: readonly (Uint8Array | undefined)[],
  levels: TileHashes['levels'],
): LedgerFault[] {
  if (!isComplete(leaves)) return []
  const wrong = new Map<string, LevelHash>()
  for (const one of appendLeaves({ size: 0, hashes: [] }, leaves).above) {
    const stored = levels[one.level]?.[one.index]
    const index = Math.floor(one.index / TILE_HASHES)
    if (stored !== undefined && !isSame(stored, one.hash))
      wrong.set(`${one.level}/${index}`, { ...one, index })
  }
  return [...wrong.values()].map(({ level, index }) =>
    tileFault(level, index, 'is not made from the hashes below it'),
  )
}

/**
 * Positions without an entry, from the first one that must have one. Where the leaf says that the entry was
 * deleted before there was a tree, that is what was signed.
 */
function gapsOf(
  entries: ReadonlyMap<number, LedgerFileEntry>,
  { owner, first, leaves }: { owner: string; first: number; leaves: TreeCompared['leaves'] },
): LedgerFault[] {
  const absent: number[] = []
  for (let position = first; position <= leaves.length; position++)
    if (!entries.has(position) && !isSame(leaves[position - 1], deletedLeaf(owner, position)))
      absent.push(position)
  return runsOf(absent).map(run => {
    // The retention deletes from the oldest on, and leaves no gap.
    const about =
      run.from === 1
        ? `is absent, while the tree has the leaves. If the retention of your authority has deleted what is older than entry ${run.to + 1}, verify with --from ${run.to + 1}; else somebody took entries out.`
        : 'is absent, while the tree has the leaves. No retention leaves a gap: somebody took entries out.'
    return faultAt('gap', run, about)
  })
}

/**
 * Entries that name another one before them, of their agent, than there is. One that names an absent entry is
 * in order: a gap is told of as such.
 */
function chainFaults(entries: ReadonlyMap<number, LedgerFileEntry>): LedgerFault[] {
  const last = new Map<string, number>()
  const faults: LedgerFault[] = []
  for (const [position, { handle, prev }] of [...entries].toSorted(([one], [other]) => one - other)) {
    if (handle === null || prev === null) continue
    const before = last.get(handle) ?? 0
    const isAbsent = prev > before && prev < position && !entries.has(prev)
    if (prev !== before && !isAbsent) {
      const about = `names entry ${prev} as the one before it of ${handle}, which is entry ${before}: the authority wrote a false chain. Keep this file.`
      faults.push(faultAt('chain', { from: position, to: position }, about))
    }
    last.set(handle, position)
  }
  return faults
}

function isComplete(leaves: readonly (Uint8Array | undefined)[]): leaves is readonly Uint8Array[] {
  return leaves.every(leaf => leaf !== undefined)
}

function isSame(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one !== undefined && other !== undefined && Buffer.compare(one, other) === 0
}
