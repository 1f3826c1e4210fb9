/**
 * contract, "Authorized call", for a resource of MCP 2025-11-25 that has never seen the question by which the
 * bridge asks for its revision: whatever it answers, it is greeted by `initialize` next.
 */
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { PROBE_MILLISECONDS_MAX } from '../../../src/agent/bridge/answers/read-answer.ts'
import { runToolsSurvey } from '../../../src/agent/bridge/survey/main.ts'
import { CALLED, document, startScriptedTools, type Answers } from '../../support/scripted-tools.ts'
import { startedForEach } from '../../support/started.ts'

const tools = startedForEach(startScriptedTools)

const error = (code: number): object => ({ code, message: 'No.' })
const raw =
  (status: number, type: string, body = ''): Answers =>
  (_came, response) =>
    void response.writeHead(status, { 'content-type': type }).end(body)

const ROWS: [string, Answers][] = [
  ['401', (_came, response) => document(response, {}, 401)],
  [
    '401 for a bearer',
    (_came, response) => void response.writeHead(401, { 'www-authenticate': 'Bearer realm="mcp"' }).end(),
  ],
  ['403', ({ id }, response) => document(response, { jsonrpc: '2.0', id, error: error(-32_000) }, 403)],
  ['404 without words', raw(404, 'text/plain')],
  ['500 without words', raw(500, 'text/plain')],
  [
    '500 in JSON-RPC',
    ({ id }, response) => document(response, { jsonrpc: '2.0', id, error: error(-32_603) }, 500),
  ],
  ['502 of a proxy', raw(502, 'text/html', '<html>')],
  [
    'an error to nobody',
    (_came, response) => document(response, { jsonrpc: '2.0', id: null, error: error(-32_600) }),
  ],
  ['a result to nobody', (_came, response) => document(response, { jsonrpc: '2.0', id: null, result: {} })],
  ['a result without an id', (_came, response) => document(response, { jsonrpc: '2.0', result: {} })],
  [
    'an error to nobody in a stream',
    raw(
      200,
      'text/event-stream',
      `data: ${JSON.stringify({ jsonrpc: '2.0', id: null, error: error(-32_600) })}\r\n\r\n`,
    ),
  ],
  ['a stream that ends', raw(200, 'text/event-stream', ': nothing\n\n')],
  [
    'a stream in which nothing is about it',
    raw(200, 'text/event-stream', 'data: {"jsonrpc":"2.0","method":"x"}\n\n'),
  ],
  ['a page', raw(200, 'text/html', '<p>MCP</p>')],
  ['no body', raw(200, 'application/json')],
  ['202', raw(202, 'text/plain')],
  ...[null, [], 'yes', true].map((result): [string, Answers] => [
    `its own id and ${JSON.stringify(result)}`,
    ({ id }, response) => document(response, { jsonrpc: '2.0', id, result }),
  ]),
  ['JSON that is no message', (_came, response) => document(response, 'null')],
]

const SILENT: [string, Answers][] = [
  ['nothing at all', () => undefined],
  ['a stream that says nothing and stays open', (_came, response) => opened(response, 'text/event-stream')],
  ['a document that never ends', (_came, response) => opened(response, 'application/json')],
  ['a page that never ends', (_came, response) => opened(response, 'text/html')],
  ['an error that never ends', (_came, response) => opened(response, 'text/plain', 404)],
  ['a connection that it closes', (_came, response) => void response.destroy()],
  [
    'a document that breaks off',
    (_came, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.write('{"jsonrpc"', () => response.destroy())
    },
  ],
  [
    'a stream that breaks off',
    (_came, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(': nothing\n\n', () => response.destroy())
    },
  ],
]
function opened(response: ServerResponse, type: string, status = 200): void {
  response.writeHead(status, { 'content-type': type }).flushHeaders()
}

describe('A resource that answers the question for its revision by', () => {
  it.each(SILENT)(
    '%s is greeted after a while, listed and called',
    async (_what, answers) => {
      tools.script('server/discover', answers)
      const upstream = tools.upstream({ probeMillisecondsMax: 300 })
      expect((await upstream.listTools()).tools.map(({ name }) => name)).toEqual(['read'])
      expect(await upstream.send({ call: { tool: 'read' } })).toEqual({ kind: 'result', result: CALLED })
      expect(tools.methods.slice(0, 2)).toEqual(['server/discover', 'initialize'])
    },
    10_000,
  )

  it('nothing is waited for ten seconds at most, and once', async () => {
    expect(PROBE_MILLISECONDS_MAX).toBe(10_000)
    tools.script('server/discover', () => undefined)
    const upstream = tools.upstream({ probeMillisecondsMax: 50 })
    for (const _ of [1, 2]) await upstream.send({ call: { tool: 'read' } })
    expect(tools.methods.filter(method => method === 'server/discover')).toHaveLength(1)
  })

  it.each(ROWS)('%s is greeted, listed and called', async (_what, answers) => {
    tools.script('server/discover', answers)
    const upstream = tools.upstream()
    expect((await upstream.listTools()).tools.map(({ name }) => name)).toEqual(['read'])
    expect(await upstream.send({ call: { tool: 'read' } })).toEqual({ kind: 'result', result: CALLED })
    expect(tools.methods.slice(0, 2)).toEqual(['server/discover', 'initialize'])
  })

  it('500 is read by the tools survey too', async () => {
    tools.script('server/discover', raw(500, 'text/plain'))
    const terminal = capturedTerminal()
    await runToolsSurvey(tools.url.href, { owner: 'alice' }, terminal)
    expect(terminal.printed).toContain('(MCP 2025-11-25)')
  })

  it('a challenge of ours is not greeted: the greeting would be challenged too', async () => {
    tools.script(
      'server/discover',
      (_came, response) =>
        void response.writeHead(401, { 'www-authenticate': 'UMA realm="r", ticket="t"' }).end(),
    )
    await expect(tools.upstream().listTools()).rejects.toMatchObject({ code: 'unreachable' })
    expect(tools.methods).toEqual(['server/discover'])
  })
})
