/**
 * Reads an owner's whole ledger for a file that others can verify: checkpoint, tiles and entries with all
 * that their leaves are made from. Nothing is verified here: `usher verify ledger` does that, with keys that
 * did not come with the ledger. docs/choices.md, "The file of a ledger". Contract: "Owner API".
 */
import { ApiError } from '../client/api-error.ts'
import { exchangeBytes, readNumbered } from '../client/exchange.ts'
import type { ApiAccess } from '../client/signed-fetch.ts'
import { decodeBase64url } from '../wire/encoding.ts'
import {
  ledgerEntryLine,
  ledgerHeadLine,
  ledgerTileLine,
  type LedgerFileEntry,
} from '../wire/ledger/ledger-file.ts'
import { parseNote } from '../wire/ledger/signed-note.ts'
import { encodeTileNumber } from '../wire/ledger/tile-path.ts'
import type { LedgerEntry } from '../wire/owner/owner-api.ts'
import { Refusal } from '../wire/refusal.ts'

const TILE_HASHES = 256
const CHECKPOINT = '/owner/ledger/checkpoint'

/** Which ledger was read, and how far. */
export interface LedgerExtent {
  origin: string
  size: number
  /** How many of its entries are still there: a retention deletes the oldest. */
  entries: number
}

/**
 * The lines of the file, each with its end. It has what the checkpoint covers that the authority gives out
 * now. @returns what was read. Fails with `ApiError`.
 */
export async function* ledgerFileLines(access: ApiAccess): AsyncGenerator<string, LedgerExtent> {
  const checkpoint = (await exchangeBytes(access, { method: 'GET', path: CHECKPOINT })).toString()
  const { origin, size } = headOf(checkpoint)
  const listed = readNumbered<LedgerEntry>(access, '/owner/ledger', 'entries', { bodies: 'true' })
  let entries = 0
  for await (const entry of listed) {
    if (entry.seq > size) break
    // The authority names her with the first entry that is left.
    if (entries === 0) {
      yield ledgerHeadLine({ owner: ownerOf(entry), checkpoint })
      yield* tileLines(access, size)
    }
    entries += 1
    yield ledgerEntryLine(bodyOf(entry))
    // It does not stop at the next entry, which might be on a page that nobody requested.
    if (entry.seq === size) break
  }
  if (entries === 0)
    throw new ApiError(
      'not_found',
      'No entry is left below the last checkpoint, so there is nothing to verify.',
    )
  return { origin, size, entries }
}

async function* tileLines(access: ApiAccess, size: number): AsyncGenerator<string> {
  for (let level = 0, width = size; width > 0; level++, width = Math.floor(width / TILE_HASHES))
    for (let index = 0; index * TILE_HASHES < width; index++) {
      const hashes = Math.min(TILE_HASHES, width - index * TILE_HASHES)
      const number = `${encodeTileNumber(index)}${hashes < TILE_HASHES ? `.p/${hashes}` : ''}`
      const path = `/owner/ledger/tile/${level}/${number}`
      yield ledgerTileLine({ level, index, hashes: await exchangeBytes(access, { method: 'GET', path }) })
    }
}

function headOf(checkpoint: string): { origin: string; size: number } {
  const [origin = '', digits = ''] = textOf(checkpoint).split('\n', 2)
  const size = Number(digits)
  if (origin === '' || !Number.isSafeInteger(size) || size < 1) malformed('a checkpoint of no size')
  return { origin, size }
}

function textOf(checkpoint: string): string {
  try {
    return parseNote(checkpoint).text
  } catch (error) {
    if (error instanceof Refusal) malformed('a checkpoint that is no signed note')
    throw error
  }
}

function ownerOf({ owner }: LedgerEntry): string {
  return owner ?? malformed('entries without an owner: it is of an earlier version, so upgrade it')
}

function bodyOf({
  seq,
  ts,
  kind,
  family,
  handle,
  count = 1,
  prev,
  salt,
  data_text,
}: LedgerEntry): LedgerFileEntry {
  if (salt === undefined || data_text === undefined || typeof count !== 'number')
    malformed(`entry ${seq} without what its leaf is made from`)
  return {
    seq,
    ts,
    kind,
    family: family ?? null,
    handle: handle ?? null,
    count,
    prev: handle === undefined ? null : (prev ?? 0),
    salt: decodeBase64url(salt),
    data_text,
  }
}

function malformed(what: string): never {
  throw new ApiError('answer_malformed', `The authority answered with ${what}.`)
}
