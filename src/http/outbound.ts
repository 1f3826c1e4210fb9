/**
 * Owns every request that our servers send: https only, no redirects, bounded in time and size. contract, "Registry
 * materialization", "Protection API" and "Operator documents".
 */
import { lookup, type LookupAddress, type LookupOptions } from 'node:dns'
import { isIP } from 'node:net'
import { getCACertificates } from 'node:tls'
import { Agent, buildConnector, type Dispatcher } from 'undici'
import { parseJson, type Json } from '../wire/json.ts'
import { isLoopbackHost } from './listen-address.ts'
import { isPublicAddress } from './public-address.ts'

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
    const url = checkUrl(wanted.url, options)
    const time = limitTime(wanted.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS, wanted.signal)
    const bytesMax = wanted.responseBytesMax ?? options.responseBytesMax ?? RESPONSE_BYTES_MAX
    try {
      const answer = await agent.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: wanted.method ?? 'GET',
        headers: wanted.headers ?? {},
        body: wanted.body ?? null,
        signal: time.signal,
      })
      return {
        status: answer.statusCode,
        headers: answer.headers,
        body: await readBounded(answer.body, bytesMax),
      }
    } catch (cause) {
      throw faultOf(cause, time.isOver(), url.origin)
    } finally {
      time.end()
    }
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

interface TimeLimit {
  signal: AbortSignal
  isOver(): boolean
  /** Frees the timer: on the call path it would otherwise outlive thousands of requests. */
  end(): void
}

function limitTime(ms: number, outer: AbortSignal | undefined): TimeLimit {
  const controller = new AbortController()
  let over = false
  const timer = setTimeout(
    () => {
      over = true
      controller.abort()
    },
    Math.max(1, ms),
  )
  const abort = () => controller.abort()
  if (outer?.aborted === true) abort()
  outer?.addEventListener('abort', abort, { once: true })
  return {
    signal: controller.signal,
    isOver: () => over,
    end: () => {
      clearTimeout(timer)
      outer?.removeEventListener('abort', abort)
    },
  }
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
  return buildConnector({ ...build, lookup: lookupPublic } as buildConnector.BuildOptions)
}

type LookupCallback = (error: Error | null, address?: string | LookupAddress[], family?: number) => void

/** `dns.lookup` that fails if any address of the name is special: one public and one private address is an attack. */
function lookupPublic(hostname: string, options: LookupOptions, callback: LookupCallback): void {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error)
    const first = addresses[0]
    if (first === undefined || !addresses.every(({ address }) => isPublicAddress(address))) {
      return callback(
        new OutboundFault('forbidden_address', `${hostname} is at no public address`, { sent: false }),
      )
    }
    if (options.all === true) return callback(null, addresses)
    callback(null, first.address, first.family)
  })
}

async function readBounded(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > bytesMax)
      throw new OutboundFault('too_large', `the answer is over ${bytesMax} bytes`, { sent: true })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

const NEVER_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

function faultOf(cause: unknown, timedOut: boolean, origin: string): OutboundFault {
  if (cause instanceof OutboundFault) return cause
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : ''
  if (timedOut) return new OutboundFault('timeout', `${origin} did not answer in time`, { sent: true, cause })
  if (cause instanceof Error && cause.name === 'AbortError') {
    return new OutboundFault('aborted', `the request to ${origin} was given up`, { sent: true, cause })
  }
  if (NEVER_CONNECTED.has(code)) {
    return new OutboundFault('unreachable', `${origin} cannot be reached (${code})`, { sent: false, cause })
  }
  return new OutboundFault('broken', `the connection to ${origin} broke (${code || 'no answer'})`, {
    sent: true,
    cause,
  })
}
