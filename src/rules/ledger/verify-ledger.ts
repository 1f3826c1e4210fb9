/**
 * Whether an owner's ledger is what its log signed: entries, chains, tiles, root and checkpoint, and whether
 * heads and receipts that others have fit it. It believes nothing that is in the file but what is below a
 * signature by keys that the caller has. docs/choices.md, "The file of a ledger"; docs/proof.md. Contract:
 * "Events" (row 5).
 */
import { verifyCheckpoint, type Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type {
  LedgerFile,
  LedgerFileEntry,
  LedgerFileHead,
  LedgerFileTile,
} from '../../wire/ledger/ledger-file.ts'
import { logOfOrigin, tagOfOrigin } from '../../wire/ledger/ledger-head.ts'
import { parseNote } from '../../wire/ledger/signed-note.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import { entryRows, type EntryRows } from './entry-rows.ts'
import {
  compareKnownHeads,
  restoreIn,
  type HeadProofs,
  type HeadAt,
  type RestoreEntry,
} from './known-heads.ts'
import { findOmissions, isTimely, promiseIn, timeOf, type ReceiptAt } from './known-receipts.ts'
import { addPosition, faultAt, runsOf, type LedgerFault, type PositionRun } from './ledger-faults.ts'
import { deletedLeaf, ledgerLeaf } from './ledger-leaf.ts'
import type { LeafAt } from './merkle.ts'
import { isSameHash, storedTiles, type StoredTiles } from './stored-tiles.ts'

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

/** What verifies a ledger while its tiles and entries come one after the other, in whatever order. */
export interface LedgerJudge {
  tile: (tile: LedgerFileTile) => void
  entry: (entry: LedgerFileEntry) => void
  /** What was found in all that came; `proofs` if they came later than the other knowledge. */
  verdict: (proofs?: HeadProofs) => LedgerVerdict
}

/**
 * Begins to verify a ledger. It holds no entry: it keeps the hashes of the tiles (32 bytes an entry), the
 * place of each entry in its chain (24 bytes), and of an entry more than that only if it is another one than
 * the tiles say, or if heads and receipts need it.
 */
export function ledgerJudge({ owner, checkpoint }: LedgerFileHead, knowledge: LedgerKnowledge): LedgerJudge {
  const signed = readSignedHead(checkpoint, knowledge.keys)
  if ('code' in signed) {
    const pass = (): void => undefined
    return { tile: pass, entry: pass, verdict: () => ({ checkpoint: undefined, faults: [signed] }) }
  }
  const { size } = signed
  const tiles = storedTiles(signed)
  const receipts = knowledge.receipts ?? []
  const agreements = new Set(receipts.map(({ claims }) => claims.agreement))
  const first = knowledge.first ?? 1
  const entries = readEntries({ owner, size, first, leafAt: tiles.leafAt, agreements })
  return {
    tile: tiles.add,
    entry: entries.add,
    verdict: (proofs = knowledge.proofs) => {
      if (size > tiles.leavesMax())
        return { checkpoint: signed, faults: [tilesAbsent(size, tiles.leavesMax())] }
      const faults = faultsOf({ owner, signed, tiles, entries: entries.read }, { ...knowledge, proofs })
      return { checkpoint: signed, faults }
    },
  }
}

/**
 * Verifies a ledger as it was exported. It is whole as far as its checkpoint says if no fault is found. What
 * was never entered it does not show, unless a receipt promises it.
 */
export function verifyLedger(file: LedgerFile, knowledge: LedgerKnowledge): LedgerVerdict {
  const judge = ledgerJudge(file, knowledge)
  for (const tile of file.tiles) judge.tile(tile)
  for (const entry of file.entries) judge.entry(entry)
  return judge.verdict()
}

interface LedgerRead {
  owner: string
  signed: Checkpoint
  tiles: StoredTiles
  entries: EntriesRead
}

function faultsOf({ owner, signed, tiles, entries }: LedgerRead, knowledge: LedgerKnowledge): LedgerFault[] {
  const { rows } = entries
  const tree = compareLeaves(tiles, entries.made, signed)
  const isWhole = (position: number): boolean => !tree.changed.has(position)
  const first = knowledge.first ?? 1
  const ledger = { checkpoint: signed, keys: knowledge.keys }
  const madeMs = [...entries.made].filter(([position]) => isWhole(position)).map(([, { ms }]) => ms)
  return [
    ...originFaults(signed, knowledge),
    ...tiles.faults(),
    ...tree.faults,
    ...entries.order,
    ...beyondFaults(entries.beyond, signed),
    ...gapsOf(rows, { owner, first, size: signed.size, leafAt: tree.leafAt }),
    ...chainFaults(rows, tree.changed),
    ...compareKnownHeads(knowledge.heads ?? [], {
      ...ledger,
      leafAt: tree.leafAt,
      restores: entries.restores.filter(({ seq }) => isWhole(seq)),
      proofs: knowledge.proofs,
    }),
    ...findOmissions(knowledge.receipts ?? [], {
      ...ledger,
      owner,
      agreements: new Set(entries.promises.flatMap(([position, one]) => (isWhole(position) ? [one] : []))),
      latestMs: madeMs.reduce((most, ms) => Math.max(most, ms), entries.latestMs),
      completeFromMs: completeFrom(entries, tree.changed, { first, size: signed.size }),
    }),
  ]
}

/** From what time on no entry is absent. Below `first` the retention has deleted what it has. */
function completeFrom(
  { rows, tail }: EntriesRead,
  changed: ReadonlySet<number>,
  { first, size }: { first: number; size: number },
): number {
  if (rows.count() - changed.size === size) return -Infinity
  const others = [...changed].filter(position => position >= first).length
  return tail.count - others === size - first + 1 ? tail.ms : Infinity
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

/** What is kept of the entries that the checkpoint covers. Of two with one position the first counts. */
interface EntriesRead {
  rows: EntryRows
  /** Those whose leaf is not the one in the tiles, as far as these had come: its leaf and its time. */
  made: Map<number, { leaf: Uint8Array; ms: number }>
  /** The agreements of receipts that entries promise, with the position of the entry. */
  promises: [number, string][]
  restores: RestoreEntry[]
  /** The time of the latest of those that are not in `made`. */
  latestMs: number
  /** How many stand at `first` or behind it, and the first of them whose time is that of its entry. */
  tail: { count: number; position: number; ms: number }
  order: LedgerFault[]
  beyond: PositionRun[]
}

interface EntriesKnown {
  owner: string
  /** How many the checkpoint covers. */
  size: number
  /** The first that the retention has left. */
  first: number
  leafAt: LeafAt
  /** Those that receipts name. */
  agreements: ReadonlySet<string>
}

function readEntries({ owner, size, first, leafAt, agreements }: EntriesKnown): {
  read: EntriesRead
  add: (entry: LedgerFileEntry) => void
} {
  const [rows, made] = [entryRows(), new Map<number, { leaf: Uint8Array; ms: number }>()]
  const tail = { count: 0, position: Infinity, ms: Infinity }
  const lists = { promises: [], restores: [], order: [], beyond: [] }
  const read: EntriesRead = { rows, made, latestMs: 0, tail, ...lists }
  let last = 0
  const add = (entry: LedgerFileEntry): void => {
    const { seq } = entry
    if (seq <= last) {
      const about = `stands behind entry ${last}: entries were put in, moved or numbered anew.`
      read.order.push(faultAt('order', { from: seq, to: seq }, about))
    }
    last = Math.max(last, seq)
    if (seq > size) addPosition(read.beyond, seq)
    if (seq > size || !rows.add(entry)) return
    const [leaf, ms] = [leafOf(owner, entry), timeOf(entry)]
    if (isSameHash(leaf, leafAt(seq - 1))) read.latestMs = Math.max(read.latestMs, ms)
    else made.set(seq, { leaf, ms })
    if (seq >= first) tail.count += 1
    if (seq >= first && seq < tail.position && isTimely(entry)) Object.assign(tail, { position: seq, ms })
    const agreement = agreements.size === 0 ? undefined : promiseIn(entry)
    if (agreement !== undefined && agreements.has(agreement)) read.promises.push([seq, agreement])
    const restore = restoreIn(entry)
    if (restore !== undefined) read.restores.push(restore)
  }
  return { read, add }
}

function beyondFaults(beyond: readonly PositionRun[], { size }: Checkpoint): LedgerFault[] {
  const about = `is beyond the head, which covers ${size}: nothing proves it. Export the ledger again.`
  return beyond.map(run => faultAt('beyond_head', run, about))
}

/** The leaf of an entry of this owner, made from what its line says. */
export function leafOf(owner: string, { data_text: data, prev, ...entry }: LedgerFileEntry): Uint8Array {
  return ledgerLeaf({ ...entry, owner, data, prev: prev ?? 0 })
}

interface TreeCompared {
  /** The leaves that were signed; if neither kind has the root, those of the tiles. */
  leafAt: LeafAt
  /** Positions of entries that are others than was signed. */
  changed: ReadonlySet<number>
  faults: LedgerFault[]
}

/** Whether the leaves of entries and of tiles are the ones under the root, and which of them are not. */
function compareLeaves(tiles: StoredTiles, made: EntriesRead['made'], head: Checkpoint): TreeCompared {
  const stored = tiles.leafAt
  const mixed: LeafAt = place => made.get(place + 1)?.leaf ?? stored(place)
  const differing = [...made].flatMap(([position, { leaf }]) => {
    const other = stored(position - 1)
    return other === undefined || isSameHash(leaf, other) ? [] : [position]
  })
  const runs = runsOf(differing.toSorted((one, other) => one - other))
  const ofTiles = tiles.compare(stored)
  if (ofTiles.hasRoot) {
    const about =
      'is not what was signed: something was changed, put in, taken out or numbered anew there. Keep this file, and ask for the ledger of before.'
    const faults = [...runs.map(run => faultAt('entry', run, about)), ...ofTiles.upper]
    return { leafAt: stored, changed: new Set(differing), faults }
  }
  const ofEntries = tiles.compare(mixed)
  if (ofEntries.hasRoot) {
    const about = 'is what was signed, unlike the leaf in the tiles: export the ledger again.'
    const faults = [...runs.map(run => faultAt('leaf', run, about)), ...ofEntries.upper]
    return { leafAt: mixed, changed: new Set(), faults }
  }
  const about = 'is not of the leaf in the tiles, and the leaves are not what was signed.'
  const sentence = `The ${head.size} leaves of this ledger have another root than was signed. It was changed after the head was signed; heads that were signed earlier tell where. Keep this file, and ask for the ledger of before.`
  const faults = [
    { code: 'root' as const, sentence },
    ...runs.map(run => faultAt('entry', run, about)),
    ...ofTiles.upper,
  ]
  return { leafAt: stored, changed: new Set(differing), faults }
}

interface LedgerExtentRead {
  owner: string
  /** The first position that must have an entry. */
  first: number
  size: number
  leafAt: LeafAt
}

/**
 * Positions without an entry, from the first one that must have one. Where the leaf says that the entry was
 * deleted before there was a tree, that is what was signed.
 */
function gapsOf(rows: EntryRows, { owner, first, size, leafAt }: LedgerExtentRead): LedgerFault[] {
  const absent: PositionRun[] = []
  let next = first
  const passTo = (end: number): void => {
    for (; next < end; next++)
      if (!isSameHash(leafAt(next - 1), deletedLeaf(owner, next))) addPosition(absent, next)
  }
  for (const { position } of rows.inOrder()) {
    if (position < next) continue
    passTo(position)
    next = position + 1
  }
  passTo(size + 1)
  return absent.map(run => {
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
 * in order: a gap is told of as such. Those that were changed count as absent.
 */
function chainFaults(rows: EntryRows, changed: ReadonlySet<number>): LedgerFault[] {
  const last = new Map<string, number>()
  const faults: LedgerFault[] = []
  for (const { position, prev, handle } of rows.inOrder()) {
    if (handle === null || changed.has(position)) continue
    const before = last.get(handle) ?? 0
    const isAbsent = prev > before && prev < position && (!rows.has(prev) || changed.has(prev))
    if (prev !== before && !isAbsent) {
      const about = `names entry ${prev} as the one before it of ${handle}, which is entry ${before}: the authority wrote a false chain. Keep this file.`
      faults.push(faultAt('chain', { from: position, to: position }, about))
    }
    last.set(handle, position)
  }
  return faults
}
