/**
 * Owns how `usher verify` reads heads, receipts, ledgers and the keys that they are compared by. A file that
 * cannot be read is wrong usage, and says nothing about what was to be verified. docs/choices.md, "The file
 * of a ledger". Contract: "Events" (row 5), "Grant answer (beat 4)".
 */
import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import {
  parseJwks,
  parseWitnessKey,
  verifyLedgerLines,
  verifyReceipt,
  type HeadAt,
  type LedgerFault,
  type LedgerFileStart,
  type LedgerKnowledge,
  type LedgerLines,
  type PublishedKey,
  type ReceiptAt,
  type VerifierKey,
} from '../verify/index.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../wire/json.ts'
import { member, textMember } from '../wire/json-members.ts'
import { readLedgerHead } from '../wire/ledger/ledger-head.ts'
import { RECEIPT_BYTES_MAX } from '../wire/negotiation/receipt.ts'
import { Refusal } from '../wire/refusal.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { UsageError } from './command.ts'
import { printable } from './printable.ts'

/** The keys of the log, of the authority and of witnesses, and the authority if the file names it. */
export interface VerifyingKeys {
  log: readonly PublishedKey[]
  authority: readonly PublishedKey[]
  issuer: string | undefined
  witnesses: readonly VerifierKey[]
}

/**
 * A JWKS of the log's keys; or `{issuer, log_keys, keys, witnesses}`, where `log_keys` are those and `keys`
 * the ones of the authority, which sign receipts. Without `log_keys` all keys count for both. `witnesses` are
 * verifier keys, a line each. @throws UsageError if the file cannot be read, has none that is usable, or
 * names a witness by something else than its key.
 */
export async function readVerifyingKeys(path: string): Promise<VerifyingKeys> {
  const text = await readText(path)
  let value: Json | undefined
  try {
    value = parseJson(text)
    if (isJsonObject(value)) {
      const { log_keys, keys = [] } = value
      const issuer = member(value, 'issuer') === undefined ? undefined : textMember(value, 'issuer')
      const log = parseJwks(
        log_keys === undefined ? value : isJsonObject(log_keys) ? log_keys : { keys: log_keys },
      )
      const authority = log_keys === undefined ? log : parseJwks({ keys })
      const witnesses = witnessesIn(path, member(value, 'witnesses'))
      if (log.length > 0) return { log, authority, issuer, witnesses }
    }
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
  }
  throw new UsageError(
    `${path} holds no Ed25519 key: ${foundIn(value)}. Give what the authority publishes at /ledger/jwks.`,
  )
}

/** What is in a file in place of usable keys, in words; `value` is undefined if the file has no JSON. */
function foundIn(value: Json | undefined): string {
  if (value === undefined) return 'it is no well-formed JSON'
  if (!isJsonObject(value)) return 'it is no object with a list `keys`'
  const { issuer, log_keys, keys } = value
  if (issuer !== undefined && (typeof issuer !== 'string' || issuer === '')) return 'its `issuer` is no text'
  const deep = Object.entries(value).find(
    ([name, part]) => name !== 'log_keys' && isJsonObject(part) && Array.isArray(part['keys']),
  )
  if (deep !== undefined) return `its list of keys is one step too deep, in \`${printable(deep[0])}\``
  const isOfLog = log_keys !== undefined && (keys === undefined || Array.isArray(keys))
  const [name, list] = isOfLog
    ? (['log_keys', isJsonObject(log_keys) ? log_keys['keys'] : log_keys] as const)
    : (['keys', keys] as const)
  if (!Array.isArray(list)) return `it has no list \`${name}\``
  if (list.length === 0) return `its list \`${name}\` is empty`
  return `none of the ${list.length} in its list \`${name}\` is one`
}

/** One that cannot be read is not passed over: what it cosigned would then count for nothing, unnoticed. */
function witnessesIn(path: string, value: Json | undefined): VerifierKey[] {
  const lines: readonly Json[] = value === undefined ? [] : Array.isArray(value) ? value : [null]
  return lines.map(line => {
    try {
      return parseWitnessKey(typeof line === 'string' ? line : '')
    } catch (cause) {
      if (!(cause instanceof Refusal)) throw cause
      const why = cause.detail ?? cause.code
      throw new UsageError(`${path} has \`witnesses\` that cannot be used. ${why}`, { cause })
    }
  })
}

/**
 * The heads in a file, one a line: what `usher sidecar heads --json` prints, or receipts, of which those
 * without a head are passed over. No signature is verified here. @throws UsageError for any other line.
 */
export function headsIn(path: string, text: string): HeadAt[] {
  return linesIn(path, text).flatMap(({ line, from }) => {
    try {
      const { ledger_head } = isReceipt(line) ? parseJws(line, RECEIPT_BYTES_MAX).payload : objectIn(line)
      return ledger_head === undefined ? [] : [{ head: readLedgerHead(ledger_head), from }]
    } catch (cause) {
      if (!(cause instanceof Refusal)) throw cause
      throw new UsageError(
        `${from} is neither a receipt nor a line of \`usher sidecar heads --json\`: ${cause.detail ?? cause.code}`,
        { cause },
      )
    }
  })
}

/**
 * The receipts in a file, one a line, of which keys of the authority signed the ones that count; each other
 * one is a fault. `now` in seconds.
 */
export function receiptsIn(
  { path, text }: { path: string; text: string },
  { authority, now }: Pick<VerifyingKeys, 'authority'> & { now: number },
): { known: ReceiptAt[]; faults: LedgerFault[] } {
  const known: ReceiptAt[] = []
  const faults: LedgerFault[] = []
  for (const { line, from } of linesIn(path, text))
    try {
      const issuer = textMember(parseJws(line, RECEIPT_BYTES_MAX).payload, 'iss')
      known.push({ claims: verifyReceipt(line, authority, { issuer, now }).claims, from })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const sentence = `The receipt of ${from} says nothing, because it does not hold by the keys that you have. ${error.detail ?? error.code}`
      faults.push({ code: 'unsigned', from, sentence })
    }
  return { known, faults }
}

/** Whether a line of heads is a receipt: a line of `usher sidecar heads --json` is an object. */
export const isReceipt = (line: string): boolean => !line.startsWith('{')

/** The lines of a text that are not empty, without blanks around them, and where each is. */
export function linesIn(path: string, text: string): { line: string; from: string }[] {
  return text
    .split('\n')
    .map((line, at) => ({ line: line.trim(), from: `${path}:${at + 1}` }))
    .filter(({ line }) => line !== '')
}

function objectIn(line: string): JsonObject {
  const value = parseJson(line)
  return isJsonObject(value) ? value : {}
}

/**
 * Verifies the file of a ledger, or of the record of an agent, line by line (`-`: the standard input).
 * @throws UsageError if it cannot be read, or is none.
 */
export async function verifyLedgerAt(
  path: string,
  knowledgeOf: (start: LedgerFileStart) => LedgerKnowledge,
): Promise<LedgerLines> {
  try {
    return await verifyLedgerLines(linesOf(path, { fatal: true }), knowledgeOf)
  } catch (cause) {
    if (cause instanceof Refusal) throw new UsageError(`${path}: ${cause.detail ?? cause.code}`, { cause })
    throw cause
  }
}

/** Longer than any line of a ledger or a log: what has none is not read into memory as one. */
const LINE_LENGTH_MAX = 16 * 1_024 * 1_024

/**
 * The lines of a file (`-`: the standard input), without their ends. They end with a line feed alone: other
 * ends are characters of the lines. `fatal` refuses what is not in UTF-8. @throws UsageError if the file
 * cannot be read, or has a line of over 16 Mi characters.
 */
export async function* linesOf(path: string, { fatal }: { fatal: boolean }): AsyncGenerator<string> {
  const source = path === '-' ? process.stdin : createReadStream(path)
  const decoder = new TextDecoder('utf-8', { fatal, ignoreBOM: true })
  // Pieces, because a line that is made anew with each chunk takes quadratic time.
  let pieces: string[] = []
  let length = 0
  try {
    for await (const chunk of source) {
      const [first = '', ...others] = decoder.decode(chunk as Uint8Array, { stream: true }).split('\n')
      pieces.push(first)
      length += first.length
      if (length > LINE_LENGTH_MAX) throw new UsageError(`${path} has a line that is too long to be read.`)
      if (others.length === 0) continue
      yield pieces.join('')
      const last = others.pop()!
      yield* others
      pieces = [last]
      length = last.length
    }
    pieces.push(decoder.decode())
  } catch (cause) {
    if (cause instanceof UsageError) throw cause
    const isText = cause instanceof TypeError
    throw new UsageError(isText ? `${path} is no text in UTF-8.` : `${path} cannot be read.`, { cause })
  }
  const rest = pieces.join('')
  if (rest !== '') yield rest
}

/** The text of a file. @throws UsageError if it cannot be read. */
export async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new UsageError(`${path} cannot be read.`, { cause })
  }
}
