/**
 * Owns requests to the owner API: signed by the key of this browser, or handed to the process on this machine
 * that signs them. Contract: "Owner API", "Authentication" (RFC 9421, a body digest on any body).
 */
import { parseJson, isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import type { ConsoleSettings } from '../../wire/owner/console.ts'
import { signingInput } from '../../wire/signatures/request-signing.ts'
import { base64, randomText, sha256, utf8 } from '../bytes.ts'
import { sign, type BrowserKey } from './device-key.ts'
import type { RealmLogin } from './realm.ts'
import { WORDS } from '../words.ts'

/** The answer if a request failed; `status` 0 means that nobody answered. */
export class ApiFault extends Error {
  readonly status: number
  readonly code: string
  readonly body: JsonObject

  constructor(status: number, code: string, detail: string, body: JsonObject = {}) {
    super(detail)
    this.status = status
    this.code = code
    this.body = body
  }
}

/** The credential that proves requests. */
export type ApiProof =
  | { by: 'nobody' }
  | { by: 'key'; key: BrowserKey }
  | { by: 'server'; token: string }
  | { by: 'login'; login: Pick<RealmLogin, 'token' | 'expiresAt'> }

/**
 * The address of the API, and the address that signatures cover; `aheadMs` is how far its clock is ahead of
 * this one; `logKeys` are the `x` of the keys of the log: none, or left out, if no ledger is signed there.
 */
export interface Access {
  readonly base: URL
  readonly issuer: string
  readonly aheadMs: number
  readonly logKeys?: readonly string[]
  readonly proof: ApiProof
}

export interface ConsoleRequest {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Below the API's base, with its query. */
  path: string
  body?: object
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** What the server of the page says about itself, and the difference between its clock and this one. */
export async function readSettings(base: URL): Promise<ConsoleSettings & { aheadMs: number }> {
  const response = await fetched(new URL('console.json', base), {})
  const settings = (await jsonOf(response)) as unknown as ConsoleSettings
  const date = Date.parse(response.headers.get('date') ?? '')
  // The header has whole seconds, so a difference of a few counts as none.
  const aheadMs = Number.isNaN(date) || Math.abs(date - Date.now()) < 5_000 ? 0 : date - Date.now()
  return { ...settings, aheadMs }
}

/** Seconds since the epoch, by the clock of the API. */
export function nowOf({ aheadMs }: Pick<Access, 'aheadMs'>): number {
  return Math.floor((Date.now() + aheadMs) / 1_000)
}

/**
 * Sends a request, and returns the JSON of a 2xx. Fails with `ApiFault`, in the words of the server that
 * refused.
 */
export async function ask<T>(access: Access, request: ConsoleRequest): Promise<T> {
  const response = await send(access, { ...request, signal: request.signal ?? AbortSignal.timeout(30_000) })
  return (await jsonOf(response)) as T
}

/** Reads a list to its end, page by page (RFC 8288 `Link`). */
export async function askAll<T>(access: Access, path: string): Promise<T[]> {
  const all: T[] = []
  let next: string | undefined = path
  for (let pages = 0; next !== undefined && pages < 100; pages++) {
    const response: Response = await send(access, { path: next, signal: AbortSignal.timeout(30_000) })
    all.push(...((await jsonOf(response)) as unknown as T[]))
    const [, link] = /<([^>]*)>;\s*rel="next"/.exec(response.headers.get('link') ?? '') ?? []
    next = link === undefined ? undefined : path.split('?')[0] + new URL(link, access.base).search
  }
  return all
}

/** Sends a request, and returns the answer, refused or not. */
export async function send(access: Access, request: ConsoleRequest): Promise<Response> {
  const { method = 'GET', path, signal } = request
  const url = new URL(path, access.base)
  const body = request.body === undefined ? undefined : utf8(JSON.stringify(request.body))
  const headers: Record<string, string> = { accept: 'application/json', ...request.headers }
  if (body !== undefined) {
    headers['content-type'] = 'application/json'
    headers['content-digest'] = `sha-256=:${base64(await sha256(body))}:`
  }
  const { proof } = access
  if (proof.by === 'server') headers['authorization'] = `Bearer ${proof.token}`
  if (proof.by === 'login') headers['authorization'] = `Bearer ${proof.login.token}`
  if (proof.by === 'key')
    Object.assign(headers, await signatureOf(access, proof.key, { method, url, headers }))
  return fetched(url, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  })
}

async function signatureOf(
  access: Access,
  key: BrowserKey,
  sent: { method: string; url: URL; headers: Record<string, string> },
): Promise<Record<string, string>> {
  const { method, url, headers } = sent
  const issuer = new URL(access.issuer)
  const query = url.search === '' ? undefined : url.search.slice(1)
  const components = ['@method', '@authority', '@path', 'authorization']
  if (query !== undefined) components.push('@query')
  if (headers['content-digest'] !== undefined) components.push('content-digest')
  const { base, input } = signingInput(
    {
      method,
      scheme: issuer.protocol === 'http:' ? 'http' : 'https',
      authority: issuer.host,
      path: url.pathname,
      query,
      headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    },
    {
      components,
      created: nowOf(access),
      // Equal requests within one second would have equal signatures, and each signature is accepted only
      // once.
      nonce: randomText(16),
      keyid: key.kid,
      absentAuthorizationIsEmpty: true,
    },
  )
  return { 'signature-input': `sig1=${input}`, signature: `sig1=:${base64(await sign(key, base))}:` }
}

async function fetched(url: URL, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, { ...init, redirect: 'error', credentials: 'omit', cache: 'no-store' })
  } catch (cause) {
    if (isAbort(cause)) throw cause
    const isRead = (init.method ?? 'GET') === 'GET'
    throw new ApiFault(0, 'unreachable', isRead ? WORDS.unreachable.read : WORDS.unreachable.act)
  }
  if (response.ok) return response
  const body = await bodyOf(response)
  const { error, error_description: detail } = body
  throw new ApiFault(
    response.status,
    typeof error === 'string' ? error : `http_${response.status}`,
    typeof detail === 'string' ? detail : `The server answered with status ${response.status}.`,
    body,
  )
}

async function bodyOf(response: Response): Promise<JsonObject> {
  try {
    const json = await jsonOf(response)
    return isJsonObject(json) ? json : {}
  } catch (error) {
    // Nobody waits for it any more, and an answer that was cut off must not be reported as if none had come.
    if (isAbort(error)) throw error
    return {}
  }
}

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}

/** JSON is read as strictly as by every party: what two readers could read differently is refused. */
async function jsonOf(response: Response): Promise<Json> {
  return parseJson(await response.text())
}
