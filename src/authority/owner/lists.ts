/**
 * How the owner's lists are declared and paged; how a page is asked for is http/servers/pages.ts. Contract:
 * "Owner API", "Limits".
 */
import type { z } from 'zod'
import { endpoint, type Endpoint } from '../../http/servers/endpoint.ts'
import { nextLink, PAGE, pageOf } from '../../http/servers/pages.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { Owner } from '../../wire/identifiers.ts'
import type { OwnerApi } from './api.ts'
import type { OwnerCredential } from './credentials/credential.ts'
import { OWNER } from './credentials/guard.ts'
import type { KeyPage } from '../../storage/core/columns.ts'

interface ListRequest<Query> {
  caller: OwnerCredential
  query: Query
}

interface PageRequest extends ListRequest<z.output<typeof PAGE>> {
  path: string
  /** The rows are what is answered; a page of them that would be more than a client takes is shorter. */
  isLarge?: boolean | undefined
}

/**
 * One page of one of the owner's lists, which `list` reads in the order of `key`: the rows beyond the query's
 * `after`, as many as its `limit`, and the header that names the next page if there is one.
 */
export async function listPage<Key extends string, Item extends Record<Key, string>>(
  { database }: Pick<OwnerApi, 'database'>,
  { caller, query: { after, limit }, path, isLarge = false }: PageRequest,
  list: (db: Db, owner: Owner, page: KeyPage) => Promise<readonly Item[]>,
  key: Key,
): Promise<{ items: Item[]; headers: Record<string, string> }> {
  const rows = await list(database.of(caller.owner), caller.owner, { after, limit: limit + 1 })
  const { items, last } = pageOf(rows, limit)
  const some = isLarge ? withinBytes(items) : items
  const end = some.length < items.length ? some.at(-1) : last
  return { items: some, headers: nextLink(path, end && { after: end[key], limit }) }
}

/**
 * Like `listPage`, for a list whose items are numbered by `seq`: `next` is the `after` of the following page.
 */
export async function numberedPage<Item extends { seq: number }, Query extends { limit: number }>(
  { database }: Pick<OwnerApi, 'database'>,
  { caller, query }: ListRequest<Query>,
  list: (db: Db, owner: Owner, page: Query) => Promise<readonly Item[]>,
): Promise<{ items: Item[]; next: number | null }> {
  const rows = await list(database.of(caller.owner), caller.owner, { ...query, limit: query.limit + 1 })
  const { items, last } = pageOf(rows, query.limit)
  const some = withinBytes(items)
  return { items: some, next: some.length < items.length ? some.at(-1)!.seq : (last?.seq ?? null) }
}

/** The most bytes of a page: a client takes 4 MiB. */
const PAGE_BYTES = 3 * 1024 * 1024

/** The first items, as many as a client can take, and one at least. */
function withinBytes<Item>(items: Item[]): Item[] {
  let bytes = 0
  const end = items.findIndex(item => (bytes += Buffer.byteLength(JSON.stringify(item))) > PAGE_BYTES)
  return end === -1 ? items : items.slice(0, Math.max(end, 1))
}

/** Declares one of the owner's lists. The answer is an array, with each row as `show` writes it. */
export function ownerList<Key extends string, Row extends Record<Key, string>, Item>(
  declared: Pick<Endpoint<OwnerApi>, 'path' | 'rows' | 'summary'> & {
    says: string
    item: z.ZodType<Item>
    list: (db: Db, owner: Owner, page: KeyPage) => Promise<readonly Row[]>
    key: Key
    show: (row: Row) => Item
    isLarge?: PageRequest['isLarge']
  },
): Endpoint<OwnerApi> {
  const { path, rows, summary, says, item, list, key, show, isLarge } = declared
  return endpoint({
    method: 'get',
    path,
    rows,
    summary,
    credential: OWNER,
    query: PAGE,
    answers: { 200: { says, schema: item.array() } },
    handle: async (api: OwnerApi, { caller, query, answer }) => {
      const { items, headers } = await listPage(api, { caller, query, path, isLarge }, list, key)
      return answer(200, items.map(show), headers)
    },
  })
}
