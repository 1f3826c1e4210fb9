/**
 * Owns the stream on which a server of MCP 2025-11-25 says what belongs to no call (GET): it is asked for
 * under a standing grant, because an enforcement point lets it pass under one alone, and again once there is
 * one. Contract: "Authorized call".
 */
import { setImmediate } from 'node:timers/promises'
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { waitAtMost } from '../../../limits/patience.ts'
import { signedHeaders } from '../../transports/proof.ts'
import type { GrantProof } from './exchange.ts'

/** The stream of one connection. */
export interface OwnStream {
  isOpen: boolean
  /** It was open and ended, so it may be had again as it was: without a grant, or under the same one. */
  isBroken: boolean
  /** The request for it that was sent last. */
  opening?: Promise<unknown>
  /** The wait of the first calls for the answer to the first request for it. */
  beginning?: Promise<void>
  /** The grant that it was asked for under last. */
  accessToken?: string | undefined
}

/** The stream of a connection that was just made. */
export const newStream = (): OwnStream => ({ isOpen: false, isBroken: false })

interface StreamSigning {
  now: () => number
  standingProof?: (() => Promise<GrantProof | undefined>) | undefined
}

/** A call is not kept waiting for a stream any longer. */
const OPENING_MILLISECONDS_MAX = 5000
/** Nor is the first call of a session: some servers answer only when their stream has its first event. */
const BEGINNING_MILLISECONDS_MAX = 1000

/** A stream on which a server tells of changes is opened again for as long as the connection is used. */
export const RECONNECTION = {
  initialReconnectionDelay: 1000,
  maxReconnectionDelay: 300_000,
  reconnectionDelayGrowFactor: 2,
  maxRetries: Infinity,
}

/** By this status the SDK hears that there is no stream to go on with, and asks no more. */
export function noStream(): Response {
  return new Response(null, { status: 405 })
}

/**
 * Notes what became of a request for the stream, and passes its answer on: the stream is open until its body
 * ends. A server that refuses one is not asked again as before; one that fails, or still holds the stream of
 * before (409), may be.
 */
export function noteStream(response: Response, stream: OwnStream): Response {
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  if (!response.ok || !isStream || response.body === null) {
    if (response.status < 500 && response.status !== 409) stream.isBroken = false
    return response
  }
  Object.assign(stream, { isOpen: true, isBroken: false })
  const ended = (): void => void Object.assign(stream, { isOpen: false, isBroken: true })
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array>({
    pull: async controller => {
      const { done, value } = await reader.read().catch((error: unknown) => {
        ended()
        throw error
      })
      if (!done) return controller.enqueue(value)
      ended()
      controller.close()
    },
    cancel: reason => {
      ended()
      return reader.cancel(reason)
    },
  })
  const { status, statusText, headers } = response
  return new Response(body, { status, statusText, headers })
}

/**
 * Waits for the answer to the request for the stream that was sent last, by default as long as a call would.
 */
export async function awaitStream(
  { opening }: OwnStream,
  milliseconds: number = OPENING_MILLISECONDS_MAX,
): Promise<void> {
  await waitAtMost(milliseconds, Promise.resolve(opening?.catch(() => undefined)))
}

/**
 * The SDK asks for the stream as soon as there is a session, and waits for no answer. What a server asks
 * there before the stream is open, it asks nobody.
 */
async function awaitBeginning(stream: OwnStream): Promise<void> {
  // The request may be just about to be sent.
  await setImmediate()
  await awaitStream(stream, BEGINNING_MILLISECONDS_MAX)
}

/** Signs the request for the stream, if a standing grant is held. */
export async function signedFor(
  headers: Headers,
  { at, stream, options }: { at: URL; stream: OwnStream; options: StreamSigning },
): Promise<void> {
  const proof = await options.standingProof?.().catch(() => undefined)
  if (proof === undefined) return
  const { accessToken, key } = proof
  stream.accessToken = accessToken
  const signed = signedHeaders({ method: 'GET', url: at, accessToken }, { key, now: options.now })
  for (const [name, value] of Object.entries(signed)) headers.set(name, value)
}

/**
 * Asks for the stream before a call if it is not open, because a tool may ask its client there: once under
 * each standing grant, and again after it ended. Otherwise the first calls of a session wait for the stream
 * that the SDK asked for. The call is made whether or not there is one.
 */
export async function openOwnStream(
  { transport, stream }: { transport: StreamableHTTPClientTransport; stream: OwnStream },
  call: { proof?: GrantProof | undefined; once?: boolean | undefined },
  { standingProof }: StreamSigning,
): Promise<void> {
  if (stream.isOpen || transport.sessionId === undefined) return
  const proof = call.once === true ? await standingProof?.().catch(() => undefined) : call.proof
  const isNew = proof !== undefined && proof.accessToken !== stream.accessToken
  if (!isNew && !stream.isBroken) return (stream.beginning ??= awaitBeginning(stream))
  if (isNew) stream.accessToken = proof.accessToken
  // The SDK asks for it as soon as there is a session, and a server has one of them at a time.
  const before = stream.opening?.catch(() => undefined)
  const opening = async (): Promise<void> => {
    await before
    if (!stream.isOpen) await transport.resumeStream('').catch(() => undefined)
  }
  await waitAtMost(OPENING_MILLISECONDS_MAX, opening())
}

/**
 * The delay that a server names counts for the first attempt. If that fails, the server is asked more and
 * more rarely, whatever it named.
 */
export function reconnectLater(reconnect: () => void, milliseconds: number, attempts: number): () => void {
  const {
    initialReconnectionDelay: least,
    maxReconnectionDelay: most,
    reconnectionDelayGrowFactor,
  } = RECONNECTION
  const seldom = attempts === 0 ? 0 : least * reconnectionDelayGrowFactor ** (attempts - 1)
  const timer = setTimeout(reconnect, Math.min(Math.max(milliseconds, seldom), most)).unref()
  return () => clearTimeout(timer)
}
