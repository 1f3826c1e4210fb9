/**
 * Reads an owner's ledger for a file that others can verify: checkpoint, tiles and entries with all that
 * their leaves are made from; or the record of one agent, with proofs that are made from the tiles. Nothing
 * is verified here: `usher verify ledger` does that, with keys that did not come with the ledger.
 * docs/choices.md, "The file of a ledger". Contract: "Owner API".
 */
import { ApiError } from '../client/api-error.ts'
import { exchange, exchangeBytes, NOT_SERVED, readNumbered } from '../client/exchange.ts'
import type { ApiAccess } from '../client/signed-fetch.ts'
import { planInclusion, proofOf, TILE_HASHES, type Tile } from '../rules/ledger/merkle.ts'
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

const LEDGER = '/owner/ledger'
const CHECKPOINT = '/owner/ledger/checkpoint'

/** Which ledger was read, and how far. */
export interface LedgerExtent {
  origin: string
  size: number
  /** How many of its entries, or of the agent's, are still there: a retention deletes the oldest. */
  entries: number
}

/**
 * The lines of the file, each with its end. It has what the checkpoint covers that the authority gives out
 * now; with a handle, the entries of that agent alone, each with its proof. `witnessed`: as far as the newest
 * head that a witness has cosigned. @returns what was read. Fails with `ApiError`, also (`list_endless`) if
 * `pagesMax` pages were not all; each has an entry, so if left out they suffice for every ledger.
 */
export async function* ledgerFileLines(
  access: ApiAccess,
  handle?: string,
  { witnessed = false, pagesMax }: { witnessed?: boolean | undefined; pagesMax?: number | undefined } = {},
): AsyncGenerator<string, LedgerExtent> {
  const query = witnessed ? { witnessed: 'true' } : {}
  const asking = exchangeBytes(access, { method: 'GET', path: CHECKPOINT, query })
  const checkpoint = (await asking.catch((error: unknown) => refuseWithoutLog(access, error))).toString()
  const { origin, size } = headOf(checkpoint)
  const ofEntries = { bodies: 'true', handle, pagesMax: pagesMax ?? size + 1 }
  const proofAt = createProver(access, size)
  let entries = 0
  for await (const entry of readNumbered<LedgerEntry>(access, LEDGER, 'entries', ofEntries)) {
    if (entry.seq > size) break
    // The authority names her with the first entry that is left.
    if (entries === 0) {
      yield ledgerHeadLine({ owner: ownerOf(entry), handle, checkpoint })
      if (handle === undefined) yield* tileLines(access, size)
    }
    entries += 1
    const body = bodyOf(entry)
    yield ledgerEntryLine(handle === undefined ? body : { ...body, proof: await proofAt(entry.seq) })
    // It does not stop at the next entry, which might be on a page that nobody requested.
    if (entry.seq === size) break
  }
  if (entries === 0)
    throw new ApiError(
      'not_found',
      `No entry${handle === undefined ? '' : ` of ${handle}`} is left below the last checkpoint, so there is nothing to verify.`,
    )
  return { origin, size, entries }
}

/**
 * An authority without keys of the log does not have the path of the checkpoint. If the owner API is not
 * there at all, a path that every owner API has fails with what is wrong then. It is asked without `bodies`,
 * which an authority without keys of the log refuses.
 */
async function refuseWithoutLog(access: ApiAccess, error: unknown): Promise<never> {
  if (!(error instanceof ApiError) || error.reason !== NOT_SERVED) throw error
  await exchange(access, { method: 'GET', path: LEDGER, query: { limit: '1' } })
  throw new ApiError(
    'not_found',
    'The authority signs no heads of ledgers, so nobody could verify this one. Its operator names keys of the log in UMA_AS_LOG_KEYS_FILE; entries of before then are covered, too.',
    { status: 404, cause: error },
  )
}

async function* tileLines(access: ApiAccess, size: number): AsyncGenerator<string> {
  for (let level = 0, width = size; width > 0; level++, width = Math.floor(width / TILE_HASHES))
    for (let index = 0; index * TILE_HASHES < width; index++)
      yield ledgerTileLine({ level, index, hashes: await fetchTile(access, { level, index }, size) })
}

/** A tile of the tree of this size, as wide as it is there. */
async function fetchTile(
  access: ApiAccess,
  { level, index }: Pick<Tile, 'level' | 'index'>,
  size: number,
): Promise<Uint8Array> {
  const hashes = Math.min(TILE_HASHES, Math.floor(size / TILE_HASHES ** level) - index * TILE_HASHES)
  const number = `${encodeTileNumber(index)}${hashes < TILE_HASHES ? `.p/${hashes}` : ''}`
  return exchangeBytes(access, { method: 'GET', path: `/owner/ledger/tile/${level}/${number}` })
}

/**
 * Makes what proves that the tree of this size has the leaf of a position. A proof reads at most two tiles a
 * level. Those of the last one stay in memory, because the next entry mostly needs them, too.
 */
function createProver(access: ApiAccess, size: number): (position: number) => Promise<Uint8Array[]> {
  let known = new Map<string, Uint8Array>()
  return async position => {
    const plan = planInclusion(position - 1, size)
    const tiles = new Map<string, Uint8Array>()
    for (const tile of plan.tiles)
      tiles.set(nameOf(tile), known.get(nameOf(tile)) ?? (await fetchTile(access, tile, size)))
    known = tiles
    try {
      return proofOf(plan, tile => tiles.get(nameOf(tile))!)
    } catch (error) {
      if (error instanceof RangeError) malformed('a tile that has too few hashes')
      throw error
    }
  }
}

const nameOf = ({ level, index }: Pick<Tile, 'level' | 'index'>): string => `${level}/${index}`

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
