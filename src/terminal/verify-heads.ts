/**
 * Owns `usher verify heads`: whether heads of ledgers that several people hold contradict each other, or a
 * ledger that its owner exported. It asks nobody. docs/choices.md, "Heads that contradict each other".
 * Contract: "Events" (row 5).
 */
import type {
  HeadAt,
  LedgerFault,
  LedgerFaultCode,
  LedgerHead,
  PublishedKey,
  ReceiptAt,
} from '../verify/index.ts'
import type { Checkpoint } from '../wire/ledger/checkpoint.ts'
import { logOfOrigin, restoreTimeOf, verifyLedgerHead } from '../wire/ledger/ledger-head.ts'
import { Refusal } from '../wire/refusal.ts'
import { EXIT, Exit, UsageError, type Terminal } from './command.ts'
import { printable } from './printable.ts'
import {
  headsIn,
  isReceipt,
  readText,
  readVerifyingKeys,
  receiptsIn,
  verifyLedgerAt,
  type VerifyingKeys,
} from './verify-files.ts'

/** Paths: `files` have the heads, `keys` the log's keys, and `ledger` what an owner exported. */
export interface VerifyHeadsOptions {
  files: readonly string[]
  keys: string
  ledger?: string | undefined
}

/** What speaks against heads, or against the ledger that they are compared with. */
export interface HeadsFinding {
  kind: 'two origins' | LedgerFaultCode
  sentence: string
}

/**
 * Prints what speaks against the heads in these files. Fails with exit code 1 if anything does, and with
 * `UsageError` if a file cannot be read or has no head, or the ledger is the record of one agent. `now` in
 * seconds.
 */
export async function verifyHeads(
  options: VerifyHeadsOptions,
  { terminal, now }: { terminal: Terminal; now: number },
): Promise<void> {
  const { files, ledger: path } = options
  const keys = await readVerifyingKeys(options.keys)
  const texts = await Promise.all(files.map(async file => ({ path: file, text: await readText(file) })))
  const heads = texts.flatMap(one => headsIn(one.path, one.text))
  if (heads.length === 0) throw new UsageError(`There is no head of a ledger in ${files.join(', ')}.`)
  const { ledger, findings }: HeadsLedger =
    path === undefined
      ? { ledger: undefined, findings: [] }
      : await judgeLedger(path, { ...readReceipts(texts, { ...keys, now }), keys, heads })
  const all = [...findings, ...compareHeads(heads, keys.log, ledger)]
  for (const { kind, sentence } of all) terminal.out(`${kind}: ${printable(sentence)}\n`)
  if (all.length > 0) throw new Exit(EXIT.refused)
  terminal.out('Keys of the log signed these heads, and none contradicts another.\n')
  if (ledger !== undefined)
    terminal.out(
      `Those of ${printable(ledger.checkpoint.origin)} are heads of the ledger in ${printable(ledger.path)}. Whether its entries are what was signed: usher verify ledger.\n`,
    )
}

/** Receipts among the lines of heads, and where those are that no key of the authority verifies. */
interface ReceiptsRead {
  receipts: readonly ReceiptAt[]
  unverified: readonly string[]
}

function readReceipts(
  texts: readonly { path: string; text: string }[],
  keys: Pick<VerifyingKeys, 'authority'> & { now: number },
): ReceiptsRead {
  const read = texts.map(({ path, text }) => {
    // Other lines stay as empty ones, so that each receipt has its number.
    const lines = text.split('\n').map(line => (isReceipt(line.trim()) ? line : ''))
    return receiptsIn({ path, text: lines.join('\n') }, keys)
  })
  return {
    receipts: read.flatMap(({ known }) => known),
    unverified: read.flatMap(({ faults }) => faults.flatMap(({ from }) => from ?? [])),
  }
}

/** A ledger whose leaves have the root that was signed, and what speaks against heads and receipts by it. */
export interface JudgedLedger {
  path: string
  checkpoint: Checkpoint
  faults: readonly LedgerFault[]
  /** Where receipts are that no key of the authority verifies. */
  unverified: readonly string[]
}

/** What heads are compared with, or why they are not. */
interface HeadsLedger {
  ledger: JudgedLedger | undefined
  findings: HeadsFinding[]
}

/** Faults of a ledger by which nothing can be said of heads. */
const UNUSABLE: ReadonlySet<LedgerFaultCode> = new Set(['unsigned', 'other_origin', 'root', 'tile'])

async function judgeLedger(
  path: string,
  { keys, heads, receipts, unverified }: ReceiptsRead & { keys: VerifyingKeys; heads: readonly HeadAt[] },
): Promise<HeadsLedger> {
  const { verdict } = await verifyLedgerAt(path, ({ handle }) => {
    if (handle !== undefined)
      throw new UsageError(
        `${path} is the record of one agent, which has no leaves of others: give a ledger that was exported without --handle.`,
      )
    return { keys: keys.log, issuer: keys.issuer, heads, receipts }
  })
  const { checkpoint, faults } = verdict()
  const unusable = faults.filter(({ code, from }) => from === undefined && UNUSABLE.has(code))
  if (checkpoint === undefined || unusable.length > 0) {
    const findings = unusable.map(({ code, sentence }) => ({
      kind: code,
      sentence: `${path}: ${sentence} Heads were compared without it.`,
    }))
    return { ledger: undefined, findings }
  }
  return { ledger: { path, checkpoint, faults, unverified }, findings: [] }
}

/**
 * Compares heads that keys of the log signed. Two of one origin and size must have the same root, and a
 * ledger has one origin. Sizes that differ need a proof of consistency, which is in none of the files, or a
 * ledger that has the leaves below both.
 */
export function compareHeads(
  found: readonly HeadAt[],
  keys: readonly PublishedKey[],
  ledger?: JudgedLedger,
): HeadsFinding[] {
  const faults = found.map(one => ({ one, fault: faultOf(one.head, keys) }))
  const signed = faults.filter(({ fault }) => fault === undefined).map(({ one }) => one)
  const open = signed.filter(one => ledger === undefined || !isSettled(one, ledger))
  const log = ledger && logOfOrigin(ledger.checkpoint.origin)
  const byOrigin = Map.groupBy(signed, originOf)
  const openByOrigin = Map.groupBy(open, originOf)
  const byLog = Map.groupBy(signed, ({ head }) => logOfOrigin(head.origin))
  return [
    ...faults.flatMap(({ one, fault }) => (fault === undefined ? [] : [unsigned(one, fault)])),
    ...[...byOrigin].flatMap(([origin, heads]) => forksOf(origin, heads)),
    ...(ledger === undefined ? [] : findingsBeside(ledger)),
    ...[...openByOrigin].flatMap(([origin, heads]) => unprovedOf(origin, heads, ledger)),
    ...[...byLog].flatMap(([name, heads]) => (name === log ? [] : ofLog(name, heads))),
  ]
}

const originOf = ({ head }: { head: LedgerHead }): string => head.origin
const sizeOf = ({ head }: HeadAt): number => head.size

const unsigned = ({ from }: HeadAt, fault: string): HeadsFinding => ({
  kind: 'unsigned',
  sentence: `${from}: this head says nothing, because no key of the log that you have signed it. ${fault}`,
})

/** Whether a ledger shows that a head is one of it, or that it is not. */
function isSettled({ head }: HeadAt, { checkpoint, faults }: JudgedLedger): boolean {
  if (logOfOrigin(head.origin) !== logOfOrigin(checkpoint.origin)) return false
  const fault = faults.find(one => one.head === head)
  return fault === undefined || fault.code === 'fork' || head.size <= (fault.restoredSize ?? -1)
}

function forksOf(origin: string, heads: readonly HeadAt[]): HeadsFinding[] {
  return [...Map.groupBy(heads, sizeOf)].flatMap(([size, same]): HeadsFinding[] => {
    const roots = Map.groupBy(same, ({ head }) => head.root)
    if (roots.size === 1) return []
    const sentence = `${origin} has ${roots.size} ledgers of ${size} entries, each signed by its log: ${listed(roots)}.`
    return [{ kind: 'fork', sentence }]
  })
}

/** Heads of one origin of which nothing shows that they belong together, or to the ledger. */
function unprovedOf(
  origin: string,
  heads: readonly HeadAt[],
  ledger: JudgedLedger | undefined,
): HeadsFinding[] {
  const bySize = Map.groupBy(heads, sizeOf)
  const own = ledger?.checkpoint.origin === origin ? ledger : undefined
  const sizes = new Set(own === undefined ? bySize.keys() : [own.checkpoint.size, ...bySize.keys()])
  if (sizes.size <= 1) return []
  const inOrder = [...sizes].toSorted((one, other) => one - other).join(', ')
  const [beside, again] =
    own === undefined ? ['', ''] : [`${own.checkpoint.size} (${own.path}); `, 'export the ledger again, or ']
  const sentence = `That the ledgers of ${origin} with ${inOrder} entries continue one another is proved by nothing here: ${again}ask its authority, POST /ledger/{tag}/consistency. They are those of ${beside}${listed(bySize)}.`
  return [{ kind: 'unproved', sentence }]
}

/** What a ledger says of the heads that are of it, or of another origin of it. */
function findingsBeside(ledger: JudgedLedger): HeadsFinding[] {
  const { faults, path } = ledger
  const ofCode = (code: LedgerFaultCode): FaultOfHead[] =>
    faults.filter((fault): fault is FaultOfHead => fault.code === code && fault.head !== undefined)
  const other = faults.filter(({ code, from }) => code === 'other_ledger' && from === undefined)
  const forks = Map.groupBy(ofCode('fork'), ({ head }) => `${head.origin} ${head.size} ${head.root}`)
  const replaced = Map.groupBy(ofCode('replaced'), originOf)
  const others = Map.groupBy(ofCode('two_origins'), originOf)
  return [
    ...other.map(({ code, sentence }): HeadsFinding => ({ kind: code, sentence: `${path}: ${sentence}` })),
    ...[...forks.values()].map(same => forkBeside(same, path)),
    ...[...replaced].map(([origin, heads]) => replacedBy(origin, heads, ledger)),
    ...[...others].map(([origin, heads]) => otherOrigin(origin, heads, ledger)),
  ]
}

type FaultOfHead = LedgerFault & { head: LedgerHead }

const placesOf = (faults: readonly LedgerFault[]): string =>
  faults.flatMap(({ from }) => from ?? []).join(', ')

/** A head that the ledger has another root for, and all places where it is. */
function forkBeside(same: readonly FaultOfHead[], path: string): HeadsFinding {
  const { origin, size } = same[0]!.head
  const sentence = `${origin} has another root for its first ${size} entries in ${placesOf(same)} than in ${path}, each signed by its log: something below was changed since, or two ledgers were shown. Keep both.`
  return { kind: 'fork', sentence }
}

/** An origin that a restore has replaced: what its largest head lost, and which receipts have no entry. */
function replacedBy(
  origin: string,
  heads: readonly FaultOfHead[],
  { faults, path, unverified }: JudgedLedger,
): HeadsFinding {
  const [largest] = heads.toSorted((one, other) => other.head.size - one.head.size)
  const absent = faults.filter(({ receiptOrigin }) => receiptOrigin === origin)
  const sentences = [
    largest!.sentence,
    ...(heads.length === 1 ? [] : [`Heads of that origin are in ${placesOf(heads)}.`]),
    ...(absent.length === 0
      ? []
      : [`The entries of these receipts are not in ${path}: ${placesOf(absent)}.`]),
    ...(unverified.length === 0
      ? []
      : [
          `No key of the authority that you gave verifies the receipts of ${unverified.join(', ')}: they were not looked for.`,
        ]),
  ]
  return { kind: 'replaced', sentence: sentences.join(' ') }
}

/**
 * Two origins of which no entry names the other. It is a fork only if the ledger would have such an entry: it
 * can know nothing of a later origin, and the entry may be one that is absent or was changed in the file.
 */
function otherOrigin(
  origin: string,
  heads: readonly FaultOfHead[],
  { path, checkpoint, faults }: JudgedLedger,
): HeadsFinding {
  const of = `The ledger of ${path} is ${checkpoint.origin}, and the heads of ${placesOf(heads)} are of ${origin}`
  if (restoreTimeOf(origin) > restoreTimeOf(checkpoint.origin))
    return {
      kind: 'unproved',
      sentence: `${of}, which began later. Whether an entry \`restored\` names the older origin is proved by nothing here: export the ledger again.`,
    }
  if (faults.some(({ code }) => code === 'gap' || code === 'entry'))
    return {
      kind: 'unproved',
      sentence: `${of}. Entries of the ledger are absent or changed, and an entry \`restored\` that names that origin may be one of them: give a ledger that has them all.`,
    }
  return {
    kind: 'fork',
    sentence: `${of}, which no entry \`restored\` names: two ledgers were shown, or a restore went back behind an earlier one. Ask the operator.`,
  }
}

function ofLog(log: string, heads: readonly HeadAt[]): HeadsFinding[] {
  const origins = Map.groupBy(heads, originOf)
  if (origins.size === 1) return []
  const sentence = `${log} has ${origins.size} origins: ${listed(origins)}. That is a fork, unless an entry \`restored\` of the ledger names the older one: give the ledger with --ledger.`
  return [{ kind: 'two origins', sentence }]
}

function faultOf(head: LedgerHead, keys: readonly PublishedKey[]): string | undefined {
  try {
    verifyLedgerHead(head, keys)
    return undefined
  } catch (error) {
    if (error instanceof Refusal) return error.detail ?? error.code
    throw error
  }
}

/** Each name or size with the places that it is from. */
const listed = (groups: ReadonlyMap<string | number, readonly HeadAt[]>): string =>
  [...groups].map(([name, from]) => `${name} (${from.map(one => one.from).join(', ')})`).join('; ')
