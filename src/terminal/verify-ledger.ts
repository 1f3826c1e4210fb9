/**
 * Owns `usher verify ledger`: whether the file of an owner's ledger, or the record of one agent in it, is
 * what its log signed, and whether heads and receipts that others have fit it. It asks nobody, unless it is
 * to fetch proofs of consistency. docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import {
  verifyCosignatures,
  type HeadAt,
  type HeadProofs,
  type LedgerFault,
  type LedgerHead,
  type LedgerLines,
  type LedgerVerdict,
  type ReceiptAt,
} from '../verify/index.ts'
import type { Checkpoint } from '../wire/ledger/checkpoint.ts'
import { Refusal } from '../wire/refusal.ts'
import { EXIT, Exit, UsageError, type Terminal } from './command.ts'
import { printable } from './printable.ts'
import {
  headsIn,
  readText,
  readVerifyingKeys,
  receiptsIn,
  verifyLedgerAt,
  type VerifyingKeys,
} from './verify-files.ts'

/** What the command line says that the reader knows; `keys`, `heads` and `receipts` are paths of files. */
export interface VerifyLedgerOptions {
  keys: string
  heads?: readonly string[] | undefined
  receipts?: readonly string[] | undefined
  origin?: string | undefined
  /** The first position that a retention has left. */
  from?: number | undefined
  /** The issuer that is asked for proofs. */
  fetch?: string | undefined
}

/**
 * How an authority is asked for proofs: what came, the roots of heads that it has no proof for, and in a
 * sentence why nothing is known of others.
 */
export type FetchProofs = (
  issuer: string,
  checkpoint: Checkpoint,
  heads: readonly LedgerHead[],
) => Promise<{ proofs: HeadProofs; none: ReadonlySet<string>; outage: string | undefined }>

/**
 * Prints each fault of the ledger or the record in this file (`-`: the standard input), a line for each: its
 * code and a sentence. Without a fault it prints what the file proves, and what it does not. Fails with exit
 * code 1 if there is any, with 3 if a proof that was asked for could not be fetched, and with `UsageError` if
 * a file cannot be read or is none. `now` in seconds.
 */
export async function verifyLedgerFile(
  path: string,
  options: VerifyLedgerOptions,
  { terminal, now, fetchProofs }: { terminal: Terminal; now: number; fetchProofs: FetchProofs },
): Promise<void> {
  const keys = await readVerifyingKeys(options.keys)
  const beside = await readBeside(options, { ...keys, now })
  const file = await verifyLedgerAt(path, ({ handle }) => ({
    keys: keys.log,
    issuer: keys.issuer,
    origin: options.origin,
    first: options.from,
    // A record has one root: without a proof the head in nearly every receipt would be a fault.
    heads: handle === undefined ? [...beside.heads, ...beside.receiptHeads] : beside.heads,
    receipts: beside.receipts,
  }))
  const ask = options.fetch === undefined ? undefined : fetchProofs.bind(undefined, options.fetch)
  const { faults, checkpoint, outage } = await judge(file.verdict, ask)
  const first = options.from ?? 1
  if (checkpoint !== undefined && first > checkpoint.size)
    throw new UsageError(`Give --from a position that the head covers: it has ${checkpoint.size}.`)
  const cosigned = readCosigned(file.start.checkpoint, keys.witnesses)
  // What is no note of this log at all is told of already.
  const all = [...beside.faults, ...(checkpoint === undefined ? [] : cosigned.faults), ...faults]
  for (const { code, sentence } of all) terminal.out(`${code}: ${printable(sentence)}\n`)
  if (outage !== undefined) terminal.err(`${printable(outage)}\n`)
  if (all.length > 0) throw new Exit(EXIT.refused)
  if (outage !== undefined) throw new Exit(EXIT.unavailable)
  const { handle } = file.start
  if (handle !== undefined && first > file.last)
    throw new UsageError(`Give --from a position that the record reaches: its last entry is ${file.last}.`)
  const lines =
    handle === undefined
      ? ledgerWords(checkpoint!, first)
      : recordWords({ ...file, handle }, checkpoint!, first)
  for (const line of [...lines, ...cosigned.lines]) terminal.out(`${printable(line)}\n`)
}

/** What the witnesses that the reader knows say of the head, a line each; or the fault in what they say. */
function readCosigned(
  note: string,
  witnesses: VerifyingKeys['witnesses'],
): { lines: readonly string[]; faults: readonly LedgerFault[] } {
  if (witnesses.length === 0) return { lines: [], faults: [] }
  try {
    const lines = verifyCosignatures(note, witnesses).map(
      ({ witness, time }) =>
        `${witness} cosigned this head at ${new Date(time * 1_000).toISOString()}: until then it had seen none of this origin that contradicts it.`,
    )
    const none = 'None of the witnesses that you named has cosigned this head.'
    return { lines: lines.length > 0 ? lines : [none], faults: [] }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = `What a witness is said to have signed does not hold, so nothing shows that it has seen this head. ${error.detail ?? error.code}`
    return { lines: [], faults: [{ code: 'unsigned', sentence }] }
  }
}

/** What a whole ledger without a fault proves, and what it does not. */
const ledgerWords = ({ origin, size }: Checkpoint, first: number): string[] => [
  `Entries ${first} to ${size} of ${origin} are what the log signed, and nothing that you gave contradicts them.`,
  'It proves nothing of what came after this head, and nothing of what was never entered.',
]

/** What the record of an agent without a fault proves, and what it does not. */
function recordWords(
  { handle, entries, last }: Pick<LedgerLines, 'entries' | 'last'> & { handle: string },
  { origin, size }: Checkpoint,
  first: number,
): string[] {
  return [
    `The ${entries} entries of ${handle} from ${first} to ${last} of ${origin} are what the log signed, none of that agent is absent between them, and nothing that you gave contradicts them.`,
    `That is one chain. Entries of that agent behind ${last}, up to ${size} or after it, may be absent; of other agents, and of what was never entered, it proves nothing.`,
  ]
}

/** Judges with what is known; what only a proof can clear is asked for, and judged again with it. */
async function judge(
  verdictBy: LedgerLines['verdict'],
  ask: ((checkpoint: Checkpoint, heads: readonly LedgerHead[]) => ReturnType<FetchProofs>) | undefined,
): Promise<LedgerVerdict & { outage?: string | undefined }> {
  const verdict = verdictBy()
  const { checkpoint, faults } = verdict
  const open = faults.flatMap(fault => (isOpen(fault, checkpoint) ? [fault.head] : []))
  if (ask === undefined || open.length === 0) return verdict
  const { proofs, none, outage } = await ask(checkpoint!, open)
  const proved = verdictBy(proofs)
  if (outage === undefined) return proved
  // That nobody answered is no fault of the ledger; what was answered before that is.
  const isUnanswered = (fault: LedgerFault): boolean =>
    isOpen(fault, checkpoint) && !proofs.has(fault.head.root) && !none.has(fault.head.root)
  return { ...proved, faults: proved.faults.filter(fault => !isUnanswered(fault)), outage }
}

/** Whether a proof of consistency would show that a head is one of this ledger. */
function isOpen(
  fault: LedgerFault,
  checkpoint: Checkpoint | undefined,
): fault is LedgerFault & { head: LedgerHead } {
  const { code, head } = fault
  const isUnknown = code === 'rollback' || code === 'unproved'
  return isUnknown && head !== undefined && head.origin === checkpoint?.origin
}

/** What others have: heads, receipts that hold with the heads in them, and a fault for each that does not. */
interface KnownBeside {
  heads: readonly HeadAt[]
  receiptHeads: readonly HeadAt[]
  receipts: readonly ReceiptAt[]
  faults: readonly LedgerFault[]
}

async function readBeside(
  { heads = [], receipts = [] }: VerifyLedgerOptions,
  keys: VerifyingKeys & { now: number },
): Promise<KnownBeside> {
  const read = async (paths: readonly string[]): Promise<{ path: string; text: string }[]> =>
    Promise.all(paths.map(async path => ({ path, text: await readText(path) })))
  const files = await read(receipts)
  const judged = files.map(file => receiptsIn(file, keys))
  return {
    heads: (await read(heads)).flatMap(({ path, text }) => headsIn(path, text)),
    receiptHeads: files.flatMap(({ path, text }) => headsIn(path, text)),
    receipts: judged.flatMap(({ known }) => known),
    faults: judged.flatMap(({ faults }) => faults),
  }
}
