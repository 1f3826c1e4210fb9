/**
 * Owns the bridge over HTTP on a loopback address: who may speak to it, the sessions of clients of
 * 2025-11-25, and when an answer has left. Contract: "What the service does": the client is unmodified;
 * "Single-use grant": its answer is kept until it has been written.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
  type Server,
} from '@modelcontextprotocol/server'
import { UsageError } from '../../terminal/command.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { writingLines } from './answers/as-written.ts'
import { openClients } from './clients.ts'
import type { BridgeOptions } from './core.ts'
import { callerOf, type BridgeCaller } from './listen-token.ts'
import { isListening, listenFor } from './notices/listening.ts'
import type { ServerParts } from './client-side.ts'
import { bridgeFor, serverFor, type Serving } from './serve.ts'
import { marked } from './answers/unchanged.ts'
import { JSON_TYPE, RPC_CODE } from './protocol.ts'

/** The address, and what clients must know. */
export interface LoopbackOptions {
  host: string
  port: number
  token: string
}

/** One request and its answer. */
interface ClientExchange {
  caller: BridgeCaller
  /** Called when the answer has been written completely. */
  whenSent: (() => Promise<void>)[]
  /** Called if the connection was closed before that. */
  disconnect: AbortSignal
  /** Resolves when it is over, either way. */
  over: Promise<void>
}

/** A client of 2025-11-25, from its `initialize` on. */
interface Session {
  /** Nobody else speaks in it, whatever else they know. */
  caller: BridgeCaller
  server: Server
  transport: WebStandardStreamableHTTPServerTransport
  /** How many of its requests are being answered. */
  busy: number
}

const SESSIONS_MAX = 64
/** Of one secret, so that one client leaves room for others, however many streams it opens. */
const SESSIONS_OF_CALLER_MAX = 16
const CONNECTIONS_MAX = 256
/** Longer than clients and balancers keep an idle connection: no request meets one that is just closing. */
const KEEP_ALIVE_MILLISECONDS = 620_000

/** Serves clients over HTTP on a loopback address. */
export async function serveOnLoopback(options: BridgeOptions, listen: LoopbackOptions): Promise<Serving> {
  const { host, port, token } = listen
  const { toNodeHandler } = await import('@modelcontextprotocol/node')
  const exchanges = new AsyncLocalStorage<ClientExchange>()
  const clients = openClients(options)
  const shared: ServerParts = {
    options,
    clients,
    whenSent: (_id, act) => void exchanges.getStore()?.whenSent.push(act),
    disconnect: () => exchanges.getStore()?.disconnect,
    callerName: () => exchanges.getStore()?.caller.name,
    listening: true,
  }
  const modern = createMcpHandler(context => serverFor(shared, context), { legacy: 'reject' })
  clients.onChanged(list => modern.notify[`${list}Changed`]())
  const sessions = new LoopbackSessions(shared, exchanges)
  const serve = toNodeHandler({
    fetch: async (original, extra) => {
      const request = await markedRequest(original)
      if (await isLegacyRequest(request)) return written(await sessions.serve(request))
      const serveModern = (one: Request): Promise<Response> => modern.fetch(one, extra)
      return written(await listened(request, { shared, exchange: exchanges.getStore()!, serve: serveModern }))
    },
  })
  const server = createServer((request, response) => {
    const caller = callerOf(request.headers.authorization, token)
    const refusal = refusalOf(request, caller)
    if (refusal !== undefined || caller === undefined) return refuse(response, refusal ?? UNKNOWN_CALLER)
    const node = request as Parameters<typeof serve>[0]
    const failed = (error: unknown): void => abandon(response, error, options.say)
    // A client that disconnects is no error of the process, even in the middle of an answer.
    request.on('error', () => undefined)
    response.on('error', () => undefined)
    exchanges.run(exchangeOf(response, caller), () => serve(node, response)).catch(failed)
  })
  server.maxConnections = CONNECTIONS_MAX
  server.keepAliveTimeout = KEEP_ALIVE_MILLISECONDS
  await new Promise<void>((resolve, reject) => {
    server.once('error', error => reject(notListening(error, `${host}:${port}`))).listen(port, host, resolve)
  })
  server.on('error', error => options.say(`a connection was not taken: ${error.message}`))
  clients.prepare()
  const closed = new Promise<void>(resolve => server.once('close', resolve))
  const { port: openPort } = server.address() as AddressInfo
  return {
    address: `http://${host.includes(':') ? `[${host}]` : host}:${openPort}/`,
    closed: closed.then(() => clients.close()),
    close: async () => {
      await Promise.allSettled([modern.close(), sessions.close()])
      server.closeAllConnections()
      server.close()
    },
  }
}

/** The request, in which a call is marked that would not arrive as it was written. */
async function markedRequest(request: Request): Promise<Request> {
  if (request.method !== 'POST') return request
  const text = await request.clone().text()
  const body = marked(text)
  return body === text ? request : new Request(request, { method: 'POST', body })
}

/** The response, in which marked values are as they were written. */
function written(response: Response): Response {
  const { body, status, statusText, headers } = response
  if (body === null) return response
  return new Response(body.pipeThrough(writingLines()), { status, statusText, headers })
}

/** The answer to a request of 2026-07-28; one to listen has what the bridge follows for it. */
async function listened(request: Request, { shared, exchange, serve }: ListenParts): Promise<Response> {
  const message = request.method === 'POST' ? await jsonOf(request) : undefined
  if (!isListening(message)) return serve(request)
  let write: (notification: JsonObject) => void = () => undefined
  const listening = await listenFor(
    message,
    params => bridgeFor(shared, params),
    one => write(one),
  )
  void exchange.over.then(listening.end)
  const body = JSON.stringify(listening.request)
  const response = await serve(new Request(request, { method: 'POST', body }))
  const { status, statusText, headers } = response
  if (response.body === null || headers.get('content-type') !== 'text/event-stream') return response
  const added = addedEvents(listening.acknowledge)
  write = added.write
  return new Response(response.body.pipeThrough(added.stream), { status, statusText, headers })
}

interface ListenParts {
  shared: ServerParts
  exchange: ClientExchange
  serve: (request: Request) => Promise<Response>
}

/** A stream of events into which more can be written, after its first one has passed (`onFirst`). */
function addedEvents(onFirst: () => void): {
  stream: TransformStream<Uint8Array, Uint8Array>
  write: (message: JsonObject) => void
} {
  let into: TransformStreamDefaultController<Uint8Array> | undefined
  let isFirst = true
  const stream = new TransformStream<Uint8Array, Uint8Array>({
    start: controller => void (into = controller),
    transform: (chunk, controller) => {
      controller.enqueue(chunk)
      if (isFirst) onFirst()
      isFirst = false
    },
    flush: () => void (into = undefined),
  })
  const write = (message: JsonObject): void => {
    try {
      into?.enqueue(Buffer.from(`event: message\ndata: ${JSON.stringify(message)}\n\n`))
    } catch {
      // The client left.
      into = undefined
    }
  }
  return { stream, write }
}

/** Says what to do if the address cannot be bound. */
function notListening(error: Error, address: string): Error {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'EADDRINUSE' && code !== 'EACCES') return error
  const why = code === 'EADDRINUSE' ? 'another process listens there' : 'this user may not listen there'
  return new UsageError(
    `--listen: ${address}: ${why} (${code}). Give another port; 0 takes one that is free.`,
    {
      cause: error,
    },
  )
}

interface HttpRefusal {
  status: number
  message: string
  headers?: Record<string, string>
}

const UNKNOWN_CALLER: HttpRefusal = {
  status: 401,
  message:
    'Send the secret of this client, which `usher agent bridge config --listen` hands out, or of this bridge (Authorization: Bearer ...): it is printed on standard error at the start, or is in the file of --listen-token-file.',
  headers: { 'www-authenticate': 'Bearer' },
}

/** A foreign web page may reach the loopback, under its own host name or origin. */
function refusalOf(
  { headers, url }: IncomingMessage,
  caller: BridgeCaller | undefined,
): HttpRefusal | undefined {
  if (isForeign(headers.host) || isForeign(headers.origin?.replace(/^https?:\/\//, '')))
    return { status: 403, message: 'This bridge serves programs of this machine, by its loopback address.' }
  if (caller === undefined) return UNKNOWN_CALLER
  if (url?.startsWith('/') === true) return undefined
  return { status: 400, message: 'The target of this request is no path of this bridge.' }
}

function isForeign(host: string | undefined): boolean {
  if (host === undefined) return false
  const url = URL.parse(`http://${host}`)
  return url === null || !(isLoopbackHost(url.hostname) || url.hostname === 'localhost')
}

/** The request is not read. */
function refuse(response: ServerResponse, { status, message, headers }: HttpRefusal): void {
  response.writeHead(status, { 'content-type': JSON_TYPE, connection: 'close', ...headers })
  response.end(JSON.stringify(errorBody(message)))
}

/** If an answer could not be made, the client sees that its request failed, and others go on. */
function abandon(response: ServerResponse, error: unknown, say: (line: string) => void): void {
  say(`a request was not answered: ${error instanceof Error ? error.message : String(error)}`)
  if (response.headersSent) return void response.destroy()
  refuse(response, { status: 500, message: 'This request could not be answered.' })
}

function errorBody(message: string): object {
  return { jsonrpc: '2.0', error: { code: RPC_CODE.connectionRefused, message }, id: null }
}

function exchangeOf(response: ServerResponse, caller: BridgeCaller): ClientExchange {
  const ending = new AbortController()
  const whenSent: ClientExchange['whenSent'] = []
  response.once('finish', () => {
    if (ending.signal.aborted) return
    for (const act of whenSent.splice(0)) void act().catch(() => undefined)
  })
  const over = new Promise<void>(resolve =>
    response.once('close', () => {
      if (!response.writableFinished) ending.abort()
      resolve()
    }),
  )
  return { caller, whenSent, disconnect: ending.signal, over }
}

/** The connections of clients of 2025-11-25: each says at its beginning who it is and what it can do. */
class LoopbackSessions {
  readonly #shared: ServerParts
  readonly #exchanges: AsyncLocalStorage<ClientExchange>
  /** The session that was used last comes last. */
  readonly #sessions = new Map<string, Session>()

  constructor(shared: ServerParts, exchanges: AsyncLocalStorage<ClientExchange>) {
    this.#shared = shared
    this.#exchanges = exchanges
  }

  async serve(request: Request): Promise<Response> {
    const id = request.headers.get('mcp-session-id')
    const { caller } = this.#exchanges.getStore()!
    if (id === null)
      return (await isInitialize(request))
        ? this.#begin(request, caller)
        : refused(
            400,
            'This request names no client: begin with initialize, and send the Mcp-Session-Id that it is answered with.',
          )
    const session = this.#sessions.get(id)
    if (session === undefined || session.caller.name !== caller.name)
      return refused(404, 'This session is over: begin a new one with initialize.')
    this.#use(id, session)
    return session.transport.handleRequest(request)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.values()].map(({ server }) => server.close()))
  }

  async #begin(request: Request, caller: BridgeCaller): Promise<Response> {
    const room = roomFor(caller, this.#sessions)
    if ('refusal' in room) return refused(503, room.refusal)
    const server = serverFor(this.#shared, { era: 'legacy' })
    const id = crypto.randomUUID()
    let isInitialized = false
    const transport: WebStandardStreamableHTTPServerTransport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      onsessioninitialized: () => void (isInitialized = true),
      onsessionclosed: () => void this.#sessions.delete(id),
    })
    // It counts from here on, without a pause after the room was found: many may begin at the same moment.
    if (room.leaving !== undefined) this.#sessions.delete(room.leaving)
    this.#use(id, { caller, server, transport, busy: 0 })
    try {
      await room.left?.server.close()
      await server.connect(transport)
      return await transport.handleRequest(request)
    } finally {
      if (!isInitialized) this.#sessions.delete(id)
    }
  }

  #use(id: string, session: Session): void {
    this.#sessions.delete(id)
    this.#sessions.set(id, session)
    session.busy++
    void this.#exchanges.getStore()?.over.then(() => session.busy--)
  }
}

/**
 * Where one more session of a caller finds room, and which session leaves for it, if one must. Its own idle
 * ones go first, the one that was used least recently at the head; of a full share no other caller pays.
 */
function roomFor(
  { name }: BridgeCaller,
  sessions: ReadonlyMap<string, Session>,
): { refusal: string } | { leaving?: string; left?: Session } {
  const own = [...sessions].filter(([, { caller }]) => caller.name === name)
  const isShareFull = own.length >= SESSIONS_OF_CALLER_MAX
  if (!isShareFull && sessions.size < SESSIONS_MAX) return {}
  const candidates = isShareFull ? own : [...own, ...sessions]
  const idle = candidates.find(([, { busy }]) => busy === 0)
  if (idle !== undefined) return { leaving: idle[0], left: idle[1] }
  return {
    refusal: isShareFull
      ? `This client has ${SESSIONS_OF_CALLER_MAX} sessions open, which is its share, and all are in use: close one, or end its stream.`
      : 'This bridge serves as many sessions as it can: try later.',
  }
}

function refused(status: number, message: string): Response {
  return Response.json(errorBody(message), { status })
}

async function isInitialize(request: Request): Promise<boolean> {
  if (request.method !== 'POST') return false
  const body = await jsonOf(request)
  return isJsonObject(body) && body['method'] === 'initialize'
}

/** The body; undefined if it is no JSON. */
async function jsonOf(request: Request): Promise<Json | undefined> {
  return (await request
    .clone()
    .json()
    .catch(() => undefined)) as Json | undefined
}
