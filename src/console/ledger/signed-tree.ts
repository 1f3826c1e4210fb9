/**
 * Owns the check of ledger entries in the browser: an entry's leaf, the tree of the owner's ledger, and the
 * head of it that her log signed. docs/choices.md, "The tree of the ledger", "Checkpoints of the ledger".
 * Contract: "Events" (row 5). It is what `usher verify ledger` checks of each entry, by WebCrypto.
 */
import { canonicalize, parseJsonObject, type Json } from '../../wire/json.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { base64, bytesOfBase64url, s256, sha256, utf8 } from '../bytes.ts'
import { isSignedBy } from '../jws.ts'

/** A head that one of the log's keys signed: so many leaves, with a root of 32 bytes. */
interface LogHead {
  size: number
  root: Uint8Array
}

/** Why a checkpoint is none: it cannot be read, an unknown key signed it, or its signature does not hold. */
export type HeadFault = 'unreadable' | 'key' | 'signature'

/** Text of origin, size and root, an empty line, and signatures. No other spelling is taken. */
const NOTE =
  /^(([^\n]+)\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n)\n((?:— [^\n ]+ [A-Za-z0-9+/]+={0,2}\n){1,100})$/
const SIGNATURE_LINE = /^— ([^ ]+) (.+)$/
const KEY_ID_BYTES = 4

/** The head in a checkpoint of this issuer's ledgers; `keys` are the `x` of the log's keys. */
export async function logHead(
  note: string,
  { issuer, keys }: { issuer: string; keys: readonly string[] },
): Promise<LogHead | HeadFault> {
  const [, text, origin = '', digits, rootText = '', lines = ''] = NOTE.exec(note) ?? []
  const [size, root] = [Number(digits), bytesOfBase64(rootText)]
  if (text === undefined || root?.length !== 32 || !Number.isSafeInteger(size)) return 'unreadable'
  if (!origin.startsWith(`${issuer.replace(/^https?:\/\//, '')}/ledger/`)) return 'unreadable'
  let isSigned = false
  for (const line of lines.trimEnd().split('\n')) {
    const [, name, signed = ''] = SIGNATURE_LINE.exec(line) ?? []
    if (name !== origin) continue
    const bytes = bytesOfBase64(signed)
    if (bytes === undefined) return 'unreadable'
    const key = await keyWithId(bytes.subarray(0, KEY_ID_BYTES), { origin, keys })
    if (key === undefined) continue
    if (!(await isSignedBy({ input: text, signature: bytes.slice(KEY_ID_BYTES) }, key))) return 'signature'
    isSigned = true
  }
  return isSigned ? { size, root } : 'key'
}

/** The key that a signature names by the beginning of a hash over the origin and itself. */
async function keyWithId(
  id: Uint8Array,
  { origin, keys }: { origin: string; keys: readonly string[] },
): Promise<string | undefined> {
  for (const key of keys) {
    const bytes = bytesOfBase64url(key) ?? new Uint8Array()
    const hash = await sha256(joined(utf8(`${origin}\n\u0001`), bytes))
    if (isSame(hash.subarray(0, KEY_ID_BYTES), id)) return key
  }
  return undefined
}

/**
 * What an entry says, read from the text that its leaf is made from, so that nothing else is shown as
 * checked; undefined if that text is absent or cannot be read.
 */
export function entryOfText(entry: LedgerEntry): LedgerEntry | undefined {
  const { seq, ts, kind, family, handle, count, data_text } = entry
  if (data_text === undefined) return undefined
  const members = {
    seq,
    ts,
    kind,
    ...(family === undefined ? {} : { family }),
    ...(handle === undefined ? {} : { handle }),
    ...(count === undefined ? {} : { count }),
  }
  try {
    const data: object = parseJsonObject(data_text)
    return { ...members, ...data, ...members }
  } catch {
    return undefined
  }
}

/** The hash of an entry's leaf; undefined if the answer lacks what it is made from. */
export async function leafOf(entry: LedgerEntry): Promise<Uint8Array | undefined> {
  const { owner, ts, kind, family = null, handle = null, count = 1, prev, salt, data_text } = entry
  if (owner === undefined || salt === undefined || data_text === undefined) return undefined
  if (handle !== null && prev === undefined) return undefined
  const body = { salt, family, handle, count: count as Json, data: data_text }
  const chained = handle === null ? {} : { prev: prev! }
  const content = { v: 1, owner, ts, kind, ...chained, body_s256: await s256(canonicalize(body)) }
  return sha256(`\0${canonicalize(content)}`)
}

/** How many hashes a full tile has. */
export const FULL_TILE = 256
const HASH_BYTES = 32

/** A tile of the tree, with as many hashes of it as the tree has. */
export interface TileExtent {
  level: number
  index: number
  width: number
}

/** The hashes of tiles, one after the other. Fails if they cannot be had. */
type TileSource = (place: TileExtent) => Promise<Uint8Array>

/**
 * Tells the leaf at a place (from 0) of the tree with this head; undefined if the tiles are not those of the
 * tree. Each tile is read once: a full one must be what the hash above it is made from, and the last ones of
 * all levels together make the root.
 */
export function leavesUnder(
  { size, root }: LogHead,
  read: TileSource,
): (place: number) => Promise<Uint8Array | undefined> {
  const hashesAt = remembering(async (level, index) => {
    const width = Math.min(FULL_TILE, Math.floor(size / FULL_TILE ** level) - index * FULL_TILE)
    const bytes = await read({ level, index, width })
    return bytes.length === width * HASH_BYTES ? hashesIn(bytes) : undefined
  })
  const makeRoot = async (): Promise<boolean> => {
    let right: Uint8Array | undefined
    for (let level = 0, width = size; width > 0; level++, width = Math.floor(width / FULL_TILE)) {
      if (width % FULL_TILE === 0) continue
      const hashes = await hashesAt(level, Math.floor(width / FULL_TILE))
      if (hashes === undefined) return false
      right = await rootOver(hashes, right)
    }
    return right !== undefined && isSame(right, root)
  }
  let hasRoot: Promise<boolean> | undefined
  const proved: HashesOfTile = remembering(async (level, index) => {
    const hashes = await hashesAt(level, index)
    if (hashes === undefined) return undefined
    if (hashes.length < FULL_TILE) return (await (hasRoot ??= makeRoot())) ? hashes : undefined
    const above = await proved(level + 1, Math.floor(index / FULL_TILE))
    const hash = above?.[index % FULL_TILE]
    return hash !== undefined && isSame(await rootOver(hashes), hash) ? hashes : undefined
  })
  return async place => {
    if (place < 0 || place >= size) return undefined
    return (await proved(0, Math.floor(place / FULL_TILE)))?.[place % FULL_TILE]
  }
}

/** Undefined for a tile that is none of the tree. */
type HashesOfTile = (level: number, index: number) => Promise<Uint8Array[] | undefined>

/** Does the work for each tile once. */
function remembering<T>(work: (level: number, index: number) => Promise<T>) {
  const results = new Map<string, Promise<T>>()
  return (level: number, index: number): Promise<T> => {
    const name = `${level}/${index}`
    const result = results.get(name) ?? work(level, index)
    results.set(name, result)
    return result
  }
}

/** The root over a row of hashes, and over what is to the right of it if there is anything. */
async function rootOver(row: readonly Uint8Array[], right?: Uint8Array): Promise<Uint8Array> {
  let root = right
  // The perfect subtrees of the row, the smallest and last one first.
  for (let end = row.length; end > 0;) {
    const leaves = end & -end
    let hashes = row.slice(end - leaves, end)
    while (hashes.length > 1) hashes = await rowAbove(hashes)
    root = root === undefined ? hashes[0]! : await nodeHash(hashes[0]!, root)
    end -= leaves
  }
  return root!
}

/** The hashes of the nodes above a row of an even number of hashes. */
function rowAbove(row: readonly Uint8Array[]): Promise<Uint8Array[]> {
  return Promise.all(Array.from({ length: row.length / 2 }, (_, n) => nodeHash(row[2 * n]!, row[2 * n + 1]!)))
}

const nodeHash = (left: Uint8Array, right: Uint8Array): Promise<Uint8Array> =>
  sha256(joined(Uint8Array.of(1), left, right))

function joined(...parts: Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}

function hashesIn(bytes: Uint8Array): Uint8Array[] {
  return Array.from({ length: bytes.length / HASH_BYTES }, (_, n) =>
    bytes.subarray(n * HASH_BYTES, (n + 1) * HASH_BYTES),
  )
}

/** Whether two hashes, or parts of them, are equal. */
export function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at])
}

/** The bytes of padded base64; undefined for any other spelling of them. */
function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const bytes = bytesOfBase64url(text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''))
  return bytes !== undefined && base64(bytes) === text ? bytes : undefined
}
