/**
 * Owns one request to an API with a person's credential. Contract: "Authentication": an RFC 9421 signature by
 * a device key that she enrolled, with a required body digest on any request with a body, or an access token
 * of her realm.
 */
import { contentDigest } from '../wire/encoding.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import { isLoopbackHost } from '../wire/loopback.ts'
import { signedFields, type SentRequest } from '../wire/signatures/sent-request.ts'
import { connectionWords } from '../terminal/connection-words.ts'
import { ApiError } from './api-error.ts'

/**
 * The address of the API, and the caller. `issuer` is the identifier of the server: every signature covers
 * its scheme and authority, whatever address (`api`) the listener has. `now` returns seconds since the epoch.
 */
interface ApiAddress {
  api: string
  issuer: string
  now?: () => number
  /** The remedy if nothing is served at a path of the API; undefined if somebody named `api` by hand. */
  unserved?: string | undefined
}

/** The address, and the credential: a device key that signs, or an access token that is sent as Bearer. */
export type ApiAccess = ApiAddress &
  ({ key: PrivateKey; token?: undefined } | { token: string; key?: undefined })

/** A request below the API's base; `body` is sent as JSON. */
export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  path: string
  query?: Record<string, string | undefined>
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}

/**
 * The base URL of the API. Fails with `address_refused` unless it is https, or http on a host that is
 * literally loopback, which is the listener's default.
 */
export function apiBase(api: string): URL {
  const url = URL.parse(api)
  const plain = url?.protocol === 'http:' && isLoopbackHost(url.hostname)
  const bare = url?.search === '' && url.hash === '' && url.username === '' && url.password === ''
  if (!url || !bare || (url.protocol !== 'https:' && !plain)) {
    throw new ApiError('address_refused', `The API must be an https URL, or http on a loopback host: ${api}`)
  }
  return url
}

/**
 * Sends the request, signed now or with the token; no redirect is followed. Fails with `unreachable`,
 * `redirect_refused` or `aborted`.
 */
export async function signedFetch(access: ApiAccess, request: ApiRequest): Promise<Response> {
  const url = requestUrl(access, request)
  const body = request.body === undefined ? undefined : Buffer.from(JSON.stringify(request.body))
  const fields: Record<string, string> = {
    accept: 'application/json',
    ...request.headers,
    ...(body && { 'content-type': 'application/json', 'content-digest': contentDigest(body) }),
  }
  const headers = credentialFields(access, { method: request.method, url, headers: fields })
  let response: Response
  try {
    response = await fetch(url, {
      method: request.method,
      headers,
      redirect: 'manual',
      ...(body ? { body } : {}),
      ...(request.signal ? { signal: request.signal } : {}),
    })
  } catch (cause) {
    throw unreachable(url, request.signal, cause)
  }
  if (response.status >= 300 && response.status < 400) {
    await response.body?.cancel().catch(() => undefined)
    throw new ApiError('redirect_refused', `${url.origin} answered with a redirect, which is not followed.`, {
      status: response.status,
    })
  }
  return response
}

/** The code of a failed network step: either the caller aborted, or the API was silent. */
export function unreachable(url: URL, signal: AbortSignal | undefined, cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause
  const timedOut = cause instanceof Error && cause.name === 'TimeoutError'
  if (signal?.aborted && !timedOut) return new ApiError('aborted', 'Given up by the caller.', { cause })
  const why = connectionWords(cause)
  const detail = `The API at ${url.origin} cannot be reached${why === undefined ? '.' : `: ${why}`}`
  return new ApiError('unreachable', detail, { cause })
}

/**
 * The URL a request goes to: the API's base, the path below it, and the query parameters that have a value.
 */
export function requestUrl(access: ApiAccess, request: Pick<ApiRequest, 'path' | 'query'>): URL {
  const url = apiBase(access.api)
  // A URL of http has at least `/` as its path, so the base's slash is taken off here, not before.
  url.pathname = url.pathname.replace(/\/+$/, '') + request.path
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== undefined) url.searchParams.append(name, value)
  }
  return url
}

/** The header fields, with the token, or with the signature. */
function credentialFields(access: ApiAccess, sent: SentRequest): Record<string, string> {
  const { key } = access
  const headers = { ...sent.headers, authorization: key === undefined ? `Bearer ${access.token}` : '' }
  if (key === undefined) return headers
  return signedFields({ ...sent, headers, origin: new URL(access.issuer) }, key, {
    created: Math.floor(access.now?.() ?? Date.now() / 1000),
    once: true,
    keyid: key.thumbprint,
  })
}
