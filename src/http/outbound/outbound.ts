/**
 * Owns every request that our servers send: https only, no redirects, bounded in time and size. Contract:
 * "Registry materialization", "Protection API" and "Operator documents".
 */
import { Agent, type Dispatcher } from 'undici'
import { decodedBody } from './content-coding.ts'
import { parseJson, type Json } from '../../wire/json.ts'
import { faultOf, OutboundFault } from './outbound-fault.ts'
import { connector, keepingTargets, TIMEOUT_MS, type OutboundOptions } from './outbound-reach.ts'

import { DOCUMENT_BYTES_MAX } from '../../wire/document-bounds.ts'
export { OutboundFault, plainWords, type OutboundReason } from './outbound-fault.ts'

export interface OutboundRequest {
  method?: 'GET' | 'POST'
  url: string
  headers?: Record<string, string>
  body?: string | Uint8Array
  /** Whether sending it twice does no harm, as with any GET. `withReplicas` may then do so. */
  repeatable?: boolean
  /** A tighter limit than the client's own. */
  timeoutMs?: number
  responseBytesMax?: number
  signal?: AbortSignal
}

export interface OutboundAnswer {
  status: number
  headers: Dispatcher.ResponseData['headers']
  body: Buffer
}

/** A pool of connections under one set of bounds. */
export interface Outbound {
  /**
   * Sends once, and never retries by itself. Any status is an answer (3xx too); throws `OutboundFault` if
   * there is none.
   */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  /** GETs a JSON document: 200 and strict JSON (see `parseJson`), else `OutboundFault`. */
  getJson(url: string, options?: Omit<OutboundRequest, 'url' | 'method' | 'body'>): Promise<Json>
  /** The number of connections, and of requests on them or waiting for one, for all origins. */
  stats(): OutboundStats
  /** Frees every socket; running requests fail. */
  close(): Promise<void>
}

export interface OutboundStats {
  connections: number
  inFlight: number
  waiting: number
}

const IDLE_MS = 30_000

/** Opens a client; nothing is connected until first use. */
export function createOutbound(options: OutboundOptions): Outbound {
  const agent = new Agent({
    connections: options.connections ?? 16,
    pipelining: 1,
    keepAliveTimeout: options.idleMs ?? IDLE_MS,
    // The limit, even if a server offers a longer time.
    keepAliveMaxTimeout: options.idleMs ?? 2 * IDLE_MS,
    ...(options.connectionAgeMs === undefined ? {} : { clientTtl: options.connectionAgeMs }),
    bodyTimeout: 0,
    headersTimeout: 0,
    connect: connector(options),
  })
  const targetOf = keepingTargets(options)
  const request = async (message: OutboundRequest): Promise<OutboundAnswer> => {
    return exchange(
      agent,
      {
        ...targetOf(message.url),
        method: message.method ?? 'GET',
        headers: { 'accept-encoding': 'identity', ...message.headers },
        body: message.body ?? null,
      },
      {
        ms: message.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS,
        bytesMax: message.responseBytesMax ?? options.responseBytesMax ?? DOCUMENT_BYTES_MAX,
        signal: message.signal,
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

/** A client that is closed with the process: it adds itself to `closers`. */
export function openOutbound(options: OutboundOptions, closers: (() => Promise<void>)[]): Outbound {
  const outbound = createOutbound(options)
  closers.push(() => outbound.close())
  return outbound
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

interface ExchangeBounds {
  /** The time limit of the whole exchange, including connecting. */
  ms: number
  bytesMax: number
  signal: AbortSignal | undefined
}

/**
 * One request and its answer, which is read as it comes in. A stream and an abort signal for each request
 * would cost the call path more than the sending itself. Rejects with `OutboundFault`, immediately if a limit
 * is reached; the connection is then cut.
 */
function exchange(
  agent: Agent,
  request: Dispatcher.DispatchOptions & { origin: string },
  { ms, bytesMax, signal }: ExchangeBounds,
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
    // Undici begins a request right before it writes the first byte; a request that is given up earlier never
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
        // The request was given up while it waited for a connection.
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
        const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
        const plain = decodedBody(body, answer.headers['content-encoding'], bytesMax)
        if (plain instanceof OutboundFault) reject(plain)
        else resolve({ ...answer, body: plain })
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
