/**
 * Whether the record of one agent in an owner's ledger is what its log signed: each entry by the proof that
 * the checkpoint covers it, and all of them by their chain. It believes nothing that is in the file but what
 * is below a signature by keys that the caller has. docs/choices.md, "The file of a ledger"; docs/proof.md.
 * Contract: "Events" (row 5).
 */
import type { Checkpoint } from '../../wire/ledger/checkpoint.ts'
import type { LedgerRecord, ProvedEntry } from '../../wire/ledger/ledger-file.ts'
import { compareKnownHeads, restoreIn } from './known-heads.ts'
import { findOmissions, isTimely, promiseIn, timeOf } from './known-receipts.ts'
import { faultAt, runsOf, type LedgerFault } from './ledger-faults.ts'
import { provesInclusion } from './merkle.ts'
import {
  leafOf,
  originFaults,
  readSignedHead,
  type LedgerKnowledge,
  type LedgerVerdict,
} from './verify-ledger.ts'

/**
 * Verifies the record of an agent. If no fault is found, its entries are what was signed, and none of that
 * agent is absent from `first` up to the last one that is there. Entries of the agent after that one may be
 * absent: the next entry would show it. It says nothing of other agents, and nothing of what was never
 * entered. Heads of other sizes are `unproved` without a proof, because the leaves below them are not there.
 */
export function verifyRecord(record: LedgerRecord, knowledge: LedgerKnowledge): LedgerVerdict {
  const signed = readSignedHead(record.checkpoint, knowledge.keys)
  if ('code' in signed) return { checkpoint: undefined, faults: [signed] }
  const { owner, handle } = record
  const read = readProved(record, signed)
  const chain = chainFaults(read, { handle, first: knowledge.first ?? 1 })
  const proved = [...read.proved.values()]
  const faults = [
    ...originFaults(signed, knowledge),
    ...read.faults,
    ...chain,
    ...compareKnownHeads(knowledge.heads ?? [], {
      checkpoint: signed,
      leafAt: () => undefined,
      restores: proved.flatMap(entry => restoreIn(entry) ?? []),
      keys: knowledge.keys,
      proofs: knowledge.proofs,
      isRecord: true,
    }),
    ...findOmissions(knowledge.receipts ?? [], {
      owner,
      checkpoint: signed,
      keys: knowledge.keys,
      agreements: new Set(proved.flatMap(entry => promiseIn(entry) ?? [])),
      latestMs: proved.reduce((most, entry) => Math.max(most, timeOf(entry)), 0),
      handle,
      completeFromMs: read.faults.length + chain.length === 0 ? completeFrom(proved) : Infinity,
    }),
  ]
  return { checkpoint: signed, faults }
}

/** From what time on no entry is absent in a chain that has no gap. */
function completeFrom(proved: readonly ProvedEntry[]): number {
  if (proved[0]?.prev === 0) return -Infinity
  const timely = proved.find(isTimely)
  return timely === undefined ? Infinity : timeOf(timely)
}

interface ProvedRead {
  /** Entries of the agent that the checkpoint covers, by position, in order. */
  proved: ReadonlyMap<number, ProvedEntry>
  /** Positions that the file has an entry for, whatever it is. */
  positions: ReadonlySet<number>
  faults: LedgerFault[]
}

/** What of these entries was signed as the agent's. Of two with one position the first counts. */
function readProved({ owner, handle, entries }: LedgerRecord, head: Checkpoint): ProvedRead {
  const proved: ProvedEntry[] = []
  const positions = new Set<number>()
  const faults: LedgerFault[] = []
  const beyond: number[] = []
  let last = 0
  for (const entry of entries) {
    const { seq } = entry
    const at = { from: seq, to: seq }
    if (seq <= last) {
      const about = `stands behind entry ${last}: entries were put in, moved or numbered anew.`
      faults.push(faultAt('order', at, about))
    }
    last = Math.max(last, seq)
    const isNew = !positions.has(seq)
    positions.add(seq)
    if (seq > head.size) beyond.push(seq)
    else if (!provesInclusion({ index: seq - 1, leaf: leafOf(owner, entry) }, head, entry.proof)) {
      const about =
        'is not what was signed, or its proof is not: something was changed, put in or numbered anew there. Keep this file, and ask for the record of before.'
      faults.push(faultAt('proof', at, about))
    } else if (entry.handle !== handle) {
      const about = `is of ${entry.handle ?? 'no agent'}, and this is the record of ${handle}: somebody put it in.`
      faults.push(faultAt('other_agent', at, about))
    } else if (isNew) proved.push(entry)
  }
  for (const run of runsOf(beyond)) {
    const about = `is beyond the head, which covers ${head.size}: nothing proves it. Export the record again.`
    faults.push(faultAt('beyond_head', run, about))
  }
  const inOrder = proved.toSorted((one, other) => one.seq - other.seq)
  return { proved: new Map(inOrder.map(entry => [entry.seq, entry])), positions, faults }
}

/**
 * Entries that name another one before them than there is: the one that they name was left out, or the chain
 * was signed false. An entry before `first` may be absent at the beginning. One that is there and is not what
 * was signed is told of already.
 */
function chainFaults(
  { proved, positions }: ProvedRead,
  { handle, first }: { handle: string; first: number },
): LedgerFault[] {
  const faults: LedgerFault[] = []
  let before = 0
  for (const [position, { prev }] of proved) {
    if (prev !== null && prev !== before) {
      const isLater = prev > before && prev < position
      const isDeleted = before === 0 && prev < first
      if (!isLater) faults.push(falseChain({ position, prev, before }, handle))
      else if (!isDeleted && !positions.has(prev)) faults.push(absence({ position, prev, before }, handle))
    }
    before = position
  }
  if (positions.size === 0)
    faults.push({
      code: 'gap',
      sentence: `This record has no entry, so it proves nothing of ${handle}: export it again.`,
    })
  return faults
}

/** An entry, the position that it names as the one before it, and that of the entry before it in the file. */
interface ChainLink {
  position: number
  prev: number
  before: number
}

function falseChain({ position, prev, before }: ChainLink, handle: string): LedgerFault {
  const about = `names entry ${prev} as the one before it of ${handle}, which is entry ${before}: the authority wrote a false chain. Keep this file.`
  return faultAt('chain', { from: position, to: position }, about)
}

function absence({ position, prev, before }: ChainLink, handle: string): LedgerFault {
  const begins = `is absent, which entry ${position} names as the one before it of ${handle}`
  // The retention deletes from the oldest on, and leaves no gap.
  const about =
    before === 0
      ? `${begins}; others before it may be, too. If the retention of your authority has deleted what is older than entry ${position}, verify with --from ${position}; else somebody took entries out.`
      : `${begins}; others between it and entry ${before} may be, too. No retention leaves a gap: somebody took entries out.`
  return faultAt('gap', { from: prev, to: prev }, about)
}
