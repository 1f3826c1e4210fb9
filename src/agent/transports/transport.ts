/**
 * Owns every request the agent sends: https only, no redirect followed, bounded in size and time. Contract:
 * "Challenge (beat 1)": trust comes from the address that was called, so an answer from any other address
 * does not count.
 */
import { connectionWords, refusalByProxy } from '../../terminal/connection-words.ts'
import { isJsonObject, parseJson, type JsonObject } from '../../wire/json.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { AgentError, fail, reading } from '../agent-error.ts'

/** One request. `bodyBytesMax` bounds the answer; the time runs until the answer's body has been read. */
export interface OutgoingRequest {
  method: string
  url: URL
  headers: Record<string, string>
  body?: string | Uint8Array | undefined
  timeoutSeconds: number
  signal?: AbortSignal | undefined
}

/** An answer whose body has been read whole. */
export interface TransportAnswer {
  status: number
  headers: Headers
  body: Buffer
}

/** Limits on the agent's own requests (metadata, keys, tokens), not on a tool's answer. */
export const DOCUMENT_BYTES_MAX = 64 * 1024
export const DOCUMENT_SECONDS_MAX = 10

/**
 * The URL of an address to be called: https, without user information or fragment. With `allowLoopback` also
 * http, for hosts that are literally loopback. Fails with `address_refused`, naming `what`.
 */
export function checkAddress(address: string, allowLoopback: boolean, what: string): URL {
  const url = URL.parse(address)
  if (!url) fail('address_refused', `The ${what} is not a URL: ${address}`)
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    fail('address_refused', `The ${what} must carry no user information and no fragment: ${address}`)
  }
  if (url.protocol === 'https:') return url
  const isLocal = url.protocol === 'http:' && isLoopbackHost(url.hostname)
  if (!isLocal) fail('address_refused', `The ${what} must be an https URL: ${address}`)
  if (!allowLoopback) {
    fail(
      'address_refused',
      `The ${what} must be an https URL: ${address}. To try it on this machine over http, set UMA_DEV_LOOPBACK=true for a command, or allowLoopback of createAgent.`,
    )
  }
  return url
}

/**
 * Sends the request and returns as soon as the head of the answer is there. Fails with `unreachable` (nothing
 * came back in time, so it may or may not have been received), `redirect_refused`, or `aborted` by the
 * caller's signal.
 */
export async function open(request: OutgoingRequest): Promise<Response> {
  const { method, url, headers, body, signal } = request
  const timeout = AbortSignal.timeout(request.timeoutSeconds * 1000)
  const response = await guarded(signal, url, () =>
    fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      ...(body === undefined ? {} : { body }),
    }),
  )
  if (response.status >= 300 && response.status < 400) {
    await discard(response)
    fail('redirect_refused', `${url.origin} answered with a redirect, which is not followed.`, {
      status: response.status,
    })
  }
  return response
}

/**
 * Sends the request and reads the whole answer, at most `bytesMax` bytes (otherwise it fails with
 * `answer_too_large`).
 */
export async function exchange(request: OutgoingRequest, bytesMax: number): Promise<TransportAnswer> {
  const response = await open(request)
  const chunks: Uint8Array[] = []
  for await (const chunk of bodyChunks(response, { ...request, bytesMax })) chunks.push(chunk)
  return { status: response.status, headers: response.headers, body: Buffer.concat(chunks) }
}

/** The chunks of an answer's body, until `bytesMax` bytes; stopping early releases the connection. */
export async function* bodyChunks(
  response: Response,
  bounds: { bytesMax: number; url: URL; signal?: AbortSignal | undefined },
): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader()
  if (!reader) return
  let bytes = 0
  try {
    for (;;) {
      const { done, value } = await guarded(bounds.signal, bounds.url, () => reader.read())
      if (done) return
      bytes += value.byteLength
      if (bytes > bounds.bytesMax) {
        fail('answer_too_large', `${bounds.url.origin} sent more than ${bounds.bytesMax} bytes.`, {
          status: response.status,
        })
      }
      yield value
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

/**
 * With these, a proxy in front of the server says that the server cannot be reached, or takes no more
 * requests.
 */
const OUTAGES: ReadonlySet<number> = new Set([404, 408, 425, 429])

/** Whether a status, in the place of an answer, is that of an outage: it says nothing of any decision. */
export function isOutage(status: number): boolean {
  return status >= 500 || OUTAGES.has(status)
}

/**
 * Fetches one JSON object (RFC 9728, RFC 8414, JWKS documents): status 200, within 64 KiB, strictly parsed.
 * The status of an outage fails with `temporarily_unavailable`. Every other status fails with `unreachable`,
 * and so does 404, because nothing may be there at all.
 */
export async function fetchDocument(url: URL, what: string, signal?: AbortSignal): Promise<JsonObject> {
  const answer = await exchange(
    {
      method: 'GET',
      url,
      headers: { accept: 'application/json' },
      timeoutSeconds: DOCUMENT_SECONDS_MAX,
      signal,
    },
    DOCUMENT_BYTES_MAX,
  )
  const { status, headers } = answer
  if (status !== 200) {
    const detail = `The ${what} at ${url.href} answered with status ${status}.`
    if (!isOutage(status) || status === 404)
      fail('unreachable', detail, { status, terminal: !isOutage(status) })
    throw new AgentError('temporarily_unavailable', {
      detail,
      status,
      local: true,
      retryAfterSeconds: retryAfterSeconds(headers, Date.now() / 1000),
    })
  }
  return readObject(answer, `${what} at ${url.href}`)
}

/** The JSON object an answer carries; fails with `answer_malformed`. */
export function readObject(answer: TransportAnswer, what: string): JsonObject {
  const json = reading('answer_malformed', `The ${what} is not usable`, () => parseJson(answer.body))
  if (!isJsonObject(json))
    fail('answer_malformed', `The ${what} is not a JSON object.`, { status: answer.status })
  return json
}

/** The seconds a `Retry-After` field asks for (RFC 9110 §10.2.3), undefined when it says nothing usable. */
export function retryAfterSeconds(headers: Headers, now: number): number | undefined {
  const value = headers.get('retry-after')?.trim()
  if (value === undefined) return undefined
  if (/^\d{1,9}$/.test(value)) return Number(value)
  const date = Date.parse(value)
  return Number.isNaN(date) ? undefined : Math.max(0, Math.ceil(date / 1000 - now))
}

async function discard(response: Response): Promise<void> {
  await response.body?.cancel().catch(() => undefined)
}

/** Runs one network step; every error becomes `aborted` (if the caller aborted) or `unreachable`. */
async function guarded<T>(signal: AbortSignal | undefined, url: URL, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (cause) {
    if (cause instanceof AgentError) throw cause
    if (signal?.aborted) fail('aborted', 'The call was given up by its caller.', { cause, terminal: false })
    return fail('unreachable', `${url.origin} ${failureOf(cause)}`, {
      cause,
      terminal: false,
      unspent: neverLeft(cause),
    })
  }
}

/** The error of a request that fails before any connection is made. */
const BEFORE_CONNECTED: ReadonlySet<unknown> = new Set(['connect', 'getaddrinfo'])

/**
 * Whether a failed `fetch` never sent its request, because there was no connection. The codes of an
 * unreachable host or network do not prove that: an existing connection fails with them too.
 */
export function neverLeft(error: unknown): boolean {
  if (refusalByProxy(error) !== undefined) return true
  const { cause } = error as { cause?: { code?: unknown; syscall?: unknown; errors?: unknown } }
  if (cause === undefined || cause === null) return false
  // One error for each address, if a host has several.
  if (Array.isArray(cause.errors))
    return cause.errors.length > 0 && cause.errors.every(one => neverLeft({ cause: one as object }))
  return cause.code === 'UND_ERR_CONNECT_TIMEOUT' || BEFORE_CONNECTED.has(cause.syscall)
}

function failureOf(cause: unknown): string {
  if (cause instanceof Error && cause.name === 'TimeoutError') return 'did not answer in time.'
  const why = connectionWords(cause)
  return why === undefined ? 'cannot be reached.' : `cannot be reached: ${why}`
}
