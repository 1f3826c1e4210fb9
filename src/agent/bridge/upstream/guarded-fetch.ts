/**
 * Owns the `fetch` under the SDK's client: it sends each call under the grant chosen for it and under no
 * other, to the resource's own address alone, and notes what came. Contract: "Authorized call", "Challenge
 * (beat 1)": a challenge or a refusal is read here, before the SDK makes an error of it.
 */
import type { AsyncLocalStorage } from 'node:async_hooks'
import type { Json } from '../../../wire/json.ts'
import { AgentError, fail } from '../../agent-error.ts'
import { challengeIn, refusalIn } from '../../answer.ts'
import { readMessage } from '../../transports/message.ts'
import { signedHeaders } from '../../transports/proof.ts'
import { bodyChunks, DOCUMENT_BYTES_MAX, neverLeft } from '../../transports/transport.ts'
import { idAsWritten } from '../answers/as-written.ts'
import type { Exchange, GrantProof } from './exchange.ts'
import { noStream, noteStream, signedFor, type OwnStream } from './own-stream.ts'
import { BrokenOffAnswer } from '../answers/foreign-answer.ts'
import { probeRevision, PROBE_MILLISECONDS_MAX, readAnswer, sentIn } from '../answers/read-answer.ts'
import { sessionWord } from './session.ts'
import { EVENT_STREAM_TYPE } from '../protocol.ts'

/** What the `fetch` of a resource needs. */
export interface GuardedFetchOptions {
  url: URL
  specNs: string
  now: () => number
  /** How long the answer to `server/discover` is waited for; ten seconds if left out. */
  probeMillisecondsMax?: number | undefined
  /** A standing grant for the resource, if one is held: what no call asks for is asked for under it. */
  standingProof?: (() => Promise<GrantProof | undefined>) | undefined
}

/** Follows no redirect, accepts no endless answer, and sends our credentials to no other address. */
export function guardedFetch(
  options: GuardedFetchOptions,
  underway: AsyncLocalStorage<Exchange>,
  stream: OwnStream,
): typeof fetch {
  const { url, probeMillisecondsMax = PROBE_MILLISECONDS_MAX } = options
  const send: typeof fetch = async (input, init = {}) => {
    const at = new URL(input instanceof Request ? input.url : input)
    if (at.origin !== url.origin)
      fail('redirect_refused', `${url.origin} leads to ${at.origin}, which is not followed.`)
    const ending = underway.getStore()?.ending.signal
    // The SDK tells a server of MCP 2025-11-25 that nobody waits any more, and continues to read what it
    // sends.
    if (init.method === 'GET' && ending?.aborted === true) return noStream()
    const waiting = underway.getStore()
    if (isResumption(init, waiting)) return resume({ at, init }, waiting, options)
    if (init.method === 'GET') return (stream.opening = openStream({ at, init }, stream, options))
    const exchange = init.method === 'POST' ? underway.getStore() : undefined
    const text = typeof init.body === 'string' ? idAsWritten(init.body) : undefined
    const message = sentIn(init)
    const isOurs =
      exchange !== undefined && (exchange.method === 'connect' || message?.method === exchange.method)
    const isCall = isOurs && exchange.isCall
    if (isOurs && exchange.method !== 'connect') exchange.id = message?.id
    const headers = new Headers(init.headers)
    if (isCall && exchange.proof !== undefined) {
      const { accessToken, key } = exchange.proof
      const proof = signedHeaders({ method: 'POST', url, body: text, accessToken }, { key, now: options.now })
      for (const [name, value] of Object.entries(proof)) headers.set(name, value)
    }
    const sentBefore = exchange?.sent === true
    if (isCall) exchange.sent = true
    const signals = [init.signal, isOurs ? ending : undefined].filter(one => one instanceof AbortSignal)
    const body = text === undefined ? {} : { body: text }
    const signal = AbortSignal.any(signals)
    const request = { ...init, ...body, headers, redirect: 'manual' as const, signal }
    const response = await fetch(at, request).catch((error: unknown) => {
      if (isCall && neverLeft(error)) exchange.sent = sentBefore
      throw error
    })
    await refuseRedirect(response, url)
    const refused = isCall ? await readRefusal(response, exchange, options) : undefined
    if (refused !== undefined && headers.has('mcp-session-id'))
      exchange!.session = sessionWord(refused, exchange!.id)
    return readAnswer(response, {
      ...options,
      exchange: isOurs ? exchange : undefined,
      request: message,
    })
  }
  return (input, init = {}) =>
    sentIn(init)?.method === 'server/discover'
      ? probeRevision(init, probeMillisecondsMax, bound => send(input, bound))
      : send(input, init)
}

/** Asks for the stream of the session, unless a call has opened it again before the SDK did. */
async function openStream(
  { at, init }: { at: URL; init: RequestInit },
  stream: OwnStream,
  options: GuardedFetchOptions,
): Promise<Response> {
  if (stream.isOpen) return noStream()
  const headers = new Headers(init.headers)
  await signedFor(headers, { at, stream, options })
  const response = await fetch(at, { ...init, headers, redirect: 'manual' })
  await refuseRedirect(response, options.url)
  return readAnswer(noteStream(response, stream), { ...options, exchange: undefined, request: undefined })
}

async function refuseRedirect({ status, body }: Response, { origin }: URL): Promise<void> {
  if (status < 300 || status >= 400) return
  await body?.cancel()
  fail('redirect_refused', `${origin} answered with a redirect, which is not followed.`)
}

/** How often in a row a stream may fail to be opened again: its server may be starting again. */
const RESUMPTIONS_MAX = 3

/** Whether the SDK asks for the rest of an answer whose stream ended before it. */
function isResumption(init: RequestInit, exchange: Exchange | undefined): exchange is Exchange {
  const isAnswer = exchange !== undefined && exchange.method !== 'connect'
  return isAnswer && init.method === 'GET' && new Headers(init.headers).has('last-event-id')
}

/**
 * Asks for the rest of an answer as the call itself was sent: under its grant, with a proof. If the server
 * does not go on there, nothing can come any more, and the wait ends.
 */
async function resume(
  { at, init }: { at: URL; init: RequestInit },
  exchange: Exchange,
  options: GuardedFetchOptions,
): Promise<Response> {
  const headers = new Headers(init.headers)
  if (exchange.proof !== undefined) {
    const { accessToken, key } = exchange.proof
    const proof = signedHeaders({ method: 'GET', url: at, accessToken }, { key, now: options.now })
    for (const [name, value] of Object.entries(proof)) headers.set(name, value)
  }
  const over = (): Response => {
    if (exchange.isCall) exchange.failure ??= new BrokenOffAnswer(options.url)
    exchange.ending.abort()
    return noStream()
  }
  const mayRetry = (): boolean => ++exchange.failedResumptions < RESUMPTIONS_MAX
  const signals = [init.signal, exchange.ending.signal].filter(one => one instanceof AbortSignal)
  const request = { ...init, headers, redirect: 'manual' as const, signal: AbortSignal.any(signals) }
  const response = await fetch(at, request).catch((error: unknown) => {
    if (!mayRetry()) return over()
    throw error
  })
  const isStream = response.headers.get('content-type')?.toLowerCase().startsWith(EVENT_STREAM_TYPE) === true
  if (response.ok && isStream) {
    exchange.failedResumptions = 0
    const lastEventId = headers.get('last-event-id') ?? ''
    const revision = headers.get('mcp-protocol-version') ?? ''
    const sent = { id: exchange.id, method: exchange.method, revision }
    return readAnswer(response, { ...options, exchange, request: sent, lastEventId })
  }
  await response.body?.cancel().catch(() => undefined)
  return response.status >= 500 && mayRetry() ? response : over()
}

/**
 * Notes a challenge or a refusal of this call, if the answer is one; any other answer with the status of an
 * error is returned.
 */
async function readRefusal(
  response: Response,
  exchange: Exchange,
  options: GuardedFetchOptions,
): Promise<{ status: number; message: Json | undefined } | undefined> {
  exchange.answered = response.ok
  const { status } = response
  if (status < 400) return undefined
  try {
    const challenge = challengeIn(options, response)
    if (challenge !== undefined) exchange.answer = { kind: 'challenge', challenge }
    else {
      const chunks: Uint8Array[] = []
      const bounds = { url: options.url, bytesMax: DOCUMENT_BYTES_MAX }
      for await (const chunk of bodyChunks(response.clone(), bounds)) chunks.push(chunk)
      const message = readMessage(Buffer.concat(chunks).toString('utf8'))
      const refusal = refusalIn(options, response, message)
      if (refusal === undefined) {
        if (status < 500) exchange.answered = true
        return { status, message }
      }
      exchange.failure = refusal
    }
  } catch (error) {
    if (error instanceof AgentError && error.code === 'challenge_untrusted') exchange.failure = error
  }
  return undefined
}
