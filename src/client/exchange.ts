/**
 * Owns one exchange with an API that a person signs for, and lists read to their end. Contract: "Owner API";
 * `/admin` of an organization works in the same way.
 */
import { isJsonObject, parseJson, type Json, type JsonObject } from '../wire/json.ts'
import { Refusal } from '../wire/refusal.ts'
import { ApiError } from './api-error.ts'
import { requestUrl, signedFetch, unreachable, type ApiAccess, type ApiRequest } from './signed-fetch.ts'

const ANSWER_BYTES_MAX = 4 * 1024 * 1024
export const ANSWER_SECONDS_MAX = 30
/**
 * A list that never ends is a fault of the server, and must not make the client ask for ever. Whoever gets a
 * part of a list hears so (`list_endless`).
 */
const PAGES_MAX = 10_000
const PAGE_MAX = 1000

/**
 * The wanted part of a numbered list, and its order; `after` is a `seq`, `limit` bounds the items in all,
 * `pagesMax` says after how many pages a list is taken for one without an end, the rest is a filter.
 */
export interface NumberedQuery {
  after?: number | undefined
  limit?: number | undefined
  /** `oldest` when left out. */
  first?: 'oldest' | 'newest' | undefined
  pagesMax?: number | undefined
  [filter: string]: string | number | undefined
}

/** A page of something, and how to ask for the next one (undefined: this was the last). */
interface ListPage<T> {
  items: T[]
  next: Record<string, string> | undefined
}

/** A list, read to its end. */
export async function readAll<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}

/** A list that is an array, or one that is the named member of an object. */
export function list<T>(access: ApiAccess, path: string, member?: string): AsyncGenerator<T> {
  const fetchPage = async (query: Record<string, string>): Promise<ListPage<T>> => {
    const { json, response } = await exchange(access, { method: 'GET', path, query })
    const found = member === undefined ? json : expectObject(json, path)[member]
    return { items: expectArray(found, path) as T[], next: nextQuery(response, requestUrl(access, { path })) }
  }
  return pages(fetchPage, { path })
}

/**
 * A list within an object, whose items are numbered; `limit` bounds them in all, the rest of the query is a
 * filter.
 */
export async function* readNumbered<T>(
  access: ApiAccess,
  path: string,
  member: string,
  { after, limit, first, pagesMax, ...filter }: NumberedQuery,
): AsyncGenerator<T> {
  const size = limit === undefined ? undefined : String(Math.min(Math.max(limit, 1), PAGE_MAX))
  const following = first === 'newest' ? 'before' : 'after'
  const fetchPage = async (page: Record<string, string>): Promise<ListPage<T>> => {
    const { json } = await exchange(access, {
      method: 'GET',
      path,
      query: {
        ...filter,
        first,
        after: after === undefined ? undefined : String(after),
        limit: size,
        ...page,
      },
    })
    const { [member]: found, next } = expectObject(json, path)
    const more = typeof next === 'number' || (typeof next === 'string' && next !== '')
    return {
      items: expectArray(found, path) as unknown as T[],
      next: more ? { [following]: String(next) } : undefined,
    }
  }
  let left = limit ?? Number.POSITIVE_INFINITY
  if (left <= 0) return
  for await (const item of pages(fetchPage, { path, pagesMax })) {
    yield item
    // It does not stop at the next item, which might be on a page that nobody requested.
    if (--left <= 0) return
  }
}

async function* pages<T>(
  fetchPage: (query: Record<string, string>) => Promise<ListPage<T>>,
  { path, pagesMax = PAGES_MAX }: { path: string; pagesMax?: number | undefined },
): AsyncGenerator<T> {
  let query: Record<string, string> = {}
  for (let page = 0; page < pagesMax; page++) {
    const { items, next } = await fetchPage(query)
    yield* items
    if (!next) return
    // A page of a search may be empty, and still not the last.
    const isSame = JSON.stringify(next) === JSON.stringify(query)
    if (isSame && items.length === 0) return
    if (isSame) break
    query = next
  }
  throw new ApiError(
    'list_endless',
    `The list of ${path} does not end, so what came of it may not be all. Ask for less of it, or see to the server.`,
  )
}

/**
 * The query of the `Link: <…>; rel="next"` (RFC 8288). Only the query is used: the link may name the issuer's
 * address, but the request goes to the address of the API that this client was given.
 */
function nextQuery(response: Response, url: URL): Record<string, string> | undefined {
  for (const [, target = '', parameters = ''] of (response.headers.get('link') ?? '').matchAll(
    /<([^>]*)>([^,]*)/g,
  )) {
    if (!/;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?=\s*(?:;|$)))/i.test(parameters)) continue
    const next = URL.parse(target, url.href)
    return next ? Object.fromEntries(next.searchParams) : undefined
  }
  return undefined
}

/**
 * Sends a request and reads its answer; anything but a 2xx becomes an `ApiError` with the answer's own words.
 */
export async function exchange(
  access: ApiAccess,
  request: ApiRequest,
): Promise<{ response: Response; json: Json | undefined }> {
  const response = await send(access, request)
  const json = await readJson(response, requestUrl(access, request), request.signal)
  if (!response.ok) throw missingApi(access, response, json) ?? refusalOf(response, json)
  return { response, json }
}

/** The same for an answer that is no JSON: its bytes. */
export async function exchangeBytes(access: ApiAccess, request: ApiRequest): Promise<Buffer> {
  const response = await send(access, { ...request, headers: { accept: '*/*', ...request.headers } })
  const url = requestUrl(access, request)
  if (response.ok) return readBytes(response, url, request.signal)
  const json = await readJson(response, url, request.signal)
  throw missingApi(access, response, json) ?? refusalOf(response, json)
}

async function send(access: ApiAccess, request: ApiRequest): Promise<Response> {
  const timeout = AbortSignal.timeout(ANSWER_SECONDS_MAX * 1000)
  const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
  return signedFetch(access, { ...request, signal })
}

/** Nothing is there at all, as opposed to nothing of this name. */
export const NOT_SERVED = 'not_served'

/** If the API does not have this path: the remedy, as far as one is known. */
export function missingApi(
  { unserved }: ApiAccess,
  response: Response,
  json: Json | undefined,
): ApiError | undefined {
  const { error_description: description } = isJsonObject(json) ? json : ({} as JsonObject)
  const isUntold = typeof description !== 'string' && unserved !== undefined
  if (response.status !== 404 || (description !== NOTHING_SERVED && !isUntold)) return undefined
  return new ApiError('not_found', unserved ?? NOTHING_SERVED, { status: 404, reason: NOT_SERVED })
}

/** What our listeners answer at a path that they do not have. */
const NOTHING_SERVED = 'Nothing is served at this path.'

/** The error of an answer that is not a 2xx, in the answer's own words if it has any. */
export function refusalOf(response: Response, json: Json | undefined): ApiError {
  const { error, error_description, reason } = isJsonObject(json) ? json : ({} as JsonObject)
  const code = typeof error === 'string' ? error : `http_${response.status}`
  const detail =
    typeof error_description === 'string'
      ? error_description
      : `Something answered with status ${response.status} and gave no reason. See that this is the address of the API, and what stands before it.`
  return new ApiError(code, detail, {
    status: response.status,
    reason: typeof reason === 'string' ? reason : undefined,
  })
}

/**
 * The JSON of an answer, undefined if it has no body; an answer that is no JSON counts only if it is a
 * 2xx.
 */
export async function readJson(
  response: Response,
  url: URL,
  signal?: AbortSignal,
): Promise<Json | undefined> {
  const bytes = await readBytes(response, url, signal)
  if (bytes.length === 0) return undefined
  try {
    return parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof Refusal)) throw cause
    if (!response.ok) return undefined
    throw new ApiError('answer_malformed', `${url.origin} answered with no usable JSON.`, {
      status: response.status,
      cause,
    })
  }
}

async function readBytes(response: Response, url: URL, signal: AbortSignal | undefined): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength
      if (bytes > ANSWER_BYTES_MAX) {
        throw new ApiError('answer_too_large', `${url.origin} sent more than ${ANSWER_BYTES_MAX} bytes.`)
      }
      chunks.push(chunk)
    }
  } catch (cause) {
    throw unreachable(url, signal, cause)
  }
  return Buffer.concat(chunks)
}

export function expectArray(json: Json | undefined, path: string): Json[] {
  if (!Array.isArray(json)) throw new ApiError('answer_malformed', `The answer of ${path} holds no list.`)
  return json
}

/** The answer as an object; `answer_malformed` if it is something else. */
export function expectObject(json: Json | undefined, path: string): JsonObject {
  if (!isJsonObject(json)) throw new ApiError('answer_malformed', `The answer of ${path} is no JSON object.`)
  return json
}
