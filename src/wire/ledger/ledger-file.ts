/**
 * The file of an owner's ledger that others verify (`usher owner ledger export`): one JSON object a line. The
 * first line has the owner and the signed checkpoint, then come the tiles of the tree, then the entries with
 * all that their leaves are made from. Where the first line has a handle, the file is the record of that one
 * agent: it has no tiles, and each entry has the proof that the checkpoint covers it. docs/choices.md, "The
 * file of a ledger". Contract: "Events" (row 5).
 */
import { decodeBase64url, encodeBase64url } from '../encoding.ts'
import { isJsonObject, parseJson, type Json, type JsonObject } from '../json.ts'
import { Refusal, refuse } from '../refusal.ts'

/** Whose ledger it is, and the signed note (C2SP `tlog-checkpoint`) of its head. */
export interface LedgerFileHead {
  owner: string
  checkpoint: string
}

/** A tile of the tree (C2SP `tlog-tiles`): 1 to 256 hashes of 32 bytes, one after the other. */
export interface LedgerFileTile {
  level: number
  index: number
  hashes: Uint8Array
}

/** An entry at a position (`seq`, from 1). `data_text` is what the database has, and is never parsed. */
export interface LedgerFileEntry {
  seq: number
  /** UTC, three decimals, `Z`. */
  ts: string
  kind: string
  family: string | null
  handle: string | null
  count: number
  /** With a handle: the position of the entry before it with the same one, or 0. Null without a handle. */
  prev: number | null
  /** 16 bytes. */
  salt: Uint8Array
  data_text: string
}

/** All lines of the file of a whole ledger. */
export interface LedgerFile extends LedgerFileHead {
  tiles: readonly LedgerFileTile[]
  entries: readonly LedgerFileEntry[]
}

/** An entry, and the proof (RFC 9162, 2.1.3) that the tree of the checkpoint has its leaf at its position. */
export interface ProvedEntry extends LedgerFileEntry {
  /** Hashes of 32 bytes, the lowest first. */
  proof: readonly Uint8Array[]
}

/** All lines of the record of one agent: the entries that have its handle. */
export interface LedgerRecord extends LedgerFileHead {
  handle: string
  entries: readonly ProvedEntry[]
}

const VERSION = 1
const HASH_BYTES = 32
const TILE_HASHES = 256
const LEVEL_MAX = 63
const SALT_BYTES = 16
/** More than any proof has: a hash for each height of a tree. */
const PROOF_HASHES_MAX = 64

const HEAD_MEMBERS = ['usher_ledger', 'owner', 'checkpoint']
const RECORD_HEAD_MEMBERS = [...HEAD_MEMBERS, 'handle']
const TILE_MEMBERS = ['level', 'index', 'hashes']
const ENTRY_MEMBERS = [
  'seq',
  'ts',
  'kind',
  'family',
  'handle',
  'count',
  'prev',
  'salt',
  'data_text',
] as const satisfies (keyof LedgerFileEntry)[]
const PROVED_MEMBERS = [...ENTRY_MEMBERS, 'proof']

/** The first line of a file. With a handle it is the record of that agent. */
export type LedgerFileStart = LedgerFileHead & { handle?: string | undefined }

/** The first line, with its end. */
export function ledgerHeadLine({ owner, handle, checkpoint }: LedgerFileStart): string {
  return `${JSON.stringify({ usher_ledger: VERSION, owner, handle, checkpoint })}\n`
}

/** The line of a tile, with its end. */
export function ledgerTileLine({ level, index, hashes }: LedgerFileTile): string {
  return `${JSON.stringify({ level, index, hashes: encodeBase64url(hashes) })}\n`
}

/** The line of an entry, with its end. Members of the entry that are not in the file are left out. */
export function ledgerEntryLine(entry: LedgerFileEntry | ProvedEntry): string {
  const members = ENTRY_MEMBERS.map(name => [
    name,
    name === 'salt' ? encodeBase64url(entry.salt) : entry[name],
  ])
  const proof = 'proof' in entry ? { proof: encodeBase64url(Buffer.concat(entry.proof)) } : {}
  return `${JSON.stringify({ ...Object.fromEntries(members), ...proof })}\n`
}

/**
 * The file of a whole ledger in these lines, without their ends. It is read strictly: each line has the
 * members of its kind and no others, so that no two readers take one file for two ledgers. Nothing of it is
 * verified here. Refuses (`invalid_request`) any other file, with the number of the line, and the record of
 * one agent, which proves less.
 */
export async function readLedgerFile(lines: AsyncIterable<string> | Iterable<string>): Promise<LedgerFile> {
  const file = await readLedgerExport(lines)
  if ('handle' in file)
    refuse(
      'invalid_request',
      `The file is the record of ${file.handle.slice(0, 200)} alone: export the ledger without --handle.`,
    )
  return file
}

/** The same for both kinds of file: the record of one agent has its `handle`, the file of a ledger none. */
export async function readLedgerExport(
  lines: AsyncIterable<string> | Iterable<string>,
): Promise<LedgerFile | LedgerRecord> {
  let head: LedgerFileStart | undefined
  const tiles: LedgerFileTile[] = []
  const entries: LedgerFileEntry[] = []
  const proved: ProvedEntry[] = []
  for await (const part of ledgerFileParts(lines)) {
    if ('start' in part) head = part.start
    else if ('tile' in part) tiles.push(part.tile)
    else if ('proved' in part) proved.push(part.proved)
    else entries.push(part.entry)
  }
  const { owner, checkpoint, handle } = head!
  return handle === undefined
    ? { owner, checkpoint, tiles, entries }
    : { owner, handle, checkpoint, entries: proved }
}

/** What a line of the file has; `proved` is an entry in the record of one agent. */
export type LedgerFilePart =
  | { start: LedgerFileStart }
  | { tile: LedgerFileTile }
  | { entry: LedgerFileEntry }
  | { proved: ProvedEntry }

/**
 * What the lines have, one after the other, so that a ledger of any length is read: first, and once, the
 * start. Refuses as `readLedgerExport` does, when it comes to the line.
 */
export async function* ledgerFileParts(
  lines: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<LedgerFilePart, void> {
  let head: LedgerFileStart | undefined
  let number = 0
  for await (const line of lines) {
    number += 1
    if (line === '') continue
    const part = readPart(line, number, head)
    if ('start' in part) head = part.start
    yield part
  }
  if (head === undefined) refuse('invalid_request', 'The file is empty: export the ledger again.')
}

function readPart(line: string, number: number, head: LedgerFileStart | undefined): LedgerFilePart {
  try {
    const value = parseJson(line)
    if (!isJsonObject(value)) malformed('it is no object')
    if (head === undefined) return { start: readHead(value) }
    if (head.handle !== undefined) return { proved: readProvedEntry(value) }
    return Object.hasOwn(value, 'hashes')
      ? { tile: readTile(value) }
      : { entry: readEntry(value, ENTRY_MEMBERS) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return refuse(
      'invalid_request',
      `Line ${number} is none of a ledger's file: ${error.detail ?? error.code}`,
    )
  }
}

function readHead(value: JsonObject): LedgerFileStart {
  const isRecord = Object.hasOwn(value, 'handle')
  expectMembers(value, isRecord ? RECORD_HEAD_MEMBERS : HEAD_MEMBERS)
  if (value['usher_ledger'] !== VERSION) malformed(`it begins with no ledger of version ${VERSION}`)
  return {
    owner: text(value, 'owner'),
    checkpoint: text(value, 'checkpoint'),
    handle: isRecord ? text(value, 'handle') : undefined,
  }
}

function readTile(value: JsonObject): LedgerFileTile {
  expectMembers(value, TILE_MEMBERS)
  const hashes = bytes(value, 'hashes')
  if (hashes.length === 0 || hashes.length % HASH_BYTES !== 0 || hashes.length > HASH_BYTES * TILE_HASHES)
    malformed(`its hashes are not 1 to ${TILE_HASHES} times ${HASH_BYTES} bytes`)
  const level = count(value, 'level', 0)
  if (level > LEVEL_MAX) malformed(`its level is above ${LEVEL_MAX}`)
  return { level, index: count(value, 'index', 0), hashes }
}

function readProvedEntry(value: JsonObject): ProvedEntry {
  const entry = readEntry(value, PROVED_MEMBERS)
  const hashes = bytes(value, 'proof')
  if (hashes.length % HASH_BYTES !== 0 || hashes.length > HASH_BYTES * PROOF_HASHES_MAX)
    malformed(`its proof is not 0 to ${PROOF_HASHES_MAX} times ${HASH_BYTES} bytes`)
  const proof = Array.from({ length: hashes.length / HASH_BYTES }, (_, n) =>
    hashes.subarray(n * HASH_BYTES, (n + 1) * HASH_BYTES),
  )
  return { ...entry, proof }
}

function readEntry(value: JsonObject, members: readonly string[]): LedgerFileEntry {
  expectMembers(value, members)
  const handle = textOrNull(value, 'handle')
  if ((handle === null) !== (value['prev'] === null)) malformed('it has prev exactly where it has a handle')
  const salt = bytes(value, 'salt')
  if (salt.length !== SALT_BYTES) malformed(`its salt is not ${SALT_BYTES} bytes`)
  return {
    seq: count(value, 'seq', 1),
    ts: text(value, 'ts'),
    kind: text(value, 'kind'),
    family: textOrNull(value, 'family'),
    handle,
    count: count(value, 'count', 1),
    prev: handle === null ? null : count(value, 'prev', 0),
    salt,
    data_text: text(value, 'data_text'),
  }
}

function expectMembers(value: JsonObject, names: readonly string[]): void {
  const missing = names.find(name => !Object.hasOwn(value, name))
  if (missing !== undefined) malformed(`it has no ${missing}`)
  const other = Object.keys(value).find(name => !names.includes(name))
  if (other !== undefined) malformed(`it has a member that no reader knows, ${other.slice(0, 40)}`)
}

function text(value: JsonObject, name: string): string {
  const found = value[name]
  return typeof found === 'string' ? found : malformed(`its ${name} is no text`)
}

function textOrNull(value: JsonObject, name: string): string | null {
  return value[name] === null ? null : text(value, name)
}

function bytes(value: JsonObject, name: string): Uint8Array {
  return decodeBase64url(text(value, name))
}

function count(value: JsonObject, name: string, least: number): number {
  const found: Json | undefined = value[name]
  return typeof found === 'number' && Number.isSafeInteger(found) && found >= least
    ? found
    : malformed(`its ${name} is no whole number from ${least} on`)
}

function malformed(why: string): never {
  return refuse('invalid_request', `${why}.`)
}
