/**
 * Owns `usher verify ledger`: whether the file of an owner's ledger is what its log signed, and whether heads
 * and receipts that others have fit it. It asks nobody, unless it is to fetch proofs of consistency.
 * docs/choices.md, "The file of a ledger". Contract: "Events" (row 5).
 */
import { createReadStream } from 'node:fs'
import {
  parseJwks,
  readLedgerFile,
  verifyLedger,
  verifyReceipt,
  type HeadProofs,
  type HeadAt,
  type ReceiptAt,
  type LedgerFault,
  type LedgerFile,
  type LedgerHead,
  type LedgerKnowledge,
  type LedgerVerdict,
  type PublishedKey,
} from '../verify/index.ts'
import { isJsonObject, parseJson } from '../wire/json.ts'
import { member, textMember } from '../wire/json-members.ts'
import type { Checkpoint } from '../wire/ledger/checkpoint.ts'
import { RECEIPT_BYTES_MAX } from '../wire/negotiation/receipt.ts'
import { Refusal } from '../wire/refusal.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { EXIT, Exit, UsageError, type Terminal } from './command.ts'
import { printable } from './printable.ts'
import { headsIn, readLogKeys, readText } from './verify-heads.ts'

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

/** How an authority is asked for proofs: what came, and in a sentence why others did not. */
export type FetchProofs = (
  issuer: string,
  checkpoint: Checkpoint,
  heads: readonly LedgerHead[],
) => Promise<{ proofs: HeadProofs; outage: string | undefined }>

/**
 * Prints each fault of the ledger in this file (`-`: the standard input), a line for each: its code and a
 * sentence. Fails with exit code 1 if there is any, with 3 if a proof that was asked for could not be
 * fetched, and with `UsageError` if a file cannot be read or is none. `now` in seconds.
 */
export async function verifyLedgerFile(
  path: string,
  options: VerifyLedgerOptions,
  { terminal, now, fetchProofs }: { terminal: Terminal; now: number; fetchProofs: FetchProofs },
): Promise<void> {
  const keys = await readKeys(options.keys)
  const receipts = await readReceipts(options.receipts ?? [], { ...keys, now })
  const files = [...(options.heads ?? []), ...(options.receipts ?? [])]
  const heads: HeadAt[] = []
  for (const file of files) heads.push(...headsIn(file, await readText(file)))
  const knowledge: LedgerKnowledge = {
    keys: keys.log,
    issuer: keys.issuer,
    origin: options.origin,
    first: options.from,
    heads,
    receipts: receipts.known,
  }
  const ask = options.fetch === undefined ? undefined : fetchProofs.bind(undefined, options.fetch)
  const { faults, checkpoint, outage } = await judge(await readFile(path), knowledge, ask)
  const first = options.from ?? 1
  if (checkpoint !== undefined && first > checkpoint.size)
    throw new UsageError(`Give --from a position that the head covers: it has ${checkpoint.size}.`)
  const all = [...receipts.faults, ...faults]
  for (const { code, sentence } of all) terminal.out(`${code}: ${printable(sentence)}\n`)
  if (outage !== undefined) terminal.err(`${printable(outage)}\n`)
  if (all.length > 0) throw new Exit(EXIT.refused)
  if (outage !== undefined) throw new Exit(EXIT.unavailable)
  const { origin, size } = checkpoint!
  terminal.out(
    `Entries ${first} to ${size} of ${printable(origin)} are what the log signed, and nothing that you gave contradicts them.\n`,
  )
}

/** Judges with what is known; what only a proof can clear is asked for, and judged again with it. */
async function judge(
  file: LedgerFile,
  knowledge: LedgerKnowledge,
  ask: ((checkpoint: Checkpoint, heads: readonly LedgerHead[]) => ReturnType<FetchProofs>) | undefined,
): Promise<LedgerVerdict & { outage?: string | undefined }> {
  const verdict = verifyLedger(file, knowledge)
  const newer = verdict.faults.flatMap(({ code, head }) => (code === 'rollback' && head ? [head] : []))
  if (ask === undefined || newer.length === 0) return verdict
  const { proofs, outage } = await ask(verdict.checkpoint!, newer)
  const proved = verifyLedger(file, { ...knowledge, proofs })
  if (outage === undefined) return proved
  // That nobody answered is no fault of the ledger.
  return { ...proved, faults: proved.faults.filter(({ code }) => code !== 'rollback'), outage }
}

/** The keys of the log, those of the authority, and the authority if the file names it. */
interface VerifyingKeys {
  log: readonly PublishedKey[]
  authority: readonly PublishedKey[]
  issuer: string | undefined
}

/**
 * A JWKS of the log's keys; or `{issuer, log_keys, keys}`, where `log_keys` are those and `keys` the ones of
 * the authority, which sign receipts. Without `log_keys` all keys count for both.
 */
async function readKeys(path: string): Promise<VerifyingKeys> {
  const text = await readText(path)
  try {
    const value = parseJson(text)
    if (isJsonObject(value)) {
      const { log_keys, keys = [] } = value
      const issuer = member(value, 'issuer') === undefined ? undefined : textMember(value, 'issuer')
      if (log_keys !== undefined) {
        const log = parseJwks(isJsonObject(log_keys) ? log_keys : { keys: log_keys })
        if (log.length > 0) return { log, authority: parseJwks({ keys }), issuer }
      } else {
        const both = readLogKeys(path, text)
        return { log: both, authority: both, issuer }
      }
    }
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
  }
  throw new UsageError(`${path} holds no Ed25519 key: give what the authority publishes at /ledger/jwks.`)
}

/** The receipts in these files, one a line, of which keys of the authority signed the ones that count. */
async function readReceipts(
  paths: readonly string[],
  { authority, now }: VerifyingKeys & { now: number },
): Promise<{ known: ReceiptAt[]; faults: LedgerFault[] }> {
  const known: ReceiptAt[] = []
  const faults: LedgerFault[] = []
  for (const path of paths)
    for (const [n, line] of (await readText(path)).split('\n').entries()) {
      const compact = line.trim()
      const from = `${path}:${n + 1}`
      if (compact === '') continue
      try {
        const issuer = textMember(parseJws(compact, RECEIPT_BYTES_MAX).payload, 'iss')
        known.push({ claims: verifyReceipt(compact, authority, { issuer, now }).claims, from })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        const sentence = `The receipt of ${from} says nothing, because it does not hold by the keys that you have. ${error.detail ?? error.code}`
        faults.push({ code: 'unsigned', sentence })
      }
    }
  return { known, faults }
}

async function readFile(path: string): Promise<LedgerFile> {
  try {
    return await readLedgerFile(linesOf(path))
  } catch (cause) {
    if (cause instanceof Refusal) throw new UsageError(`${path}: ${cause.detail ?? cause.code}`, { cause })
    throw cause
  }
}

/** Lines end with a line feed alone: other ends are characters of the entries. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const source = path === '-' ? process.stdin : createReadStream(path)
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let rest = ''
  try {
    for await (const chunk of source) {
      const lines = `${rest}${decoder.decode(chunk as Uint8Array, { stream: true })}`.split('\n')
      rest = lines.pop()!
      yield* lines
    }
    rest += decoder.decode()
  } catch (cause) {
    const isText = cause instanceof TypeError
    throw new UsageError(isText ? `${path} is no text in UTF-8.` : `${path} cannot be read.`, { cause })
  }
  if (rest !== '') yield rest
}
