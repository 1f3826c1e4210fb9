/**
 * contract, "Single-use grant" (whether a call was made is never guessed), for a resource that completes
 * without an answer to the call: the caller is told at once, with what came; and for one that never
 * completes.
 */
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AgentError } from '../../../src/agent/agent-error.ts'
import type { UpstreamOptions } from '../../../src/agent/bridge/upstream/connect.ts'
import type { Upstream } from '../../../src/agent/bridge/upstream/upstream.ts'
import { upstreamTo } from '../../support/opened-upstream.ts'

const INITIALIZED = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 's', version: '1' },
}
const TOOLS = { tools: [{ name: 'read', inputSchema: { type: 'object' } }] }
const CALLED = { content: [{ type: 'text', text: 'done' }] }
const call = { tool: 'read', arguments: {} }

/** What the call, and the list, are answered with. */
let answer: (id: number, response: ServerResponse) => void
let list: typeof answer
let calls: number
let http: Server
let upstream: Upstream

const ours = (id: unknown, result: object): string => JSON.stringify({ jsonrpc: '2.0', id, result })
const json =
  (...messages: ((id: number) => string)[]): typeof answer =>
  (id, response) => {
    const [first, ...more] = messages.map(message => message(id))
    const body = more.length === 0 ? first : `[${[first, ...more].join(',')}]`
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  }
const events =
  (end: boolean, ...lines: ((id: number) => string)[]): typeof answer =>
  (id, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const line of lines) response.write(`${line(id)}\n\n`)
    if (end) response.end()
  }
const foreign = (id: number): string => ours(id + 1000, { of: 'another <b>call</b> "' })

beforeEach(async () => {
  list = json(id => ours(id, TOOLS))
  calls = 0
  http = createServer(
    (request, response) =>
      void text(request).then(body => {
        const { id, method } = JSON.parse(body || '{}') as { id?: number; method?: string }
        if (id === undefined) return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
        if (method === 'initialize') return json(id => ours(id, INITIALIZED))(id, response)
        if (method === 'tools/list') return list(id, response)
        if (method !== 'tools/call') return void response.writeHead(400).end()
        calls++
        answer(id, response)
      }),
  )
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  upstream = reached()
})
afterEach(async () => {
  await upstream.close()
  http.closeAllConnections()
  http.close()
})

function reached(options: Partial<UpstreamOptions> = {}): Upstream {
  return upstreamTo(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp/alice`, options)
}

describe('A call that completes without its answer', () => {
  it.each([
    ['in one document', json(foreign)],
    ['in a stream that ends', events(true, id => `data: ${foreign(id)}`)],
    ['in a stream that could be resumed', events(true, id => `id: 1\ndata: ${foreign(id)}`)],
    ['in a stream that stays open', events(false, id => `data: ${foreign(id)}`)],
  ])('has an unknown outcome at once, with what came: an answer to another, %s', async (_what, given) => {
    answer = given
    await expect(upstream.send({ call })).rejects.toMatchObject({
      code: 'outcome_unknown',
      detail: expect.stringMatching(
        /answered another request than the one that was sent: "[^"]*another[^"]*"$/,
      ),
    })
    expect(calls).toBe(1)
  })

  it.each<[string, typeof answer]>([
    ['an error with no id', json(() => '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}')],
    ['a notification alone', json(() => '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')],
    ['202, and nothing', (_id, response) => void response.writeHead(202).end()],
    ['202, and words', (_id, response) => void response.writeHead(202).end('taken')],
    ['204', (_id, response) => void response.writeHead(204).end()],
  ])('has an unknown outcome at once: %s', async (_what, given) => {
    answer = given
    await expect(upstream.send({ call })).rejects.toMatchObject({ code: 'outcome_unknown' })
    expect(calls).toBe(1)
  })

  it.each<[number, string | undefined, (id: number) => string]>([
    [202, 'text/plain', () => 'Order 7 is queued'],
    [200, 'application/xml', () => '<order id="7"/>'],
    [200, 'text/html', () => '<h1>Order 7 is in</h1>'],
    [200, 'image/svg+xml', () => '<svg/>'],
    [200, 'application/json', () => '{"order":7}'],
    [200, 'application/json', () => '"Order 7 is in"'],
    [200, undefined, () => 'Order 7 is in'],
    [200, 'application/json', () => ''],
    [200, 'text/event-stream', () => 'data: Order 7 is in\n\n'],
    [204, undefined, () => ''],
    [400, 'application/json', id => ours(id, CALLED)],
    [401, 'text/plain', () => 'Log in.'],
    [404, 'application/json', id => ours(id, CALLED)],
    [404, 'text/html', () => '<h1>Not found</h1>'],
    [500, 'application/json', id => ours(id, CALLED)],
    [500, 'text/event-stream', () => 'data: Order 7 is in\n\n'],
    [502, 'text/html', () => `<h1>${'x'.repeat(5000)}</h1>`],
    [503, undefined, () => ''],
  ])('is told with what came, and why it is no answer: %d, %s', async (status, type, body) => {
    let came = ''
    answer = (id, response) => {
      came = body(id)
      response.writeHead(status, type === undefined ? {} : { 'content-type': type }).end(came)
    }
    const error: unknown = await upstream.send({ call }).catch((thrown: unknown) => thrown)
    const { code, detail } = error as AgentError
    expect(code).toBe('outcome_unknown')
    const text = came.replace(/^data: |\n\n$/g, '').replaceAll('"', "'")
    expect(detail).toContain(
      text === '' ? 'It says nothing else.' : `"${text.length > 200 ? `${text.slice(0, 200)}…` : text}"`,
    )
    expect(detail).toContain(status === 200 ? 'by what is no answer of MCP' : `with status ${status},`)
    expect(calls).toBe(1)
  })

  it.each<[number, string]>([
    [202, 'application/json'],
    [201, 'text/plain'],
    [200, 'application/xml'],
    [200, 'application/vnd.mcp+json'],
  ])('is no call whose own answer comes under %d as %s', async (status, type) => {
    answer = (id, response) => void response.writeHead(status, { 'content-type': type }).end(ours(id, CALLED))
    expect(await upstream.send({ call })).toEqual({ kind: 'result', result: CALLED })
  })

  it('is no call whose own answer comes in a stream under 202', async () => {
    answer = (id, response) =>
      void response
        .writeHead(202, { 'content-type': 'text/event-stream' })
        .end(`data: ${ours(id, CALLED)}\n\n`)
    expect(await upstream.send({ call })).toEqual({ kind: 'result', result: CALLED })
  })

  it.each([
    ['in one document', json(foreign, id => ours(id, CALLED))],
    [
      'in a stream',
      events(
        true,
        id => `data: ${foreign(id)}`,
        id => `data: ${ours(id, CALLED)}`,
      ),
    ],
  ])('is no call whose own answer comes beside another, %s', async (_what, given) => {
    answer = given
    expect(await upstream.send({ call })).toEqual({ kind: 'result', result: CALLED })
  })
})

describe('A call that tells of its progress without end', () => {
  it('has an unknown outcome when the longest time that a call may take is over, and is ended', async () => {
    await upstream.close()
    upstream = reached({ callMillisecondsMax: 300 })
    const left = Promise.withResolvers<void>()
    answer = (id, response) => {
      let progress = 0
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const tell = (): boolean => {
        const params = { progressToken: id, progress: ++progress }
        return response.write(
          `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params })}\n\n`,
        )
      }
      const telling = setInterval(tell, 20)
      response.once('close', () => {
        clearInterval(telling)
        left.resolve()
      })
    }
    const heard: number[] = []
    const sent = upstream.send({ call, onProgress: ({ progress }) => void heard.push(progress) })
    await expect(sent).rejects.toMatchObject({
      code: 'outcome_unknown',
      detail: expect.stringContaining('longer than any call may take'),
    })
    expect(heard).not.toEqual([])
    await left.promise
  }, 30_000)
})

describe('A list of tools that completes without its answer', () => {
  it('is an outage at once, and is read by the next that asks', async () => {
    list = json(foreign)
    await expect(upstream.listTools()).rejects.toMatchObject({ code: 'unreachable', terminal: false })
    list = json(id => ours(id, TOOLS))
    expect((await upstream.listTools()).tools).toMatchObject(TOOLS.tools)
  })
})
