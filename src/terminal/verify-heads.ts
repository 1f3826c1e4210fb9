/**
 * Owns `usher verify heads`: whether heads of ledgers that several people hold contradict each other. It asks
 * nobody. docs/choices.md, "Heads that contradict each other". Contract: "Events" (row 5).
 */
import { readFile } from 'node:fs/promises'
import type { HeadAt } from '../verify/index.ts'
import { isJsonObject, parseJson, type JsonObject } from '../wire/json.ts'
import { logOfOrigin, readLedgerHead, verifyLedgerHead, type LedgerHead } from '../wire/ledger/ledger-head.ts'
import { RECEIPT_BYTES_MAX } from '../wire/negotiation/receipt.ts'
import { Refusal } from '../wire/refusal.ts'
import { parseJws } from '../wire/signatures/jws.ts'
import { parseJwks, type PublishedKey } from '../wire/signatures/keys.ts'
import { EXIT, Exit, UsageError, type Terminal } from './command.ts'
import { printable } from './printable.ts'

/** What speaks against heads. */
export interface HeadsFinding {
  kind: 'unsigned' | 'fork' | 'two origins' | 'unproved'
  sentence: string
}

/**
 * Prints what speaks against the heads in these files; `keys` is the file of the log's keys. Fails with exit
 * code 1 if anything does, and with `UsageError` if a file cannot be read or has no head.
 */
export async function verifyHeads(
  files: readonly string[],
  { keys, terminal }: { keys: string; terminal: Terminal },
): Promise<void> {
  const logKeys = readLogKeys(keys, await readText(keys))
  const found: HeadAt[] = []
  for (const file of files) found.push(...headsIn(file, await readText(file)))
  if (found.length === 0) throw new UsageError(`There is no head of a ledger in ${files.join(', ')}.`)
  const findings = compareHeads(found, logKeys)
  for (const { kind, sentence } of findings) terminal.out(`${kind}: ${printable(sentence)}\n`)
  if (findings.length > 0) throw new Exit(EXIT.refused)
  terminal.out('Keys of the log signed these heads, and none contradicts another.\n')
}

/**
 * The heads in a file, one a line: what `usher sidecar heads --json` prints, or receipts, of which those
 * without a head are passed over. No signature is verified here. @throws UsageError for any other line.
 */
export function headsIn(path: string, text: string): HeadAt[] {
  return text.split('\n').flatMap((line, at) => {
    if (line.trim() === '') return []
    const from = `${path}:${at + 1}`
    try {
      const isObject = line.trimStart().startsWith('{')
      const { ledger_head } = isObject ? objectIn(line) : parseJws(line.trim(), RECEIPT_BYTES_MAX).payload
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

function objectIn(line: string): JsonObject {
  const value = parseJson(line)
  return isJsonObject(value) ? value : {}
}

/**
 * Compares heads that keys of the log signed. Two of one origin and size must have the same root, and a
 * ledger has one origin. Sizes that differ need a proof of consistency, which is in none of the files.
 */
export function compareHeads(found: readonly HeadAt[], keys: readonly PublishedKey[]): HeadsFinding[] {
  const faults = found.map(one => ({ one, fault: faultOf(one.head, keys) }))
  const signed = faults.filter(({ fault }) => fault === undefined).map(({ one }) => one)
  return [
    ...faults.flatMap(({ one, fault }) => (fault === undefined ? [] : [unsigned(one, fault)])),
    ...[...groupBy(signed, ({ head }) => head.origin)].flatMap(([origin, heads]) => ofOrigin(origin, heads)),
    ...[...groupBy(signed, ({ head }) => logOfOrigin(head.origin))].flatMap(([log, heads]) =>
      ofLog(log, heads),
    ),
  ]
}

const unsigned = ({ from }: HeadAt, fault: string): HeadsFinding => ({
  kind: 'unsigned',
  sentence: `${from}: this head says nothing, because no key of the log that you have signed it. ${fault}`,
})

function ofOrigin(origin: string, heads: readonly HeadAt[]): HeadsFinding[] {
  const bySize = [...groupBy(heads, ({ head }) => String(head.size))]
  const forks = bySize.flatMap(([size, same]): HeadsFinding[] => {
    const roots = groupBy(same, ({ head }) => head.root)
    if (roots.size === 1) return []
    const sentence = `${origin} has ${roots.size} ledgers of ${size} entries, each signed by its log: ${listed(roots)}.`
    return [{ kind: 'fork', sentence }]
  })
  if (bySize.length === 1) return forks
  const sizes = bySize.map(([size]) => Number(size)).sort((one, other) => one - other)
  const sentence = `That the ledgers of ${origin} with ${sizes.join(', ')} entries continue one another is proved by nothing here: ask its authority, POST /ledger/{tag}/consistency.`
  return [...forks, { kind: 'unproved', sentence }]
}

function ofLog(log: string, heads: readonly HeadAt[]): HeadsFinding[] {
  const origins = groupBy(heads, ({ head }) => head.origin)
  if (origins.size === 1) return []
  const sentence = `${log} has ${origins.size} origins: ${listed(origins)}. That is a fork, unless an entry \`restored\` of the ledger names the older one.`
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

function groupBy(found: readonly HeadAt[], nameOf: (one: HeadAt) => string): Map<string, HeadAt[]> {
  const groups = new Map<string, HeadAt[]>()
  for (const one of found) groups.set(nameOf(one), [...(groups.get(nameOf(one)) ?? []), one])
  return groups
}

/** Each name with the places that it is from. */
const listed = (groups: ReadonlyMap<string, readonly HeadAt[]>): string =>
  [...groups].map(([name, from]) => `${name} (${from.map(one => one.from).join(', ')})`).join('; ')

/** The keys in a file, which must be a JWKS. @throws UsageError if there is none that is usable. */
export function readLogKeys(path: string, source: string): PublishedKey[] {
  try {
    const keys = parseJwks(parseJson(source))
    if (keys.length > 0) return keys
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
  }
  throw new UsageError(`${path} holds no Ed25519 key: give what the authority publishes at /ledger/jwks.`)
}

/** The text of a file. @throws UsageError if it cannot be read. */
export async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new UsageError(`${path} cannot be read.`, { cause })
  }
}
