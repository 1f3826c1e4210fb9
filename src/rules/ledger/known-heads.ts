/**
 * Whether heads of a ledger that others keep fit the ledger as it is now. docs/choices.md, "Heads that
 * contradict each other". Contract: "Events" (row 5).
 */
import { parseJsonObject, type JsonObject } from '../../wire/json.ts'
import { decodeBase64url, encodeBase64url } from '../../wire/encoding.ts'
import type { Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type { LedgerFileEntry } from '../../wire/ledger/ledger-file.ts'
import { logOfOrigin, verifyLedgerHead, type LedgerHead } from '../../wire/ledger/ledger-head.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { PublishedKey } from '../../wire/signatures/keys.ts'
import type { LedgerFault } from './ledger-faults.ts'
import { growTree, provesConsistency, rootOf, type Frontier, type LeafAt } from './merkle.ts'

/** A head, and words for where it is from. */
export interface HeadAt {
  head: LedgerHead
  from: string
}

/**
 * By the `root` of a head: the proof (RFC 9162, 2.1.4) that its tree continues the one of the checkpoint, or,
 * where the head is smaller, that the checkpoint continues the head.
 */
export type HeadProofs = ReadonlyMap<string, readonly Uint8Array[]>

/** A ledger that heads are compared with. */
export interface ComparedLedger {
  checkpoint: Checkpoint
  leafAt: LeafAt
  /** The entries `restored` that are what was signed, in the order in which they stand. */
  restores: readonly RestoreEntry[]
  keys: readonly PublishedKey[]
  proofs: HeadProofs | undefined
  /** Whether it is the record of one agent: it has neither leaves nor the entries of restores. */
  isRecord?: boolean | undefined
}

/** What an entry `restored` says: which origin was replaced, and how many entries of it the restore knew. */
export interface RestoreEntry {
  seq: number
  origin: string | undefined
  size: number
}

/** What the entry says, if it is one of a restore. */
export function restoreIn({ kind, seq, data_text }: LedgerFileEntry): RestoreEntry | undefined {
  if (kind !== 'restored') return undefined
  const { origin, size } = dataOf(data_text)
  return {
    seq,
    origin: typeof origin === 'string' ? origin : undefined,
    size: typeof size === 'number' ? size : 0,
  }
}

/** What of these heads speaks against the ledger. Those of other ledgers are passed over, unless all are. */
export function compareKnownHeads(known: readonly HeadAt[], ledger: ComparedLedger): LedgerFault[] {
  const { origin } = ledger.checkpoint
  const mine = known.filter(({ head }) => logOfOrigin(head.origin) === logOfOrigin(origin))
  if (known.length > 0 && mine.length === 0) {
    const sentence = `None of the heads that you gave is of ${origin}: give heads of this ledger, or export the ledger that they are of.`
    return [{ code: 'other_ledger', sentence }]
  }
  const judged = mine.map(one => ({ one, unsigned: unsignedFault(one, ledger.keys) }))
  const heads = judged.flatMap(({ one, unsigned }) => (unsigned === undefined ? [one] : []))
  const rootAt = rootsAt(
    ledger,
    heads.map(({ head }) => head.size),
  )
  return [
    ...judged.flatMap(({ unsigned }) => unsigned ?? []),
    ...heads.flatMap(
      one => (one.head.origin === origin ? ofOrigin : ofOtherOrigin)(one, ledger, rootAt) ?? [],
    ),
  ]
}

function unsignedFault({ head, from }: HeadAt, keys: readonly PublishedKey[]): LedgerFault | undefined {
  try {
    verifyLedgerHead(head, keys)
    return undefined
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = `The head of ${from} says nothing, because no key of the log that you have signed it. ${error.detail ?? error.code}`
    return { code: 'unsigned', head, from, sentence }
  }
}

/** The root of the ledger at a size, base64url; undefined where leaves are absent below it. */
type RootAt = ReadonlyMap<number, string>

function rootsAt({ leafAt, checkpoint }: ComparedLedger, sizes: readonly number[]): RootAt {
  const roots = new Map<number, string>()
  let frontier: Frontier = { size: 0, hashes: [] }
  for (const size of [...new Set(sizes)].toSorted((one, other) => one - other)) {
    if (size > checkpoint.size) break
    const grown = growTree(frontier, size, { leafAt })
    if (grown === undefined) break
    frontier = grown
    roots.set(size, Buffer.from(rootOf(frontier)).toString('base64url'))
  }
  if (!roots.has(checkpoint.size)) roots.set(checkpoint.size, encodeBase64url(checkpoint.root))
  return roots
}

function ofOrigin({ head, from }: HeadAt, ledger: ComparedLedger, rootAt: RootAt): LedgerFault | undefined {
  const { checkpoint, proofs } = ledger
  if (rootAt.has(head.size)) return forkFault({ head, from }, rootAt)
  const other = { size: head.size, root: decodeBase64url(head.root) }
  const [older, newer] = head.size < checkpoint.size ? [other, checkpoint] : [checkpoint, other]
  const proof = proofs?.get(head.root)
  if (proof !== undefined && provesConsistency(older, newer, proof)) return undefined
  if (older === other) {
    const sentence = `The head of ${from} covers ${head.size} entries, and nothing here has the leaves below it: that this head of ${checkpoint.size} continues it is for the authority to prove, with --fetch, or for the owner to show, by the whole ledger.`
    return { code: 'unproved', head, from, sentence }
  }
  const sentence = `The head of ${from} covers ${head.size} entries, and this ledger has ${checkpoint.size}. Export it again, or prove that the head continues it with --fetch. If the authority has no more entries, it has lost or removed what was signed.`
  return { code: 'rollback', position: checkpoint.size + 1, to: head.size, head, from, sentence }
}

/** Another root than the ledger has at the size of the head. */
function forkFault({ head, from }: HeadAt, rootAt: RootAt): LedgerFault | undefined {
  const root = rootAt.get(head.size)
  // Where leaves are missing, that is a fault by itself.
  if (root === undefined || root === head.root) return undefined
  const sentence = `The head of ${from} has another root for the first ${head.size} entries than this ledger: something in them was changed since, or two ledgers were shown. Keep both, and ask whose log signed them.`
  return { code: 'fork', position: 1, to: head.size, head, from, sentence }
}

/**
 * A head of an origin of before or after a restore. Where the entry `restored` names its origin, what the
 * restored database had of it must be in this ledger.
 */
function ofOtherOrigin(
  { head, from }: HeadAt,
  { restores, checkpoint, isRecord = false }: ComparedLedger,
  rootAt: RootAt,
): LedgerFault {
  const restored = restores.find(({ origin }) => origin === head.origin)
  if (restored === undefined && isRecord) {
    const sentence = `The head of ${from} is of ${head.origin}, and this record of ${checkpoint.origin}. Whether a restore has replaced the older one is not in the record of an agent: ask the owner for the whole ledger.`
    return { code: 'unproved', head, from, sentence }
  }
  if (restored === undefined) {
    const sentence = `The head of ${from} is of ${head.origin}, and this ledger is ${checkpoint.origin}. No entry \`restored\` names that origin: two ledgers were shown, or a restore went back behind an earlier one. If a restore came after this file, export the ledger again; else ask the operator.`
    return { code: 'two_origins', head, from, sentence }
  }
  const { seq } = restored
  // No restore knew of more than stands before its entry, whatever that says.
  const size = Math.min(restored.size, seq - 1)
  const isWhole = head.size <= size
  const fork = isWhole ? forkFault({ head, from }, rootAt) : undefined
  if (fork !== undefined) return fork
  const begins = `The head of ${from} is of ${head.origin}, which a restore has replaced (entry ${seq}).`
  const sentence = isWhole
    ? rootAt.has(head.size)
      ? `${begins} All ${head.size} entries that it covers are still there.`
      : `${begins} Whether the ${head.size} entries that it covers are still there is not in this file.`
    : `${begins} It covers ${head.size} entries, and the restore knew of ${size}: those from ${size + 1} on were lost or entered anew. Ask the operator what was lost.`
  return { code: 'replaced', position: seq, to: seq, head, from, restoredSize: size, sentence }
}

function dataOf(text: string): JsonObject {
  try {
    return parseJsonObject(text)
  } catch (error) {
    if (error instanceof Refusal) return {}
    throw error
  }
}
