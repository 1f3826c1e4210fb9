/**
 * A server of MCP 2025-11-25 whose every answer a test can script, byte by byte, and the bridge's upstream to
 * it. What is not scripted is answered as such a server does that has one tool, `read`.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { UpstreamOptions } from '../../src/agent/bridge/upstream/connect.ts'
import type { Upstream } from '../../src/agent/bridge/upstream/upstream.ts'
import { upstreamTo } from './opened-upstream.ts'

/** A message as it came, and how often one of its method did. */
export interface Came {
  id: number | string
  method: string
  params?: Record<string, unknown>
  headers: Record<string, string | string[] | undefined>
  path: string
  nth: number
}
/** Answers one request; `GET` is a method here too. */
export type Answers = (came: Came, response: ServerResponse) => void

export interface ScriptedTools {
  readonly url: URL
  /** What came, in order: methods, and `GET`. */
  readonly methods: string[]
  script: (method: string, answers: Answers) => void
  /** Called with each body as it came. */
  onText: (hear: (text: string) => unknown) => void
  /** Listens again, at the same address. */
  listen: () => Promise<void>
  /** Nothing answers at its address any more. */
  stop: () => Promise<void>
  upstream: (options?: Partial<UpstreamOptions>) => Upstream
  close: () => Promise<void>
}

export const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: 's', version: '1' },
}
export const READ = { name: 'read', inputSchema: { type: 'object' } }
export const CALLED = { content: [{ type: 'text', text: 'done' }] }

/** An answer with this result. */
export const resultOf =
  (result: unknown): Answers =>
  ({ id }, response) =>
    document(response, { jsonrpc: '2.0', id, result })

/** An answer with this body, as JSON unless it is text. */
export function document(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

const nobody: Answers = (_came, response) => void response.writeHead(405).end()
const PLAIN: Record<string, Answers> = {
  initialize: resultOf(INITIALIZED),
  'tools/list': resultOf({ tools: [READ] }),
  'tools/call': resultOf(CALLED),
  'notifications/initialized': (_came, response) => void response.writeHead(202).end(),
  'notifications/cancelled': (_came, response) => void response.writeHead(202).end(),
  ping: resultOf({}),
}

/** Starts it on a free port of 127.0.0.1. */
export async function startScriptedTools(): Promise<ScriptedTools> {
  const scripts = new Map<string, Answers>(Object.entries(PLAIN))
  const methods: string[] = []
  const upstreams: Upstream[] = []
  const hearing: ((text: string) => unknown)[] = []
  let http: Server | undefined
  let port = 0
  const listen = async (): Promise<void> => {
    http = createServer(
      (request, response) =>
        void text(request).then(body => {
          for (const hear of hearing) hear(body)
          const message = JSON.parse(body || '{}') as Partial<Came>
          const method = message.method ?? request.method!
          methods.push(method)
          const nth = methods.filter(one => one === method).length
          const came = { id: '', ...message, method, nth, headers: request.headers, path: request.url! }
          ;(scripts.get(method) ?? (request.method === 'GET' ? nobody : refusesMethod))(came, response)
        }),
    )
    await new Promise<void>(resolve => http!.listen(port, '127.0.0.1', resolve))
    port = (http.address() as AddressInfo).port
  }
  const stop = async (): Promise<void> => {
    http?.closeAllConnections()
    await new Promise(resolve => (http === undefined ? resolve(undefined) : http.close(resolve)))
    http = undefined
  }
  await listen()
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  return {
    url,
    methods,
    script: (method, answers) => void scripts.set(method, answers),
    onText: hear => void hearing.push(hear),
    listen,
    stop,
    upstream: options => {
      const upstream = upstreamTo(url.href, options)
      upstreams.push(upstream)
      return upstream
    },
    close: async () => {
      for (const upstream of upstreams) await upstream.close()
      await stop()
    },
  }
}

const refusesMethod: Answers = ({ id }, response) =>
  document(response, { jsonrpc: '2.0', id, error: { code: -32_601, message: 'No such method.' } })
