/**
 * What happened to the owner's resources, as she reads it. Contract: "Owner API" (`/owner/ledger`).
 */
import { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { NUMBERED_PAGE, plainText } from '../../http/servers/pages.ts'
import { wordsOf } from '../../rules/words/ledger-words.ts'
import { searchLedger } from '../../storage/authority/ledger/ledger-search.ts'
import {
  LEDGER_KINDS,
  readLedger,
  type EntryBody,
  type LedgerEntryRow,
} from '../../storage/authority/ledger/ledger.ts'
import { encodeBase64url } from '../../wire/encoding.ts'
import { asHandle, type Owner } from '../../wire/identifiers.ts'
import type { LedgerEntry } from '../../wire/owner/owner-api.ts'
import { refuse } from '../../wire/refusal.ts'
import type { OwnerApi } from './api.ts'
import { OWNER } from './credentials/guard.ts'
import { numberedPage } from './lists.ts'

const text = z.string()
const count = z.int().min(0)
const UNIX_SECONDS = z
  .string()
  .regex(/^\d{1,12}$/, 'give a Unix time in seconds')
  .meta({ examples: ['1772443800'] })
  .transform(Number)
const LEDGER_ENTRY: z.ZodType<LedgerEntry> = z
  .looseObject({ seq: count, ts: text, kind: text })
  .meta({ id: 'LedgerEntry' })

export const LEDGER: readonly Endpoint<OwnerApi>[] = [
  endpoint({
    method: 'get',
    path: '/owner/ledger',
    rows: ['owner-ledger'],
    summary: 'The activity ledger, oldest first unless `first` says otherwise',
    credential: OWNER,
    query: NUMBERED_PAGE.extend({
      handle: plainText(2_048).transform(asHandle).optional(),
      kind: z.enum(LEDGER_KINDS).optional(),
      before: NUMBERED_PAGE.shape.after.unwrap().optional(),
      first: z.enum(['oldest', 'newest']).optional(),
      since: UNIX_SECONDS.optional(),
      until: UNIX_SECONDS.optional(),
      q: plainText(200).optional(),
      bodies: z
        .literal('true')
        .transform(() => true)
        .optional(),
    }),
    answers: {
      200: {
        says: 'A page; `next` is the `after` of the following one, or its `before` if the newest come first. A page that is searched by `q`, or from `since` on and before `until` (Unix time in seconds), may be short or empty and still have a next one. With `bodies=true`, each entry has `owner`, `prev`, `salt` and `data_text`: what its leaf is made from. Members of its own data that are called as those that its leaf is made from are left out then.',
        schema: z.object({ entries: z.array(LEDGER_ENTRY), next: count.nullable() }),
      },
    },
    handle: async (api: OwnerApi, request) => {
      const { since, until, q, bodies } = request.query
      if (bodies && api.checkpoints === undefined)
        refuse('invalid_request', 'Leave out bodies: this authority signs no checkpoints.')
      const isSearched = [since, until, q].some(one => one !== undefined)
      const { items, next } = isSearched
        ? await searchLedger(api.database.of(request.caller.owner), request.caller.owner, {
            ...request.query,
            words: wordsOf(q ?? ''),
          })
        : await numberedPage(api, request, readLedger)
      const { owner } = request.caller
      return request.answer(200, { entries: items.map(entry => ledgerAnswer(entry, owner)), next })
    },
  }),
]

/** What a leaf is made from and may be absent: with bodies, nothing in the entry's own data stands for it. */
const LEAF_MEMBERS: ReadonlySet<string> = new Set(['family', 'handle', 'count', 'prev', 'salt'])

/** Named members come first, so that a member of the same name in the entry's own data never hides them. */
function ledgerAnswer({ data, ...entry }: LedgerEntryRow & Partial<EntryBody>, owner: Owner): LedgerEntry {
  const { seq, ts, kind, family, handle, count, prev, salt, data_text } = entry
  const named = {
    seq,
    ts,
    kind,
    ...(family === null ? {} : { family }),
    ...(handle === null ? {} : { handle }),
    ...(count === 1 ? {} : { count }),
    ...(typeof prev === 'number' ? { prev } : {}),
    ...(salt ? { salt: encodeBase64url(salt) } : {}),
    ...(data_text === undefined ? {} : { owner, data_text }),
  }
  const isOwn = ([name]: [string, unknown]): boolean => data_text === undefined || !LEAF_MEMBERS.has(name)
  return { ...named, ...Object.fromEntries(Object.entries(data).filter(isOwn)), ...named }
}
