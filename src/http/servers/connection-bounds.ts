/**
 * Owns how long each part of a connection may take, and how many connections there may be: the same at all
 * our HTTP/1.1 listeners. Contract: "Limits". A connection that a stranger holds open costs others nothing
 * beyond these times, to a second.
 */
import type { ServerOptions, ServerResponse } from 'node:http'
import type { TlsOptions } from 'node:tls'

/** Times in milliseconds. */
export interface ConnectionBounds {
  /** How long a connection may take to show its protocol (a TLS handshake too), and to send a whole head. */
  headersMs: number
  /** How long a whole request may take, including its head. */
  requestMs: number
  /** How long a connection may be idle between two requests. */
  idleMs: number
  /** How long from a whole request until its answer is taken. */
  answerMs: number
  /** How many connections there may be at a time; one more is closed at once. */
  connectionsMax: number
}

/**
 * This is longer than balancers in front keep an idle connection (600 s, the longest of the common ones). So
 * they end it, and no request meets a connection that is just closing. docs/operating.md has their numbers.
 */
export const IDLE_SECONDS = 620

export const CONNECTION_BOUNDS: ConnectionBounds = {
  headersMs: 10_000,
  requestMs: 30_000,
  idleMs: IDLE_SECONDS * 1_000,
  answerMs: 30_000,
  connectionsMax: 4_096,
}

/** How often Node checks for connections past their limits; it cannot enforce a limit sooner. */
const BOUNDS_CHECK_INTERVAL_MS = 1_000

/**
 * The limits that Node itself enforces. `maxConnections` is a property of the server, and must be set on it.
 */
export function nodeLimits({ headersMs, requestMs, idleMs }: ConnectionBounds): ServerOptions & TlsOptions {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    handshakeTimeout: headersMs,
    connectionsCheckingInterval: BOUNDS_CHECK_INTERVAL_MS,
  }
}

/** The usual bounds with another time for idle connections, as the operator set it. */
export function boundsWithIdle(idleSeconds: number): ConnectionBounds {
  return { ...CONNECTION_BOUNDS, idleMs: idleSeconds * 1_000 }
}

const bounded = new WeakSet<ServerResponse>()

/**
 * Cuts the connection if an answer is not taken in time, counted from the first call of this, because Node
 * waits for ever for a slow reader.
 */
export function boundAnswer(response: ServerResponse, { answerMs }: ConnectionBounds): void {
  if (bounded.has(response)) return
  bounded.add(response)
  const cut = setTimeout(() => response.req.socket.destroy(), answerMs).unref()
  response.once('close', () => clearTimeout(cut))
}
