/**
 * Owns the stream on which a server of MCP 2025-11-25 says what belongs to no call (GET): it is asked for
 * under a standing grant, because an enforcement point lets it pass under one alone, and again once there is
 * one. Contract: "Authorized call".
 */
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { waitAtMost } from '../../../limits/patience.ts'
import { signedHeaders } from '../../transports/proof.ts'
import type { GrantProof } from './exchange.ts'

/** The stream of one connection. */
export interface OwnStream {
  isOpen: boolean
  /** The grant that it was asked for under last. */
  accessToken?: string | undefined
}

/** What signing needs. */
interface StreamSigning {
  now: () => number
  standingProof?: (() => Promise<GrantProof | undefined>) | undefined
}

/** A call is not kept waiting for a stream any longer. */
const OPENING_MILLISECONDS_MAX = 5000

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
 * Asks for the stream before a call, once under each standing grant, if it is not open: a tool may ask its
 * client there. The call is made whether or not there is one.
 */
export async function openOwnStream(
  { transport, stream }: { transport: StreamableHTTPClientTransport; stream: OwnStream },
  call: { proof?: GrantProof | undefined; once?: boolean | undefined },
  { standingProof }: StreamSigning,
): Promise<void> {
  if (stream.isOpen || transport.sessionId === undefined) return
  const proof = call.once === true ? await standingProof?.().catch(() => undefined) : call.proof
  if (proof === undefined || proof.accessToken === stream.accessToken) return
  stream.accessToken = proof.accessToken
  const opening = transport.resumeStream('').catch(() => undefined)
  await waitAtMost(OPENING_MILLISECONDS_MAX, opening)
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
