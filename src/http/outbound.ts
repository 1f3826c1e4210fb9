/**
 * Owns every request that our servers send: https only, no redirects, bounded in time and size. Contract:
 * "Registry materialization", "Protection API" and "Operator documents".
 */
import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { getCACertificates } from 'node:tls'
import { Agent, buildConnector, type Dispatcher } from 'undici'
import { parseJson, type Json } from '../wire/json.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { isLoopbackHost } from '../wire/loopback.ts'
import { isPublicAddress } from './public-address.ts'
import { publicLookup } from './public-lookup.ts'

export interface OutboundOptions {
  /**
   * Admits http, and loopback for public-only clients, towards literal loopback hosts. For development alone.
   */
  devLoopback: boolean
  /** For URLs that strangers name: only public addresses, checked on the address connected to. */
  publicOnly?: boolean
  /** Time for a whole request, connecting included; 5,000 when left out. */
  timeoutMs?: number
  /** Largest answer in bytes; 65,536 when left out. */
  responseBytesMax?: number
  /** Most connections per origin; 16 when left out. */
  connections?: number
  /** Asked by public-only clients in place of the system's, as `host:port`. */
  nameServers?: readonly string[]
  /**
   * Certificates trusted beside the usual ones, PEM; asked at every connect where it is a function, as they
   * may be renewed.
   */
  ca?: string | Buffer | (() => Buffer)
  /** Time to connect in; that of a whole request when left out. */
  connectTimeoutMs?: number
  /** How long a connection that nothing uses is kept; 30,000 when left out. */
  idleMs?: number
  /**
   * How long a connection is used at most, so that load moves to replicas that are new behind a name; for
   * ever when left out.
   */
  connectionAgeMs?: number
  /** How a name becomes addresses; the system's look-up, in random order, when left out. */
  lookup?: LookupFunction
}

export interface OutboundRequest {
  method?: 'GET' | 'POST'
  url: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Whether sending it twice can do no harm, as it is with any GET: `withReplicas` may then do so. */
  repeatable?: boolean
  /** Narrower than the client's own. */
  timeoutMs?: number
  responseBytesMax?: number
  signal?: AbortSignal
}

export interface OutboundAnswer {
  status: number
  headers: Dispatcher.ResponseData['headers']
  body: Buffer
}

export type OutboundReason =
  'forbidden_url' | 'forbidden_address' | 'unreachable' | 'timeout' | 'aborted' | 'too_large' | 'broken'

/**
 * Why no answer could be had. `sent` is false only where certainly no byte of the request left this process.
 */
export class OutboundFault extends Error {
  readonly reason: OutboundReason
  readonly sent: boolean

  constructor(reason: OutboundReason, message: string, options: { sent: boolean; cause?: unknown }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'OutboundFault'
    this.reason = reason
    this.sent = options.sent
  }
}

const WORDS: Record<OutboundReason, string> = {
  forbidden_url: 'its address may not be asked',
  forbidden_address: 'it is at no address that may be asked',
  unreachable: 'it cannot be reached',
  timeout: 'it did not answer in time',
  aborted: 'the request was given up',
  too_large: 'its answer is too large',
  broken: 'it gave no usable answer',
}

/**
 * What strangers may be told of a fault: no address and no word of the operating system. The message is for
 * the log.
 */
export function plainWords({ reason }: OutboundFault): string {
  return WORDS[reason]
}

/** A pool of connections under one set of bounds. */
export interface Outbound {
  /**
   * Sends once, never again by itself. Any status is an answer (3xx too); throws `OutboundFault` where there
   * is none.
   */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  /** GETs a JSON document: 200 and strict JSON (see `parseJson`), else `OutboundFault`. */
  getJson(url: string, options?: Omit<OutboundRequest, 'url' | 'method' | 'body'>): Promise<Json>
  /** Connections, and requests on them or waiting for one, over all origins. */
  stats(): OutboundStats
  /** Frees every socket; requests under way end as broken. */
  close(): Promise<void>
}

export interface OutboundStats {
  connections: number
  inFlight: number
  waiting: number
}

const TIMEOUT_MS = 5_000
const RESPONSE_BYTES_MAX = 65_536
const IDLE_MS = 30_000

/** Opens a client; nothing is connected until first use. */
export function createOutbound(options: OutboundOptions): Outbound {
  const agent = new Agent({
    connections: options.connections ?? 16,
    pipelining: 1,
    keepAliveTimeout: options.idleMs ?? IDLE_MS,
    // Whatever longer time a server offers.
    keepAliveMaxTimeout: options.idleMs ?? 2 * IDLE_MS,
    ...(options.connectionAgeMs === undefined ? {} : { clientTtl: options.connectionAgeMs }),
    bodyTimeout: 0,
    headersTimeout: 0,
    connect: connector(options),
  })
  const targetOf = keepingTargets(options)
  const request = async (wanted: OutboundRequest): Promise<OutboundAnswer> => {
    return exchange(
      agent,
      {
        ...targetOf(wanted.url),
        method: wanted.method ?? 'GET',
        headers: wanted.headers ?? {},
        body: wanted.body ?? null,
      },
      {
        ms: wanted.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS,
        bytesMax: wanted.responseBytesMax ?? options.responseBytesMax ?? RESPONSE_BYTES_MAX,
        signal: wanted.signal,
      },
    )
  }
  return {
    request,
    getJson: jsonReader(request),
    stats: () => statsOf(agent),
    close: async () => {
      if (!agent.destroyed) await agent.destroy()
    },
  }
}

/** `getJson` over a way of sending. */
export function jsonReader(request: Outbound['request']): Outbound['getJson'] {
  return async (url, rest = {}) => {
    const { status, body } = await request({ headers: { accept: 'application/json' }, ...rest, url })
    if (status !== 200)
      throw new OutboundFault('broken', `${url} answered ${status}, not 200`, { sent: true })
    try {
      return parseJson(body)
    } catch (cause) {
      throw new OutboundFault('broken', `${url} answered no well-formed JSON`, { sent: true, cause })
    }
  }
}

function statsOf(agent: Agent): OutboundStats {
  const sum = { connections: 0, inFlight: 0, waiting: 0 }
  for (const of of Object.values(agent.stats)) {
    sum.connections += Number(of.connected)
    sum.inFlight += of.running
    sum.waiting += of.pending
  }
  return sum
}

interface Bounds {
  /** For the whole exchange, connecting included. */
  ms: number
  bytesMax: number
  signal: AbortSignal | undefined
}

/**
 * One request and its answer, read as it comes in: a stream and an abort signal for each would cost the call
 * path more than the sending does. Rejects with `OutboundFault`, at once where a bound is reached; the
 * connection is then cut.
 */
function exchange(
  agent: Agent,
  request: Dispatcher.DispatchOptions & { origin: string },
  { ms, bytesMax, signal }: Bounds,
): Promise<OutboundAnswer> {
  return new Promise((resolve, reject) => {
    const answer: { status: number; headers: OutboundAnswer['headers'] } = { status: 0, headers: {} }
    const chunks: Buffer[] = []
    let length = 0
    let connection: Dispatcher.DispatchController | undefined
    let fault: OutboundFault | undefined
    const end = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
    const giveUp = (why: OutboundFault): void => {
      fault ??= why
      end()
      reject(fault)
      connection?.abort(fault)
    }
    // Undici begins a request right before it writes the first byte; one that is given up before never
    // begins.
    const sent = (): boolean => connection !== undefined
    const abort = (): void =>
      giveUp(new OutboundFault('aborted', `the request to ${request.origin} was given up`, { sent: sent() }))
    const timer = setTimeout(
      () =>
        giveUp(new OutboundFault('timeout', `${request.origin} did not answer in time`, { sent: sent() })),
      Math.max(1, ms),
    )
    if (signal?.aborted === true) return abort()
    signal?.addEventListener('abort', abort, { once: true })
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: controller => {
        connection = controller
        // Given up while it waited for a connection.
        if (fault !== undefined) controller.abort(fault)
      },
      onResponseStart: (_controller, status, headers) => {
        answer.status = status
        answer.headers = headers
      },
      onResponseData: (_controller, chunk) => {
        length += chunk.length
        if (length <= bytesMax) chunks.push(chunk)
        else giveUp(new OutboundFault('too_large', `the answer is over ${bytesMax} bytes`, { sent: true }))
      },
      onResponseEnd: () => {
        end()
        resolve({ ...answer, body: chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks) })
      },
      onResponseError: (_controller, error) => giveUp(fault ?? faultOf(error, request.origin, sent())),
    }
    try {
      agent.dispatch(request, handler)
    } catch (error) {
      giveUp(faultOf(error as Error, request.origin, sent()))
    }
  })
}

interface Target {
  origin: string
  path: string
}

const TARGETS_MAX = 256

/** `checkUrl`, made once for the few URLs that are asked again and again. */
function keepingTargets(options: OutboundOptions): (url: string) => Target {
  const kept = new BoundedMap<string, Target>(TARGETS_MAX)
  return text => {
    const known = kept.get(text)
    if (known !== undefined) return known
    const { origin, pathname, search } = checkUrl(text, options)
    const target = { origin, path: pathname + search }
    kept.set(text, target)
    return target
  }
}

/**
 * The URL, if we may send to it: https, without userinfo or fragment; http to a literal loopback host in
 * development.
 */
function checkUrl(text: string, options: OutboundOptions): URL {
  const url = URL.parse(text)
  const refuseUrl = (why: string): never => {
    throw new OutboundFault('forbidden_url', `${JSON.stringify(text.slice(0, 200))} ${why}`, { sent: false })
  }
  if (url === null) return refuseUrl('is no URL')
  const loopback = options.devLoopback && isLoopbackHost(url.hostname)
  if (url.protocol !== 'https:' && !(loopback && url.protocol === 'http:')) return refuseUrl('is not https')
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    return refuseUrl('has userinfo or a fragment')
  const literal = url.hostname.replace(/^\[|\]$/g, '')
  if (options.publicOnly && isIP(literal) !== 0 && !loopback && !isPublicAddress(literal)) {
    throw new OutboundFault('forbidden_address', `${url.origin} is at no public address`, { sent: false })
  }
  return url
}

function connector(options: OutboundOptions): buildConnector.connector {
  const { ca } = options
  if (typeof ca !== 'function') return connectorTrusting(ca, options)
  let trusted = ca()
  let connect = connectorTrusting(trusted, options)
  return (wanted, callback) => {
    const now = ca()
    if (now !== trusted) connect = connectorTrusting((trusted = now), options)
    connect(wanted, callback)
  }
}

function connectorTrusting(
  ca: string | Buffer | undefined,
  options: OutboundOptions,
): buildConnector.connector {
  const tls = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
  const timeout = options.connectTimeoutMs ?? options.timeoutMs ?? TIMEOUT_MS
  const build = { ...tls, timeout, keepAlive: true }
  if (options.publicOnly !== true) {
    const lookup = options.lookup ?? shuffledLookup
    return buildConnector({ ...build, lookup })
  }
  // A literal address needs no look-up and was judged with the URL; a name is judged here, on what will be
  // connected to.
  const forbidden = (hostname: string): Error =>
    new OutboundFault('forbidden_address', `${hostname} is at no public address`, { sent: false })
  const lookup = publicLookup(forbidden, options.nameServers)
  return buildConnector({ ...build, lookup } as buildConnector.BuildOptions)
}

/**
 * All addresses of a name, those of one family in random order: the system's resolver sorts them the same way
 * for everybody, and whoever connects takes the first one that accepts.
 */
const shuffledLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, options, (error, found, family) => {
    if (error !== null || !Array.isArray(found)) return callback(error, found, family)
    const preferred = found[0]?.family
    for (let last = found.length - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * (last + 1))
      ;[found[last], found[other]] = [found[other]!, found[last]!]
    }
    callback(
      null,
      found.sort((one, two) => Number(one.family !== preferred) - Number(two.family !== preferred)),
    )
  })
}

const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'ENODATA',
  'ESERVFAIL',
  'EREFUSED',
  'ETIMEOUT',
  'EBADNAME',
  'EBADRESP',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

function faultOf(cause: Error, origin: string, sent: boolean): OutboundFault {
  if (cause instanceof OutboundFault) return cause
  const code = 'code' in cause ? String(cause.code) : ''
  // A connection that stood can end with some of these too, when the network behind it fails.
  if (!sent && NEVER_CONNECTED.has(code)) {
    return new OutboundFault('unreachable', `${origin} cannot be reached (${code})`, { sent: false, cause })
  }
  return new OutboundFault('broken', `the connection to ${origin} broke (${code || 'no answer'})`, {
    sent,
    cause,
  })
}
