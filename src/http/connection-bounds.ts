/**
 * Owns how long a connection may take for what, and how many there may be: the same at every HTTP/1.1
 * listener of ours. Contract: "Limits". What a stranger holds open costs nobody else anything for longer than
 * is said here, to a second.
 */
import type { ServerOptions, ServerResponse } from 'node:http'
import type { TlsOptions } from 'node:tls'

/** Times in milliseconds. */
export interface ConnectionBounds {
  /** Until a connection has shown what it speaks (a TLS handshake too), and until a head is whole. */
  headersMs: number
  /** Until a request is whole, its head included. */
  requestMs: number
  /** Without a request, between two of them. */
  idleMs: number
  /** From when a request is whole until its answer is taken. */
  answerMs: number
  /** Connections at a time; one more is closed as it comes. */
  connectionsMax: number
}

export const CONNECTION_BOUNDS: ConnectionBounds = {
  headersMs: 10_000,
  requestMs: 30_000,
  // Longer than gateways keep an idle connection, so that it is they who end it, and no request meets a
  // closing one.
  idleMs: 75_000,
  answerMs: 30_000,
  connectionsMax: 4_096,
}

/** How often Node looks for connections past their bounds, which it keeps no sooner than it looks. */
const LOOK_MS = 1_000

/**
 * What of the bounds Node keeps itself. Its `maxConnections` is a property of the server, to be set on it.
 */
export function nodeLimits({ headersMs, requestMs, idleMs }: ConnectionBounds): ServerOptions & TlsOptions {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    handshakeTimeout: headersMs,
    connectionsCheckingInterval: LOOK_MS,
  }
}

const bounded = new WeakSet<ServerResponse>()

/**
 * Cuts the connection where an answer, bounded from its first such call on, is not taken in time: Node waits
 * for a slow reader for ever.
 */
export function boundAnswer(response: ServerResponse, { answerMs }: ConnectionBounds): void {
  if (bounded.has(response)) return
  bounded.add(response)
  const cut = setTimeout(() => response.req.socket.destroy(), answerMs).unref()
  response.once('close', () => clearTimeout(cut))
}
