/** Owns ledgers as an authority exports them, made without a database, for those who verify them. */
import { createHash } from 'node:crypto'
import { ledgerLeaf } from '../../src/rules/ledger/ledger-leaf.ts'
import {
  appendLeaves,
  planInclusion,
  proofOf,
  rootOf,
  TILE_HASHES,
  type ProofPlan,
} from '../../src/rules/ledger/merkle.ts'
import { originBase, signCheckpoint } from '../../src/wire/ledger/checkpoint.ts'
import {
  ledgerEntryLine,
  ledgerHeadLine,
  ledgerTileLine,
  type LedgerFile,
  type LedgerFileEntry,
  type LedgerFileTile,
  type LedgerRecord,
} from '../../src/wire/ledger/ledger-file.ts'
import { headOfCheckpoint, type LedgerHead } from '../../src/wire/ledger/ledger-head.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../src/wire/signatures/keys.ts'

export const LOG_KEY: PrivateKey = importPrivateJwk(generatePrivateJwk())
export const ORIGIN = `${originBase('https://as.example')}AbCdEfGhIjKl`
export const OWNER = 'alice'
/** The time of the first entry; each is a second after the one before. */
export const BEGINS_MS = Date.parse('2026-11-28T18:00:00.000Z')

/** By whom a head is signed, and for which log. */
export interface Signer {
  origin?: string
  key?: PrivateKey
}

/**
 * Entries from position 1 on, of three agents and of none. Every fifth is a promise, whose agreement is
 * `s256:<position>`.
 */
export function sampleEntries(size: number): LedgerFileEntry[] {
  const last = new Map<string, number>()
  return Array.from({ length: size }, (_, n) => {
    const seq = n + 1
    const handle = n % 4 === 3 ? null : `jkt:${n % 4}`
    const prev = handle === null ? null : (last.get(handle) ?? 0)
    if (handle !== null) last.set(handle, seq)
    return {
      seq,
      ts: new Date(BEGINS_MS + n * 1_000).toISOString(),
      kind: seq % 5 === 0 ? 'promised' : 'touched',
      family: n % 3 === 0 ? null : `fam_${n}`,
      handle,
      count: (n % 2) + 1,
      prev,
      salt: createHash('sha256').update(`salt ${n}`).digest().subarray(0, 16),
      data_text: JSON.stringify({ agreement: `s256:${seq}`, text: '"quoted"' }),
    }
  })
}

/** The leaf of an entry. */
export const leafOf = ({ data_text, prev, ...entry }: LedgerFileEntry, owner = OWNER): Buffer =>
  ledgerLeaf({ ...entry, owner, data: data_text, prev: prev ?? 0 })

/** All tiles of a tree. */
export function tilesOf(leaves: readonly Uint8Array[]): LedgerFileTile[] {
  const levels: Uint8Array[][] = [[...leaves]]
  for (const { level, hash } of appendLeaves({ size: 0, hashes: [] }, leaves).above)
    (levels[level] ??= []).push(hash)
  return levels.flatMap((row, level) =>
    Array.from({ length: Math.ceil(row.length / TILE_HASHES) }, (_, index) => ({
      level,
      index,
      hashes: Buffer.concat(row.slice(index * TILE_HASHES, (index + 1) * TILE_HASHES)),
    })),
  )
}

const noteOf = (leaves: readonly Uint8Array[], { origin = ORIGIN, key = LOG_KEY }: Signer): string => {
  const { frontier } = appendLeaves({ size: 0, hashes: [] }, leaves)
  return signCheckpoint({ origin, size: leaves.length, root: rootOf(frontier) }, key)
}

/** A ledger of these entries, as a log that signs it has it; `leaves` if they are not theirs. */
export function ledgerFileOf(
  entries: readonly LedgerFileEntry[],
  {
    leaves = entries.map(entry => leafOf(entry)),
    ...signer
  }: Signer & { leaves?: readonly Uint8Array[] } = {},
): LedgerFile {
  return { owner: OWNER, checkpoint: noteOf(leaves, signer), tiles: tilesOf(leaves), entries }
}

/** What a plan proves, by the tiles of a ledger. */
export const proofBy = (plan: ProofPlan, tiles: readonly LedgerFileTile[]): Buffer[] =>
  proofOf(plan, place => tiles.find(tile => tile.level === place.level && tile.index === place.index)!.hashes)

/** The record of an agent in the ledger of these entries, as a log that signs that has it. */
export function recordOf(
  entries: readonly LedgerFileEntry[],
  handle: string,
  signer: Signer = {},
): LedgerRecord {
  const { owner, checkpoint, tiles } = ledgerFileOf(entries, signer)
  const own = entries.filter(entry => entry.handle === handle)
  const proofAt = (seq: number): Buffer[] => proofBy(planInclusion(seq - 1, entries.length), tiles)
  return { owner, handle, checkpoint, entries: own.map(entry => ({ ...entry, proof: proofAt(entry.seq) })) }
}

/** The text of either file. */
export const textOf = (file: LedgerFile | LedgerRecord): string =>
  [
    ledgerHeadLine(file),
    ...('tiles' in file ? file.tiles.map(ledgerTileLine) : []),
    ...file.entries.map(entry => ledgerEntryLine(entry)),
  ].join('')

/** The head that the log signed when these entries were all. */
export function headOf(entries: readonly LedgerFileEntry[], signer: Signer = {}): LedgerHead {
  const note = noteOf(
    entries.map(entry => leafOf(entry)),
    signer,
  )
  return headOfCheckpoint(note, (signer.key ?? LOG_KEY).kid)
}
