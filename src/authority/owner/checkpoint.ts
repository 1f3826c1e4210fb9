/**
 * The checkpoint of the owner's ledger and the tiles of its tree, as C2SP `tlog-tiles` serves them, for her
 * and for what she lets verify it. docs/choices.md, "Checkpoints of the ledger". Contract: "Owner API".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { HASH_BYTES, TILE_HASHES } from '../../rules/ledger/merkle.ts'
import { readCheckpoint } from '../../storage/authority/ledger/ledger-checkpoints.ts'
import type { Db } from '../../storage/authority/database.ts'
import { readTiles } from '../../storage/authority/ledger/ledger-tiles.ts'
import { readWitnessed } from '../../storage/authority/ledger/ledger-witnesses.ts'
import { number } from '../../storage/authority/ledger/positions.ts'
import type { Owner } from '../../wire/identifiers.ts'
import { parseTilePath } from '../../wire/ledger/tile-path.ts'
import { refuse, unavailable } from '../../wire/refusal.ts'
import type { Checkpoints } from '../ledger/checkpoints.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'

/** What of the log an owner reads, if there are keys of the log. */
export const CHECKPOINT: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/ledger/checkpoint',
    rows: { addedUnder: 'Checkpoints of the ledger' },
    summary: 'The signed head of the tree of her ledger',
    credential: OWNER,
    query: z.strictObject({
      witnessed: z
        .literal('true')
        .transform(() => true)
        .optional(),
    }),
    refuses: { 404: ['not_found'] },
    answers: {
      200: {
        says: 'A signed note (C2SP `tlog-checkpoint`). It covers what was entered before this request, or is at most a second old. With `witnessed=true`: the newest one that a witness has cosigned, with the cosignatures.',
        type: 'text/plain; charset=utf-8',
        headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' },
      },
    },
    handle: async (api: OwnerApi, { caller: { owner }, query: { witnessed }, answer }) => {
      const db = api.database.of(owner)
      const checkpoints = logOf(api)
      if (witnessed === true) return answer(200, await witnessedNote(db, owner, checkpoints.base))
      await number(db, owner)
      const outcome = await checkpoints.sign(db, owner)
      const checkpoint = await readCheckpoint(db, owner, checkpoints.base)
      if (checkpoint !== undefined) return answer(200, checkpoint.note)
      if (outcome === 'unchanged') refuse('not_found', 'There is no checkpoint before the first entry.')
      throw unavailable(
        'Ask again shortly: the first checkpoint waits until every older entry is in the tree.',
        2,
      )
    },
  }),
  endpoint({
    method: 'get',
    path: '/owner/ledger/tile/{level}/{+tile}',
    rows: { addedUnder: 'Checkpoints of the ledger' },
    summary: 'A tile of that tree',
    credential: OWNER,
    parameters: {
      schema: z.object({ level: z.string(), tile: z.string() }).transform(({ level, tile }, context) => {
        const read = parseTilePath(level, tile)
        if (read === undefined) context.addIssue({ code: 'custom', message: 'no tile' })
        return read ?? z.NEVER
      }),
      unknown:
        'There is no such tile: give its level, and its number as `x001/x234/067`, with `.p/<width>` if it is not full.',
    },
    answers: {
      200: {
        says: 'The hashes, 32 bytes each, one after the other (C2SP `tlog-tiles`). The number may have slashes in it.',
        type: 'application/octet-stream',
        headers: {
          'content-type': 'application/octet-stream',
          // After a restore the same tile has other hashes, because its path has no origin.
          'cache-control': 'no-store',
        },
      },
    },
    handle: async (api: OwnerApi, { caller: { owner }, parameters: { level, index, width }, answer }) => {
      const db = api.database.of(owner)
      const hashes = width ?? TILE_HASHES
      const signed = await readCheckpoint(db, owner, logOf(api).base)
      const there = Math.floor((signed?.size ?? 0) / TILE_HASHES ** level) - index * TILE_HASHES
      if (there < hashes)
        refuse(
          'not_found',
          'The last checkpoint covers no such tile, or a narrower one: read the checkpoint.',
        )
      const read = await readTiles(db, owner, [{ level, index }])
      return answer(200, read({ level, index, hashes }).subarray(0, hashes * HASH_BYTES))
    },
  }),
]

/** The newest note of her present origin that has cosignatures: as a rule an older one than the last. */
async function witnessedNote(db: Db, owner: Owner, base: string): Promise<string> {
  const last = await readCheckpoint(db, owner, base)
  const note = last && (await readWitnessed(db, owner, last.origin))
  return (
    note ?? refuse('not_found', 'No witness has cosigned a head of this ledger yet: ask without witnessed.')
  )
}

/** These endpoints are served only where there is one. */
function logOf({ checkpoints }: Pick<OwnerApi, 'checkpoints'>): Checkpoints {
  if (checkpoints === undefined) throw new Error('there are no keys of the log')
  return checkpoints
}
