/**
 * Verifies the file of a ledger, or of the record of one agent, while its lines are read, so that a ledger
 * may be larger than memory. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import {
  ledgerFileParts,
  type LedgerFilePart,
  type LedgerFileStart,
  type ProvedEntry,
} from '../../wire/ledger/ledger-file.ts'
import type { HeadProofs } from './known-heads.ts'
import { ledgerJudge, type LedgerKnowledge, type LedgerVerdict } from './verify-ledger.ts'
import { verifyRecord } from './verify-record.ts'

/** A file that was read to its end. */
export interface LedgerLines {
  start: LedgerFileStart
  /** How many entries it has, whatever they are. */
  entries: number
  /** The position of the last one; 0 if there is none. */
  last: number
  /** What was found in it; `proofs` if they came later than the other knowledge. */
  verdict: (proofs?: HeadProofs) => LedgerVerdict
}

interface PartsJudge extends Pick<LedgerLines, 'verdict'> {
  take: (part: LedgerFilePart) => void
}

/**
 * Reads these lines, without their ends, as `readLedgerExport` does, and refuses what that refuses. Of a
 * whole ledger no entry is held (`ledgerJudge`); the record of one agent is held until its verdict.
 * `knowledgeOf` says what the caller knows, once the first line has told which of the two it is.
 */
export async function verifyLedgerLines(
  lines: AsyncIterable<string> | Iterable<string>,
  knowledgeOf: (start: LedgerFileStart) => LedgerKnowledge,
): Promise<LedgerLines> {
  let read: { start: LedgerFileStart; judge: PartsJudge } | undefined
  let [entries, last] = [0, 0]
  for await (const part of ledgerFileParts(lines)) {
    if ('start' in part) read = { start: part.start, judge: judgeOf(part.start, knowledgeOf(part.start)) }
    read!.judge.take(part)
    if (!('entry' in part) && !('proved' in part)) continue
    entries += 1
    last = 'entry' in part ? part.entry.seq : part.proved.seq
  }
  const { start, judge } = read!
  return { start, entries, last, verdict: judge.verdict }
}

function judgeOf({ owner, checkpoint, handle }: LedgerFileStart, knowledge: LedgerKnowledge): PartsJudge {
  if (handle === undefined) {
    const judge = ledgerJudge({ owner, checkpoint }, knowledge)
    return {
      take: part => {
        if ('tile' in part) judge.tile(part.tile)
        if ('entry' in part) judge.entry(part.entry)
      },
      verdict: judge.verdict,
    }
  }
  const entries: ProvedEntry[] = []
  return {
    take: part => {
      if ('proved' in part) entries.push(part.proved)
    },
    verdict: (proofs = knowledge.proofs) =>
      verifyRecord({ owner, handle, checkpoint, entries }, { ...knowledge, proofs }),
  }
}
