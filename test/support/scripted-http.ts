/**
 * A server on the wire whose every answer a test can script: real sockets, real bytes, a record of what came
 * and when. What is not scripted is answered by the `plain` handler that the server was started with.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'

/**
 * A request as it came. `at` is in milliseconds of a clock that only rises; `lines` are field lines by
 * lower-case name.
 */
export interface Received {
  at: number
  method: string
  path: string
  query: string | undefined
  headers: IncomingMessage['headers']
  lines: Map<string, string[]>
  body: Buffer
  /** The body as a form. */
  form: URLSearchParams
}

/**
 * An answer: a body as it is (text or bytes) or as JSON. `write` instead does what it likes with the
 * response.
 */
export interface Reply {
  status?: number
  headers?: Record<string, string | string[]>
  body?: unknown
  write?: (response: ServerResponse, request: IncomingMessage) => void | Promise<void>
}

/**
 * How one request is answered; `undefined` leaves it to the plain answer. `nth` counts the requests to this
 * path from 1.
 */
export type Scripted = (received: Received, nth: number) => Reply | undefined | Promise<Reply | undefined>

export interface ScriptedServer {
  origin: string
  received: Received[]
  /** The requests to a path. */
  to(path: string): Received[]
  /** From now on a path is answered so. */
  script(path: string, scripted: Scripted | Reply): void
  close(): Promise<void>
}

/**
 * Starts listening on a free port of 127.0.0.1; with `tls` (PEM), under https. What `aside` answers is
 * neither recorded nor to be scripted.
 */
export async function startScriptedServer(
  plain: Scripted,
  tls?: { key: string; cert: string },
  aside: (received: Received) => Reply | undefined = () => undefined,
): Promise<ScriptedServer> {
  const received: Received[] = []
  const scripts = new Map<string, Scripted>()
  const to = (path: string): Received[] => received.filter(one => one.path === path)
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    void readRequest(request)
      .then(async one => {
        const passing = aside(one)
        if (passing !== undefined) return send(passing, { request, response })
        received.push(one)
        const nth = to(one.path).length
        const reply = (await scripts.get(one.path)?.(one, nth)) ?? (await plain(one, nth))
        await send(reply ?? { status: 404, body: { error: 'not_found' } }, { request, response })
      })
      .catch((error: unknown) => {
        response.writeHead(500).end(String(error))
      })
  }
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    to,
    script: (path, scripted) =>
      void scripts.set(path, typeof scripted === 'function' ? scripted : () => scripted),
    close: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

async function readRequest(request: IncomingMessage): Promise<Received> {
  const chunks: Buffer[] = []
  const at = performance.now()
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks)
  const [path = '', query] = request.url!.split('?')
  return {
    at,
    method: request.method!,
    path,
    query,
    headers: request.headers,
    lines: new Map(Object.entries(request.headersDistinct).map(([name, lines]) => [name, lines ?? []])),
    body,
    form: new URLSearchParams(body.toString()),
  }
}

async function send(reply: Reply, to: { request: IncomingMessage; response: ServerResponse }): Promise<void> {
  if (reply.write) return reply.write(to.response, to.request)
  const asIs = typeof reply.body === 'string' || reply.body instanceof Uint8Array
  const body = asIs
    ? (reply.body as string | Uint8Array)
    : reply.body === undefined
      ? ''
      : JSON.stringify(reply.body)
  to.response.writeHead(reply.status ?? 200, {
    ...(asIs || reply.body === undefined ? {} : { 'content-type': 'application/json' }),
    ...reply.headers,
  })
  to.response.end(body)
}
