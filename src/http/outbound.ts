/**
 * Owns every request that our servers send: https only, no redirects, bounded in time and size. contract, "Registry
 * materialization", "Protection API" and "Operator documents".
 */
import { isIP } from 'node:net'
import { getCACertificates } from 'node:tls'
import { Agent, buildConnector, type Dispatcher } from 'undici'
import { parseJson, type Json } from '../wire/json.ts'
import { isLoopbackHost } from './listen-address.ts'
import { isPublicAddress } from './public-address.ts'
import { publicLookup } from './public-lookup.ts'

export interface OutboundOptions {
  /** Admits http, and loopback for public-only clients, towards literal loopback hosts. For development alone. */
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
  /** Certificates trusted beside the usual ones, PEM. */
  ca?: string | Buffer
}

export interface OutboundRequest {
  method?: 'GET' | 'POST'
  url: string
  headers?: Record<string, string>
  body?: string | Uint8Array
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

/** Why no answer could be had. `sent` is false only where certainly no byte of the request left this process. */
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

/** A pool of connections under one set of bounds. */
export interface Outbound {
  /** Sends once, never again by itself. Any status is an answer (3xx too); throws `OutboundFault` where there is none. */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  /** GETs a JSON document: 200 and strict JSON (see `parseJson`), else `OutboundFault`. */
  getJson(url: string, options?: Omit<OutboundRequest, 'url' | 'method' | 'body'>): Promise<Json>
  /** Frees every socket; requests under way end as broken. */
  close(): Promise<void>
}

const TIMEOUT_MS = 5_000
const RESPONSE_BYTES_MAX = 65_536

/** Opens a client; nothing is connected until first use. */
export function createOutbound(options: OutboundOptions): Outbound {
  const agent = new Agent({
    connections: options.connections ?? 16,
    pipelining: 1,
    keepAliveTimeout: 30_000,
    keepAliveMaxTimeout: 60_000,
    bodyTimeout: 0,
    headersTimeout: 0,
    connect: connector(options),
  })
  const request = async (wanted: OutboundRequest): Promise<OutboundAnswer> => {
    const { origin, pathname, search } = checkUrl(wanted.url, options)
    return exchange(
      agent,
      {
        origin,
        path: pathname + search,
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
    getJson: async (url, rest = {}) => {
      const { status, body } = await request({ headers: { accept: 'application/json' }, ...rest, url })
      if (status !== 200)
        throw new OutboundFault('broken', `${url} answered ${status}, not 200`, { sent: true })
      try {
        return parseJson(body)
      } catch (cause) {
        throw new OutboundFault('broken', `${url} answered no well-formed JSON`, { sent: true, cause })
      }
    },
    close: async () => {
      if (!agent.destroyed) await agent.destroy()
    },
  }
}

interface Bounds {
  /** For the whole exchange, connecting included. */
  ms: number
  bytesMax: number
  signal: AbortSignal | undefined
}

/**
 * One request and its answer, read as it comes in: a stream and an abort signal for each would cost the call path more than the
 * sending does. Rejects with `OutboundFault`, at once where a bound is reached; the connection is then cut.
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
    const abort = (): void =>
      giveUp(new OutboundFault('aborted', `the request to ${request.origin} was given up`, { sent: true }))
    const timer = setTimeout(
      () => giveUp(new OutboundFault('timeout', `${request.origin} did not answer in time`, { sent: true })),
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
      onResponseError: (_controller, error) => giveUp(fault ?? faultOf(error, request.origin)),
    }
    try {
      agent.dispatch(request, handler)
    } catch (error) {
      giveUp(faultOf(error as Error, request.origin))
    }
  })
}

/** The URL, if we may send to it: https, without userinfo or fragment; http to a literal loopback host in development. */
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
  const tls = options.ca === undefined ? {} : { ca: [...getCACertificates('default'), options.ca] }
  const build = { ...tls, timeout: options.timeoutMs ?? TIMEOUT_MS, keepAlive: true }
  if (options.publicOnly !== true) return buildConnector(build)
  // A literal address needs no look-up and was judged with the URL; a name is judged here, on what will be connected to.
  const forbidden = (hostname: string): Error =>
    new OutboundFault('forbidden_address', `${hostname} is at no public address`, { sent: false })
  const lookup = publicLookup(forbidden, options.nameServers)
  return buildConnector({ ...build, lookup } as buildConnector.BuildOptions)
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

function faultOf(cause: Error, origin: string): OutboundFault {
  if (cause instanceof OutboundFault) return cause
  const code = 'code' in cause ? String(cause.code) : ''
  if (NEVER_CONNECTED.has(code)) {
    return new OutboundFault('unreachable', `${origin} cannot be reached (${code})`, { sent: false, cause })
  }
  return new OutboundFault('broken', `the connection to ${origin} broke (${code || 'no answer'})`, {
    sent: true,
    cause,
  })
}
