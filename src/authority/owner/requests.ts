/**
 * How lists of the owner API are paged; how its requests are read is http/pages.ts.
 * Contract: "Owner API" (bodies), "Limits".
 */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { linkNext, PAGE, pageOf, queryOf } from '../../http/pages.ts'
import type { Db } from '../../storage/authority/database.ts'
import type { Authority } from '../context.ts'
import { ownerOf } from './guard.ts'
import type { Owner } from '../../wire/identifiers.ts'

export { bodyOf, linkNext, NUMBERED_PAGE, PAGE, pageOf, plainText, queryOf } from '../../http/pages.ts'

/**
 * One page of a list of the owner's that `list` reads in the order of `key`: what stands beyond the request's `after`, as many as its
 * `limit`, and a link to the next page where there is one.
 */
export async function listPage<Key extends string, Item extends Record<Key, string>>(
  { database }: Authority,
  { request, reply }: { request: FastifyRequest; reply: FastifyReply },
  list: (
    db: Db,
    owner: Owner,
    page: { after: string | undefined; limit: number },
  ) => Promise<readonly Item[]>,
  key: Key,
): Promise<Item[]> {
  const { after, limit: wanted } = queryOf(PAGE, request)
  const rows = await list(database.db, ownerOf(request).owner, { after, limit: wanted + 1 })
  const { items, last } = pageOf(rows, wanted)
  linkNext(reply, request, last && { after: last[key], limit: wanted })
  return items
}
