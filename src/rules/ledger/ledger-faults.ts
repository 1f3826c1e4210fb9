/**
 * What speaks against a ledger that somebody verifies: the kinds of faults, and where each is. docs/proof.md
 * says what each proves. Contract: "Events" (row 5).
 */
import type { LedgerHead } from '../../wire/ledger/ledger-head.ts'

export type LedgerFaultCode =
  /**
   * None of the log's keys signed the checkpoint, or a head that is compared with it; or a witness did not
   * make the cosignature that names it.
   */
  | 'unsigned'
  /** The checkpoint is of another ledger than the one that was asked for. */
  | 'other_origin'
  /** A head or a receipt is of another ledger, so that nothing is compared. */
  | 'other_ledger'
  /** A tile is not in the file, is there twice, or is not made from the leaves below it. */
  | 'tile'
  /** The leaves have another root than the one that was signed. */
  | 'root'
  /** An entry is another one than its leaf says. */
  | 'entry'
  /** In the record of an agent: an entry, or its proof that the checkpoint covers it, was not signed so. */
  | 'proof'
  /** In the record of an agent: an entry of another one. */
  | 'other_agent'
  /** A leaf in the tiles is another one than that of its entry, which is the one that was signed. */
  | 'leaf'
  /** An entry is not there. */
  | 'gap'
  /** An entry stands behind one with the same or a greater position. */
  | 'order'
  /** An entry that the checkpoint does not cover. */
  | 'beyond_head'
  /** The position that an entry names as the one before it, of the same agent, is not that one. */
  | 'chain'
  /** A head that was signed has another root than this ledger at its size. */
  | 'fork'
  /** A head that was signed covers more entries than this ledger has. */
  | 'rollback'
  /** A head is of an origin that a restore has replaced. */
  | 'replaced'
  /** A head is of another origin of this ledger, and no entry says that a restore has replaced either. */
  | 'two_origins'
  /** A receipt whose entry is not there. */
  | 'omission'
  /** Whether a receipt has its entry, or whether a head is one of this ledger, cannot be found out. */
  | 'unproved'

/** A fault, where it is, and what to do about it. */
export interface LedgerFault {
  code: LedgerFaultCode
  /** The first entry that is concerned; undefined if it is none of them alone. */
  position?: number
  /** The last one of those that stand one behind the other from there. */
  to?: number
  /** The head that is concerned. */
  head?: LedgerHead
  /** Words for where the head or the receipt that is concerned is from. */
  from?: string
  /** The origin of the head in that receipt. */
  receiptOrigin?: string
  /** Of a head whose origin was replaced: how many entries of it the restore knew. */
  restoredSize?: number
  sentence: string
}

/** Positions that stand one behind the other. */
export interface PositionRun {
  from: number
  to: number
}

/** Positions, which are in order, as runs. */
export function runsOf(positions: Iterable<number>): PositionRun[] {
  const runs: PositionRun[] = []
  for (const position of positions) addPosition(runs, position)
  return runs
}

/** Adds a position behind those of the runs. */
export function addPosition(runs: PositionRun[], position: number): void {
  const last = runs.at(-1)
  if (last?.to === position - 1) last.to = position
  else runs.push({ from: position, to: position })
}

/** A fault of these entries. `about` follows their positions. About several it begins with `is`. */
export function faultAt(code: LedgerFaultCode, { from, to }: PositionRun, about: string): LedgerFault {
  const sentence =
    from === to ? `Entry ${from} ${about}` : `Entries ${from} to ${to} ${about.replace(/^is /, 'are ')}`
  return { code, position: from, to, sentence }
}
