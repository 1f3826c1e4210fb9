/**
 * Owns an HTTP/1.1 server that passes requests on as they came: target, method and every header line
 * unchanged, the body as bytes. It serves gateways that ask about another party's request, so nothing may be
 * normalized. Contract: "Authentication" (inputs never come from the transport) and "Limits". It knows no
 * party.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import { bind } from './bind.ts'
import type { Certificates } from './certificates.ts'
import { admits, type ClientNames } from './client-names.ts'
import { boundAnswer, CONNECTION_BOUNDS, nodeLimits, type ConnectionBounds } from './connection-bounds.ts'
import type { ListenAddress } from './listen-address.ts'
import { readWholeBody } from './node-request.ts'
import { answerUnparsable } from './server.ts'

export interface RawRequest {
  method: string
  /** The request target, untouched. */
  target: string
  /** Header lines in order, one character per byte. */
  lines: [name: string, value: string][]
  /** The whole body, or that it is longer than the limit. */
  body: Buffer | 'too_large'
  /** The address of the client, or `unix`. */
  peer: string
  /** When its head was there, in milliseconds since the epoch by the server's clock. */
  receivedAt: number
  /** Whether the client has disconnected. */
  isClosed: () => boolean
}

/** The answer. Header names and values must be valid; content-length is added. */
export interface RawAnswer {
  status: number
  headers: [name: string, value: string][]
  body: string
}

export interface RawServerOptions {
  address: ListenAddress
  /** If given, a client must show a certificate that `ca` signed. Renewed files apply to new connections. */
  tls?: Certificates<{ cert: Buffer; key: Buffer; ca: Buffer }> | undefined
  /** With `tls`: the names of which the certificate must have one; any certificate of `ca` when left out. */
  clients?: ClientNames | undefined
  bodyBytesMax: number
  /** It must not reject: if it does, the connection is cut, which every gateway treats as an outage. */
  handle: (request: RawRequest) => Promise<RawAnswer>
  /** Whether to keep a connection after an answer; false while the process drains. */
  keepConnections: () => boolean
  /** How long one connection may be kept, so that replicas share the load; 300 s by default. */
  connectionAgeSeconds?: number | undefined
  /** Milliseconds since the epoch; the clock of this machine if left out. */
  clock?: (() => number) | undefined
  /** The limits of every listener if left out. */
  bounds?: ConnectionBounds | undefined
}

export interface RawServer {
  /** The address listened on, with the port that was given. */
  address: string
  /**
   * Takes no new connection, and ends when the open requests are answered, or after `graceMs` without them.
   */
  stop: (graceMs: number) => Promise<void>
}

/** The gateway's own limit is 60 KiB, and its additions must fit, too. */
const HEADER_BYTES_MAX = 98_304
const CONNECTION_AGE_SECONDS = 300

/** Starts listening. Rejects when the address cannot be bound or the certificates cannot be used. */
export async function startRawServer(options: RawServerOptions): Promise<RawServer> {
  const ageMs = (options.connectionAgeSeconds ?? CONNECTION_AGE_SECONDS) * 1_000
  const openedAt = new WeakMap<Socket, number>()
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    void serve(request, response, options, () => {
      const age = Date.now() - (openedAt.get(request.socket) ?? 0)
      return options.keepConnections() && age < ageMs
    })
  }
  const server = createListener(options, listener)
  server.maxConnections = (options.bounds ?? CONNECTION_BOUNDS).connectionsMax
  // Above a certain number, Node silently drops lines; their bytes are limited anyway.
  server.maxHeadersCount = 0
  server.on(options.tls ? 'secureConnection' : 'connection', (socket: Socket) =>
    openedAt.set(socket, Date.now()),
  )
  const { clients } = options
  // Before Node's own reader hears of the connection.
  if (options.tls !== undefined && clients !== undefined)
    server.prependListener('secureConnection', (socket: Socket) => void admits(socket, clients))
  server.on('clientError', answerUnparsable)
  // Requests that Node would answer without a body, or not at all, which a gateway may treat as an outage and
  // let pass.
  server.on('checkExpectation', listener)
  server.on('connect', (_request, socket: Socket) => refuseTunnel(socket))
  const address = await bind(server, options.address)
  return { address, stop: graceMs => stop(server, graceMs) }
}

/**
 * Node hands this socket over: it no longer handles its errors, which would end the process, and no longer
 * counts it when it stops.
 */
function refuseTunnel(socket: Socket): void {
  socket.on('error', () => undefined)
  answerUnparsable(new Error('CONNECT'), socket)
  socket.destroySoon()
}

function createListener(
  { tls, bounds = CONNECTION_BOUNDS }: RawServerOptions,
  listener: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const limits = {
    maxHeaderSize: HEADER_BYTES_MAX,
    ...nodeLimits(bounds),
    noDelay: true,
    // Nobody here reads a Host.
    requireHostHeader: false,
  }
  if (tls === undefined) return createServer(limits, listener)
  const mutual = { ...tls.current(), requestCert: true, rejectUnauthorized: true }
  const server = createTlsServer({ ...limits, ...mutual, minVersion: 'TLSv1.2' }, listener)
  tls.onReload(renewed => server.setSecureContext({ ...renewed, minVersion: 'TLSv1.2' }))
  return server
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  { bodyBytesMax, handle, clock = Date.now, bounds = CONNECTION_BOUNDS }: RawServerOptions,
  mayStay: () => boolean,
): Promise<void> {
  const receivedAt = clock()
  try {
    const body = await readWholeBody(request, bodyBytesMax)
    if (body === 'gone' || body === 'taken') return void request.socket.destroy()
    boundAnswer(response, bounds)
    const answer = await handle({
      method: request.method ?? '',
      target: request.url ?? '',
      lines: pairs(request.rawHeaders),
      body,
      peer: request.socket.remoteAddress ?? 'unix',
      receivedAt,
      isClosed: () => response.destroyed || request.socket.destroyed,
    })
    // The rest of an unread body would be taken for the next request.
    const stays = request.complete && mayStay()
    response.writeHead(answer.status, [
      ...answer.headers.flat(),
      'content-length',
      String(Buffer.byteLength(answer.body)),
      ...(stays ? [] : ['connection', 'close']),
    ])
    response.end(answer.body)
  } catch {
    request.socket.destroy()
  }
}

function pairs(flat: readonly string[]): [string, string][] {
  const lines: [string, string][] = []
  for (let i = 0; i < flat.length; i += 2) lines.push([flat[i]!, flat[i + 1]!])
  return lines
}

async function stop(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed
  clearTimeout(cut)
}
