/**
 * Owns the lists of resources, templates and prompts as a resource's server gives them, page by page.
 * Contract: "What the service does": a list needs no grant.
 */
import type { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from '@modelcontextprotocol/client'
import { isJsonObject, type JsonObject } from '../../../wire/json.ts'
import { newExchange, type Exchange } from '../upstream/exchange.ts'
import { LIST_ENTRIES_MAX, LIST_PAGES_MAX } from '../bounds.ts'
import { RPC_CODE } from '../protocol.ts'

/** The lists: the member of the result, the capability of the server, and the member that names an entry. */
export const LIST_METHODS = {
  'resources/list': { member: 'resources', capability: 'resources', namedBy: 'uri' },
  'resources/templates/list': {
    member: 'resourceTemplates',
    capability: 'resources',
    namedBy: 'uriTemplate',
  },
  'prompts/list': { member: 'prompts', capability: 'prompts', namedBy: 'name' },
} as const
export type ListMethod = keyof typeof LIST_METHODS

/** Takes any result as it came: what a server says of its resources is data for the client. */
export const ANY_OBJECT = {
  '~standard': {
    version: 1 as const,
    vendor: 'usher',
    validate: (value: unknown) => ({ value: (value ?? {}) as JsonObject }),
  },
}

/** All entries of a list; none if the server does not have it. */
export async function entriesOf(
  client: Client,
  method: ListMethod,
  underway: AsyncLocalStorage<Exchange>,
): Promise<JsonObject[]> {
  const { member, capability } = LIST_METHODS[method]
  if (client.getServerCapabilities()?.[capability] === undefined) return []
  const exchange = newExchange(method)
  const { signal } = exchange.ending
  const page = (cursor: string | undefined): Promise<JsonObject> =>
    underway.run(exchange, () => {
      const params = cursor === undefined ? {} : { cursor }
      return client.request({ method, params }, ANY_OBJECT as never, { signal })
    })
  const entries: JsonObject[] = []
  let cursor: string | undefined
  try {
    for (let pages = 0; pages < LIST_PAGES_MAX && entries.length < LIST_ENTRIES_MAX; pages++) {
      const result = await page(cursor)
      const listed = result[member]
      if (Array.isArray(listed)) entries.push(...listed.filter(isJsonObject))
      const { nextCursor: next } = result
      // Some servers write the place of the next page as a number.
      cursor = typeof next === 'string' || typeof next === 'number' ? `${next}` : ''
      if (cursor === '') break
    }
  } catch (error) {
    if ((error as { code?: unknown }).code === RPC_CODE.methodNotFound) return []
    throw exchange.failure ?? error
  }
  return entries.slice(0, LIST_ENTRIES_MAX)
}
