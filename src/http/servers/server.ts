/**
 * Owns what all our HTTP listeners have in common: limits, strict bodies, the form of refusals, `/health` and
 * `/ready`. It knows no party. Contract: "Errors" and "Health".
 */
import {
  fastify,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { maxHeaderSize } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Server as TlsServer } from 'node:tls'
import { Refusal, refusalBody, refusalHeaders, refuse } from '../../wire/refusal.ts'
import { anyOriginMay, headersOf, isPreflight } from './any-origin.ts'
import { readFormBody, readJsonBody } from './bodies.ts'
import type { Certificates } from './certificates.ts'
import { boundAnswer, CONNECTION_BOUNDS, nodeLimits, type ConnectionBounds } from './connection-bounds.ts'
import { serveEndpoints, type OnUndeclared } from './endpoint.ts'
import { HEALTH, READY } from './health.ts'
import { formatListenAddress, type ListenAddress } from './listen-address.ts'
import type { Logger } from '../telemetry/log.ts'
import type { RequestObserver } from '../telemetry/metrics.ts'
import { trackRoutes, type PathRoutes } from './methods.ts'
import type { Span, Tracing } from '../telemetry/tracing.ts'
import { removeStaleSocket } from './unix-socket.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The body's bytes as they came, over which a content-digest is computed; undefined if there was no body.
     */
    rawBody: Buffer | undefined
  }
  interface FastifyContextConfig {
    /** The handler may wait on purpose; only its final answer must be taken in time. */
    holdsAnswer?: boolean
  }
}

/** A fastify instance with our parsing, limits and renderer; a party adds its routes. */
export type HttpServer = FastifyInstance

/** PEM. */
export interface ServerTls {
  cert: Buffer
  key: Buffer
}

export interface HttpServerOptions {
  logger: Logger
  /** The largest request body in bytes; a larger one is refused with 413 `request_too_large`. */
  bodyBytesMax: number
  /** Renewed files apply to new connections. */
  tls?: Certificates<ServerTls> | undefined
  /** False while the process drains: GET /health then answers 503. If left out, it is always healthy. */
  healthy?: () => boolean
  /**
   * Why requests should go to another replica although this process is healthy; undefined if there is no
   * reason. If this is given, there is GET /ready.
   */
  notReady?: () => string | undefined | Promise<string | undefined>
  /**
   * The meaning of the party's own errors to a caller, for example an outage of its store; undefined means
   * 500.
   */
  refusalOf?: (error: unknown) => Refusal | undefined
  /** Called for every answer. */
  onAnswered?: RequestObserver | undefined
  /** Continues the trace of a caller that sends one. */
  tracing?: Tracing | undefined
  /** In tests, each answer is compared with its declaration. */
  onUndeclared?: OnUndeclared | undefined
  /** The limits of every listener if left out. */
  bounds?: ConnectionBounds | undefined
}

const JSON_TYPE = 'application/json'
const FORM_TYPE = 'application/x-www-form-urlencoded'

/**
 * Handlers read bodies through `parseBody`, and no route gives fastify a schema. Because it is told so, its
 * own compilers, a hundred modules, are not loaded at every start.
 */
const NO_ROUTE_SCHEMAS = { buildValidator: refuseSchema, buildSerializer: refuseSchema }

function refuseSchema(): never {
  throw new Error('read bodies through parseBody: a route has no schema of its own')
}

/**
 * A server with `/health`, not yet listening. Handlers read `request.body` through `parseBody`, and throw
 * `Refusal`s.
 */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const bounds = options.bounds ?? CONNECTION_BOUNDS
  const limits = nodeLimits(bounds)
  const server = fastify({
    ...(options.tls === undefined ? { http: limits } : { https: { ...limits, ...options.tls.current() } }),
    logger: false,
    bodyLimit: options.bodyBytesMax,
    requestTimeout: bounds.requestMs,
    keepAliveTimeout: bounds.idleMs,
    routerOptions: { maxParamLength: 4096 },
    schemaController: { compilersFactory: NO_ROUTE_SCHEMAS },
    frameworkErrors: (error, request, reply) => void renderError(options, error, request, reply),
    clientErrorHandler: answerUnparsable,
  }) as unknown as HttpServer
  server.decorateRequest('rawBody', undefined)
  server.decorate('onUndeclared', options.onUndeclared)
  options.tls?.onReload(renewed => (server.server as unknown as TlsServer).setSecureContext(renewed))
  if (options.tracing !== undefined) traceRequests(server, options.tracing)
  readBodiesStrictly(server)
  boundConnections(server, bounds)
  closeUnusedConnections(server, options.tls === undefined ? 'connection' : 'secureConnection')
  const routesAt = trackRoutes(server)
  server.addHook('onRequest', async (request, reply) => {
    refuseAmbiguousRequest(request)
    if (!request.is404) return
    const routes = routesAt(request.raw.url!.split('?', 1)[0]!)
    const read = headersOf(request.raw)
    if (!routes.anyOrigin || !isPreflight(request.method, read)) return refuseUnknownRoute(routes)
    return reply.code(204).headers(anyOriginMay(read)).send()
  })
  server.setErrorHandler((error, request, reply) =>
    renderError(options, error as FastifyError, request, reply),
  )
  server.addHook('onSend', async (_request, reply) => {
    reply.headers(NO_GUESSING)
    // Closing waits for connections, and a connection that is idle after an answer would be kept alive past
    // the end.
    if (options.healthy?.() === false) reply.header('connection', 'close')
  })
  server.addHook('onResponse', async (request, reply) => {
    options.onAnswered?.({
      method: request.method,
      route: routeOf(request),
      status: reply.statusCode,
      seconds: reply.elapsedTime / 1_000,
    })
    logResponse(options.logger, request, reply)
  })
  const { healthy = () => true, notReady = () => undefined } = options
  const served = options.notReady === undefined ? [HEALTH] : [HEALTH, READY]
  serveEndpoints(server, { healthy, notReady }, served)
  return server
}

/** Starts listening, and returns the address as text, with the port that was really given. */
export async function listen(server: HttpServer, address: ListenAddress): Promise<string> {
  if ('path' in address) await removeStaleSocket(address.path)
  await server.listen(address)
  if ('path' in address) return formatListenAddress(address)
  return formatListenAddress({ host: address.host, port: (server.server.address() as AddressInfo).port })
}

/** The template that a path matched; never the path. */
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.url ?? 'none'
}

/** Machines request these again and again. */
const UNTRACED = new Set(['/health', '/ready', '/metrics'])

function traceRequests(server: HttpServer, tracing: Tracing): void {
  const spans = new WeakMap<FastifyRequest, Span>()
  server.addHook('onRequest', (request, _reply, done) => {
    if (UNTRACED.has(routeOf(request))) return done()
    const [parent] = request.raw.headersDistinct['traceparent'] ?? []
    const span = tracing.start(`${request.method} ${routeOf(request)}`, { kind: 'server', parent })
    span.set({ 'http.request.method': request.method, 'http.route': routeOf(request) })
    spans.set(request, span)
    tracing.within(span, done)
  })
  server.addHook('onResponse', async (request, reply) => {
    const span = spans.get(request)
    span?.set({ 'http.response.status_code': reply.statusCode })
    if (reply.statusCode >= 500) span?.fail(`status ${reply.statusCode}`)
    span?.end()
  })
}

/**
 * A route that holds an answer back on purpose is marked so, and an open stream is not sent as a handler's
 * answer.
 */
function boundConnections(server: HttpServer, bounds: ConnectionBounds): void {
  server.server.maxConnections = bounds.connectionsMax
  server.addHook('preHandler', async (request, reply) => {
    if (request.routeOptions.config.holdsAnswer !== true) boundAnswer(reply.raw, bounds)
  })
  server.addHook('onSend', async (_request, reply) => boundAnswer(reply.raw, bounds))
}

/**
 * Closing waits for every connection. Node ends the idle ones, but not those that never carried a request.
 */
function closeUnusedConnections(server: HttpServer, opened: 'connection' | 'secureConnection'): void {
  const unused = new Set<Socket>()
  server.server.on(opened, (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  server.server.on('request', (request: { socket: Socket }) => unused.delete(request.socket))
  server.addHook('preClose', async () => {
    for (const socket of unused) socket.destroy()
  })
}

function readBodiesStrictly(server: HttpServer): void {
  server.removeAllContentTypeParsers()
  const parse = (type: string, read: (raw: Buffer) => unknown): void => {
    server.addContentTypeParser(
      type,
      { parseAs: 'buffer' },
      async (request: FastifyRequest, raw: string | Buffer) => {
        const bytes = Buffer.from(raw)
        request.rawBody = bytes
        return read(bytes)
      },
    )
  }
  parse(JSON_TYPE, readJsonBody)
  parse(FORM_TYPE, readFormBody)
}

/**
 * Leaves every body to its handler, as the bytes that came (`request.rawBody`), whatever its type is said to
 * be: for a listener whose callers send no documents.
 */
export function takeRawBodies(server: HttpServer): void {
  server.removeAllContentTypeParsers()
  // A type that is none at all would be refused before any parser is looked for.
  server.addHook('onRequest', async ({ raw }) => void delete raw.headers['content-type'])
  server.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, raw: string | Buffer) => {
      request.rawBody = Buffer.from(raw)
    },
  )
}

/** Node's parser takes the first of several such lines, and lets absolute-form targets and `#` pass. */
function refuseAmbiguousRequest(request: FastifyRequest): void {
  const lines = request.raw.headersDistinct
  for (const name of ['host', 'authorization', 'content-type', 'content-length'] as const) {
    if ((lines[name]?.length ?? 0) > 1) refuse('invalid_request', `Send the header ${name} once.`)
  }
  const target = request.raw.url ?? ''
  if (!target.startsWith('/') || target.includes('#')) {
    refuse(
      'invalid_request',
      'Send the request target in origin form: a path and an optional query, without a fragment.',
    )
  }
  if ((lines['content-encoding'] ?? []).some(value => value.toLowerCase() !== 'identity')) {
    refuse('unsupported_media_type', 'Send the body without a content-encoding.')
  }
  const bodyless = request.method === 'GET' || request.method === 'HEAD'
  if (
    bodyless &&
    (lines['transfer-encoding'] !== undefined || Number(lines['content-length']?.[0] ?? 0) !== 0)
  ) {
    refuse('invalid_request', `Send ${request.method} without a body.`)
  }
}

function refuseUnknownRoute({ methods: allowed }: PathRoutes): never {
  if (allowed.length === 0) refuse('not_found', 'Nothing is served at this path.')
  throw new Refusal('method_not_allowed', `Use ${allowed.join(' or ')} at this path.`, {
    headers: { allow: allowed.join(', ') },
  })
}

/** Many answers contain text of strangers, so a browser must not treat one as a page against its type. */
const NO_GUESSING = { 'x-content-type-options': 'nosniff' }

/** The HTTP renderer of refusals. Any other error is logged and answered 500 without detail. */
function renderError(
  { logger, refusalOf }: HttpServerOptions,
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const refusal = asRefusal(error) ?? refusalOf?.(error)
  if (refusal === undefined) {
    logger.error({ err: error, method: request.method, route: request.routeOptions.url }, 'a request failed')
    return reply.code(500).header('cache-control', 'no-store').send({ error: 'server_error' })
  }
  const { status } = refusal
  if (status >= 500)
    logger.warn({ err: refusal, route: request.routeOptions.url }, 'a request could not be served')
  return reply
    .code(status)
    .headers({ ...refusalHeaders(refusal), 'cache-control': 'no-store', ...NO_GUESSING })
    .send(refusalBody(refusal))
}

function asRefusal(error: FastifyError): Refusal | undefined {
  if (error instanceof Refusal) return error
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new Refusal('request_too_large', 'Send a smaller body.', { cause: error })
  }
  if (error.code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    return new Refusal('unsupported_media_type', `Send the body as ${JSON_TYPE} or ${FORM_TYPE}.`, {
      cause: error,
    })
  }
  const status = error.statusCode ?? 500
  if (!error.code?.startsWith('FST_ERR_') || status < 400 || status > 499) return undefined
  return new Refusal(
    'invalid_request',
    'Send a well-formed HTTP request: its target or its body could not be read.',
    {
      cause: error,
    },
  )
}

/** How input that is no request is answered; `headMax` is how many bytes a head may have at this listener. */
type Unparsable = (headMax: number) => { status: string; error: string; says: string }

const UNPARSABLE: Unparsable = () => ({
  status: '400 Bad Request',
  error: 'invalid_request',
  says: 'Send a well-formed HTTP/1.1 request.',
})
const UNPARSABLE_BY_CODE: Record<string, Unparsable> = {
  HPE_HEADER_OVERFLOW: headMax => ({
    status: '431 Request Header Fields Too Large',
    error: 'request_too_large',
    says: `Send fewer or shorter headers: with the request line, less than ${headMax} bytes are taken here.`,
  }),
  ERR_HTTP_REQUEST_TIMEOUT: () => ({
    status: '408 Request Timeout',
    error: 'invalid_request',
    says: 'Send the whole request sooner.',
  }),
}
/** The time for the answer to be taken. A caller that closes its side later, or never, is cut. */
const LINGER_MS = 1_000

/**
 * Input that Node's parser refuses never becomes a request, so the answer is written by hand, and the
 * connection ends with it.
 */
export function answerUnparsable(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  // Node gives a socket the server that accepted it.
  const { server } = socket as Socket & { server?: { maxHeaderSize?: number } }
  const answer = UNPARSABLE_BY_CODE[error.code ?? ''] ?? UNPARSABLE
  const { status, error: code, says } = answer(server?.maxHeaderSize ?? maxHeaderSize)
  const body = JSON.stringify({ error: code, error_description: says })
  setTimeout(() => socket.destroy(), LINGER_MS).unref()
  socket.end(
    `HTTP/1.1 ${status}\r\n` +
      `content-type: application/json\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\n` +
      `content-length: ${body.length}\r\n` +
      `connection: close\r\n\r\n${body}`,
  )
}

function logResponse(logger: Logger, request: FastifyRequest, reply: FastifyReply): void {
  logger.debug(
    {
      method: request.method,
      route: request.routeOptions.url ?? null,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
    },
    'answered',
  )
}
