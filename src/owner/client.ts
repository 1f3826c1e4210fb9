/**
 * Owns the owner's side of her API: one signed call per operation, lists read to their end. contract, "Owner API".
 */
import { isJsonObject, parseJson, type Json, type JsonObject } from '../wire/json.ts'
import { parseJwks, publicJwk, type PublishedKey } from '../wire/keys.ts'
import { Refusal } from '../wire/refusal.ts'
import { OwnerError } from './owner-error.ts'
import type {
  Connection,
  Decided,
  DeviceKey,
  LedgerEntry,
  Login,
  Operator,
  PendingItem,
  ReceiptRecord,
  Resource,
  ResourceServer,
  Revoked,
  Tier,
} from '../wire/owner-api.ts'
import {
  apiBase,
  requestUrl,
  signedFetch,
  unreachable,
  type OwnerAccess,
  type OwnerRequest,
} from './signed-fetch.ts'

const ANSWER_BYTES_MAX = 4 * 1024 * 1024
const ANSWER_SECONDS_MAX = 30
/** A list that never ends is a fault of the server's, not a reason to ask for ever. */
const PAGES_MAX = 10_000
const PAGE_MAX = 1000

/** What part of the ledger is wanted, in which order; `after` is a `seq`, `limit` bounds the entries in all. */
export interface LedgerQuery {
  handle?: string | undefined
  kind?: string | undefined
  after?: number | undefined
  /** `oldest` when left out. */
  first?: 'oldest' | 'newest' | undefined
  limit?: number | undefined
}

/** Which receipts are wanted; `after` is a `seq`, `limit` bounds them in all. */
export interface ReceiptsQuery {
  family?: string | undefined
  after?: number | undefined
  limit?: number | undefined
}

/** A page of something, and how to ask for the next one (undefined: this was the last). */
interface Page<T> {
  items: T[]
  next: Record<string, string> | undefined
}

/** The owner API as one owner sees it. Every method fails with `OwnerError`; every list comes in the server's order. */
export interface OwnerClient {
  readonly access: OwnerAccess
  pending(): AsyncGenerator<PendingItem>
  decide(family: string, decision: Decided['decision']): Promise<Decided>
  connections(): AsyncGenerator<Connection>
  revoke(handle: string): Promise<Revoked>
  policies(): Promise<Tier[]>
  operators(): AsyncGenerator<Operator>
  resources(): AsyncGenerator<Resource>
  resourceServers(): AsyncGenerator<ResourceServer>
  decideServer(clientId: string, decision: 'approved' | 'revoked'): Promise<ResourceServer>
  ledger(query?: LedgerQuery): AsyncGenerator<LedgerEntry>
  receipts(query?: ReceiptsQuery): AsyncGenerator<ReceiptRecord>
  /** The keys that the authority publishes at its issuer, by which its receipts are verified. */
  publishedKeys(): Promise<PublishedKey[]>
  deviceKeys(): AsyncGenerator<DeviceKey>
  /** `jwk` is public. */
  addDeviceKey(key: { name: string; jwk: object }): Promise<DeviceKey>
  removeDeviceKey(kid: string): Promise<{ deleted: string }>
  logins(): AsyncGenerator<Login>
  /** The login is the one whose access token is given. */
  addLogin(login: { name: string; access_token: string }): Promise<Login>
  removeLogin(id: string): Promise<{ deleted: string }>
  /** Enrols the credential of this client itself, by a one-time code of the authority's operator. */
  enrol(enrolment: { code: string; name: string }): Promise<{ owner: string; name: string }>
  /** Any other operation: the answer's JSON, or undefined for an answer without a body. */
  ask(request: OwnerRequest): Promise<Json | undefined>
}

/** A client of the owner API at `access.api`. Fails with `address_refused` at once where that is no address to sign for. */
export function createOwnerClient(access: OwnerAccess): OwnerClient {
  apiBase(access.api)
  if (!URL.canParse(access.issuer))
    throw new OwnerError('address_refused', `The issuer is no URL: ${access.issuer}`)
  const post = async <T>(path: string, body: unknown): Promise<T> =>
    expectObject((await exchange(access, { method: 'POST', path, body })).json, path) as T
  const remove = async (path: string): Promise<{ deleted: string }> =>
    expectObject((await exchange(access, { method: 'DELETE', path })).json, path) as { deleted: string }
  return {
    access,
    pending: () => list<PendingItem>(access, '/owner/pending'),
    decide: (family, decision) => post(`/owner/pending/${encodeURIComponent(family)}/decision`, { decision }),
    connections: () => list<Connection>(access, '/owner/connections'),
    revoke: handle => post('/owner/connections/revoke', { handle }),
    policies: () => readAll(list<Tier>(access, '/owner/policies', 'tiers')),
    operators: () => list<Operator>(access, '/owner/operators'),
    resources: () => list<Resource>(access, '/owner/resources'),
    resourceServers: () => list<ResourceServer>(access, '/owner/resource-servers'),
    decideServer: (client_id, decision) => post('/owner/resource-servers/decision', { client_id, decision }),
    ledger: (query = {}) => readNumbered(access, '/owner/ledger', 'entries', query),
    receipts: (query = {}) => readNumbered(access, '/owner/receipts', 'receipts', query),
    publishedKeys: () => publishedKeys(access),
    deviceKeys: () => list<DeviceKey>(access, '/owner/device-keys'),
    addDeviceKey: key => post('/owner/device-keys', key),
    removeDeviceKey: kid => remove(`/owner/device-keys/${encodeURIComponent(kid)}`),
    logins: () => list<Login>(access, '/owner/logins'),
    addLogin: login => post('/owner/logins', login),
    removeLogin: id => remove(`/owner/logins/${encodeURIComponent(id)}`),
    enrol: enrolment => {
      const { key } = access
      return post('/owner/enrolment', key === undefined ? enrolment : { ...enrolment, jwk: publicJwk(key) })
    },
    ask: async request => (await exchange(access, request)).json,
  }
}

/** A list, read to its end. */
export async function readAll<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}

/** A list that is an array, or one that is the named member of an object. */
function list<T>(access: OwnerAccess, path: string, member?: string): AsyncGenerator<T> {
  return pages(async query => {
    const { json, response } = await exchange(access, { method: 'GET', path, query })
    const found = member === undefined ? json : expectObject(json, path)[member]
    return { items: expectArray(found, path) as T[], next: nextQuery(response, requestUrl(access, { path })) }
  })
}

/** A list within an object, whose items are numbered; `limit` bounds them in all, the rest of the query is a filter. */
async function* readNumbered<T>(
  access: OwnerAccess,
  path: string,
  member: string,
  { after, limit, ...filter }: LedgerQuery & ReceiptsQuery,
): AsyncGenerator<T> {
  const size = limit === undefined ? undefined : String(Math.min(Math.max(limit, 1), PAGE_MAX))
  const following = filter.first === 'newest' ? 'before' : 'after'
  const items = pages<T>(async page => {
    const { json } = await exchange(access, {
      method: 'GET',
      path,
      query: { ...filter, after: after === undefined ? undefined : String(after), limit: size, ...page },
    })
    const { [member]: found, next } = expectObject(json, path)
    const more = typeof next === 'number' || (typeof next === 'string' && next !== '')
    return {
      items: expectArray(found, path) as unknown as T[],
      next: more ? { [following]: String(next) } : undefined,
    }
  })
  let left = limit ?? Number.POSITIVE_INFINITY
  if (left <= 0) return
  for await (const item of items) {
    yield item
    // Not at the next item: that might be on a page that nobody asked for.
    if (--left <= 0) return
  }
}

async function publishedKeys({ issuer }: OwnerAccess): Promise<PublishedKey[]> {
  const url = requestUrl({ api: issuer } as OwnerAccess, { path: '/jwks' })
  const signal = AbortSignal.timeout(ANSWER_SECONDS_MAX * 1000)
  const response = await fetch(url, { redirect: 'manual', signal }).catch((cause: unknown) => {
    throw unreachable(url, signal, cause)
  })
  const json = await readJson(response, url)
  if (!response.ok) throw refusalOf(response, json)
  try {
    return parseJwks(json)
  } catch (cause) {
    throw new OwnerError('answer_malformed', `${url.href} holds no keys.`, { cause })
  }
}

async function* pages<T>(fetchPage: (query: Record<string, string>) => Promise<Page<T>>): AsyncGenerator<T> {
  let query: Record<string, string> = {}
  for (let page = 0; page < PAGES_MAX; page++) {
    const { items, next } = await fetchPage(query)
    yield* items
    if (!next || items.length === 0) return
    query = next
  }
}

/**
 * The query of the `Link: <…>; rel="next"` (RFC 8288). Only the query is taken: the link may name the issuer's address, and
 * the request goes where this client was told the API is.
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

/** Sends a request and reads its answer; anything but a 2xx becomes an `OwnerError` with the answer's own words. */
async function exchange(
  access: OwnerAccess,
  request: OwnerRequest,
): Promise<{ response: Response; json: Json | undefined }> {
  const timeout = AbortSignal.timeout(ANSWER_SECONDS_MAX * 1000)
  const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
  const response = await signedFetch(access, { ...request, signal })
  const json = await readJson(response, requestUrl(access, request), request.signal)
  if (!response.ok) throw refusalOf(response, json)
  return { response, json }
}

/** The error of an answer that is not a 2xx, in its own words where it has any. */
export function refusalOf(response: Response, json: Json | undefined): OwnerError {
  const { error, error_description } = isJsonObject(json) ? json : ({} as JsonObject)
  const code = typeof error === 'string' ? error : `http_${response.status}`
  const detail =
    typeof error_description === 'string'
      ? error_description
      : `The owner API answered with status ${response.status}.`
  return new OwnerError(code, detail, { status: response.status })
}

/** The JSON of an answer, undefined where it has no body; an answer that is no JSON counts only where it is a 2xx. */
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
    throw new OwnerError('answer_malformed', `${url.origin} answered with no usable JSON.`, {
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
        throw new OwnerError('answer_too_large', `${url.origin} sent more than ${ANSWER_BYTES_MAX} bytes.`)
      }
      chunks.push(chunk)
    }
  } catch (cause) {
    throw unreachable(url, signal, cause)
  }
  return Buffer.concat(chunks)
}

function expectArray(json: Json | undefined, path: string): Json[] {
  if (!Array.isArray(json)) throw new OwnerError('answer_malformed', `The answer of ${path} holds no list.`)
  return json
}

function expectObject(json: Json | undefined, path: string): JsonObject {
  if (!isJsonObject(json))
    throw new OwnerError('answer_malformed', `The answer of ${path} is no JSON object.`)
  return json
}
