/**
 * Owns what is said to browsers about documents that are everybody's: a page of any origin may read them,
 * also if it sends fields of its own, for which its browser asks first (Fetch, "CORS protocol"). Contract:
 * "Owner's authorization server: public": clients of MCP in a page send `MCP-Protocol-Version` to metadata.
 */
import type { IncomingMessage } from 'node:http'

/** The header field of an answer that a page of any origin may read. */
export const ANY_ORIGIN = { 'access-control-allow-origin': '*' } as const

/** What a page may send to a document that is everybody's; a HEAD is answered where a GET is. */
const METHODS = 'GET, HEAD'
const PREFLIGHT_CACHE_SECONDS = '600'
const FIELD_NAMES = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t]*,[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+)*$/
const FIELD_NAMES_LENGTH_MAX = 2_000

/** A header of the question, as it was sent: undefined if it was not, or more than once. */
type ReadHeader = (name: string) => string | undefined

/** The headers of a request. */
export function headersOf({ headersDistinct }: IncomingMessage): ReadHeader {
  return name => {
    const lines = headersDistinct[name] ?? []
    return lines.length === 1 ? lines[0] : undefined
  }
}

/** Whether a browser asks whether a page may call. */
export function isPreflight(method: string | undefined, read: ReadHeader): boolean {
  return (
    method === 'OPTIONS' &&
    read('origin') !== undefined &&
    read('access-control-request-method') !== undefined
  )
}

/** The names of fields that may be sent are those that were asked for; none if they are no names. */
export function allowedFields(names: string | undefined): Record<string, string> {
  const are = names !== undefined && names.length <= FIELD_NAMES_LENGTH_MAX && FIELD_NAMES.test(names)
  return are ? { 'access-control-allow-headers': names } : {}
}

/** The headers of the answer (204) to a browser that asks about a document that is everybody's. */
export function anyOriginMay(read: ReadHeader): Record<string, string> {
  return {
    ...ANY_ORIGIN,
    'access-control-allow-methods': METHODS,
    ...allowedFields(read('access-control-request-headers')),
    'access-control-max-age': PREFLIGHT_CACHE_SECONDS,
  }
}
