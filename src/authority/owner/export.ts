/**
 * Her archive: everything that this authority has about her, whenever she asks. Contract: "Owner API".
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { PAGE } from '../../http/servers/pages.ts'
import { readArchive } from '../../storage/authority/owners/archive.ts'
import { refuse } from '../../wire/refusal.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'

const LINE = z
  .strictObject({ part: z.string(), row: z.record(z.string(), z.unknown()) })
  .meta({ id: 'ArchiveLine' })

/** `usher owner export` puts the pages together. */
export const EXPORT: Endpoint<OwnerApi> = endpoint({
  method: 'get',
  path: '/owner/export',
  rows: { addedUnder: 'Owner API' },
  summary: 'All that is stored of hers but secrets, row by row, page by page',
  credential: OWNER,
  query: PAGE,
  answers: {
    200: {
      says: '`next` is the `after` of the following page, null on the last.',
      schema: z.strictObject({ lines: LINE.array(), next: z.string().nullable() }),
    },
  },
  handle: async ({ database }: OwnerApi, { caller, query: { after, limit }, answer }) => {
    const page = await readArchive(database.of(caller.owner), caller.owner, { after, limit })
    return answer(200, page ?? refuse('invalid_request', 'Give as `after` the `next` of a page.'))
  },
})
