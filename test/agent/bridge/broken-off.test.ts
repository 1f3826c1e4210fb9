/**
 * contract, "Single-use grant" (whether a call was made is never guessed), for a server of MCP 2025-11-25
 * that ends the stream of a call before its answer: the rest is asked for where it says that it goes on,
 * under the grant of the call; if it does not go on, the outcome is unknown at once. So with both clients.
 */
import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bounded } from '../../../src/agent/bridge/answers/bounded-answer.ts'
import { createAgent } from '../../../src/agent/index.ts'
import { POP } from '../../../src/wire/names.ts'
import {
  CALLED,
  startScriptedTools,
  type Answers,
  type Came,
  type ScriptedTools,
} from '../../support/scripted-tools.ts'
import { newKey } from '../../support/wire-samples.ts'

let tools: ScriptedTools
let last: Came | undefined
beforeEach(async () => {
  tools = await startScriptedTools()
  last = undefined
})
afterEach(() => tools.close())

const events = (response: ServerResponse, text: string): void =>
  void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text)
const primed: Answers = (came, response) => {
  last = came
  events(response, 'retry: 100\nid: 1\ndata:\n\n')
}
const answer = (): string => `data: ${JSON.stringify({ jsonrpc: '2.0', id: last!.id, result: CALLED })}\n\n`
const status =
  (code: number): Answers =>
  (_came, response) =>
    void response.writeHead(code).end()

const CLIENTS = [
  ['the bridge', () => tools.upstream().send({ call: { tool: 'read' } })],
  [
    'the agent',
    async () => {
      const agent = createAgent({ key: newKey(), allowLoopback: true, mcpVersion: '2025-11-25' })
      const { result } = await agent.call({ resource: tools.url.href, tool: 'read' })
      return { kind: 'result', result }
    },
  ],
] as const

const asked = (): number => tools.methods.filter(method => method === 'tools/call').length

describe.each(CLIENTS)('A call by %s whose stream ends before its answer', (_who, call) => {
  it.each<[string, Answers, Answers | undefined]>([
    ['the server serves no stream (405)', primed, undefined],
    ['the server does not know the stream (404)', primed, status(404)],
    ['the stream is not for this caller (401)', primed, status(401)],
    ['the server fails at it again and again (500)', primed, status(500)],
    [
      'what it goes on with is no stream',
      primed,
      (_came, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    [
      'the connection breaks after the first event',
      (came, response) => {
        last = came
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('id: 1\nretry: 100\ndata:\n\n', () => response.destroy())
      },
      undefined,
    ],
    [
      'an id stands alone',
      (came, response) => ((last = came), events(response, 'retry: 100\r\nid: 1\r\n\r\n')),
      undefined,
    ],
    [
      'no header field can carry where it goes on',
      (came, response) => ((last = came), events(response, 'retry: 100\nid: \u4e2d\ndata:\n\n')),
      undefined,
    ],
    [
      'nothing says where it goes on',
      (came, response) => ((last = came), events(response, ': bye\n\n')),
      undefined,
    ],
  ])('has an unknown outcome, and is sent once: %s', async (_what, streams, goesOn) => {
    tools.script('tools/call', streams)
    if (goesOn !== undefined)
      tools.script('GET', (came, response) =>
        came.headers['last-event-id'] === undefined ? status(405)(came, response) : goesOn(came, response),
      )
    await expect(call()).rejects.toMatchObject({ code: 'outcome_unknown' })
    expect(asked()).toBe(1)
  })

  it.each<[string, (nth: number, response: ServerResponse) => void]>([
    ['with its answer', (_nth, response) => events(response, `id: 2\n${answer()}`)],
    [
      'after it ended once more',
      (nth, response) => events(response, nth === 1 ? 'id: 2\ndata:\n\n' : `id: 3\n${answer()}`),
    ],
    [
      'after it failed once',
      (nth, response) => (nth === 1 ? void response.writeHead(503).end() : events(response, answer())),
    ],
    ['in lines that end in CR', (_nth, response) => events(response, answer().replaceAll('\n', '\r'))],
  ])('has the answer that the server goes on to give: %s', async (_what, goesOn) => {
    tools.script('tools/call', primed)
    let nth = 0
    const from: unknown[] = []
    tools.script('GET', (came, response) => {
      const id = came.headers['last-event-id']
      if (id === undefined) return status(405)(came, response)
      from.push(id)
      goesOn(++nth, response)
    })
    expect(await call()).toEqual({ kind: 'result', result: CALLED })
    expect(from[0]).toBe('1')
    expect(asked()).toBe(1)
  })
})

describe.each(CLIENTS)('A call by %s is answered', (_who, call) => {
  const json = (response: ServerResponse, text: string): void =>
    void response.writeHead(200, { 'content-type': 'application/json' }).end(text)
  const message = (): string => JSON.stringify({ jsonrpc: '2.0', id: last!.id, result: CALLED })
  it.each<[string, (response: ServerResponse) => void]>([
    ['in an event that no blank line ends', response => events(response, `data: ${message()}\n`)],
    ['in an event whose line does not end', response => events(response, `data: ${message()}`)],
    ['in an event of another name', response => events(response, `event: tools/call\n${answer()}`)],
    ['after a byte order mark', response => json(response, `\ufeff${message()}`)],
    ['in a list of one', response => json(response, `[${message()}]`)],
    ['without its version', response => json(response, message().replace('"jsonrpc":"2.0",', ''))],
  ])('%s: it came, and is told', async (_what, answers) => {
    tools.script('tools/call', (came, response) => ((last = came), answers(response)))
    expect(await call()).toEqual({ kind: 'result', result: CALLED })
    expect(asked()).toBe(1)
  })
})

describe('The rest of an answer', () => {
  it('is asked for by the bridge under the grant of the call, with a proof of its own', async () => {
    tools.script('tools/call', primed)
    const heard: Came['headers'][] = []
    tools.script('GET', (came, response) => {
      if (came.headers['last-event-id'] === undefined) return status(405)(came, response)
      heard.push(came.headers)
      events(response, answer())
    })
    const proof = { accessToken: 'a.b.c', key: newKey() }
    await tools.upstream().send({ call: { tool: 'read' }, proof })
    expect(heard).toMatchObject([
      { authorization: `${POP} a.b.c`, 'signature-input': expect.stringContaining('"@method"') },
    ])
    expect(heard[0]!['signature']).not.toBe(last!.headers['signature'])
  })

  it.each<[string, Answers]>([
    ['202', status(202)],
    ['204', status(204)],
    ['a page', (_came, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>')],
    [
      'an answer to another',
      (_came, response) => events(response, 'data: {"jsonrpc":"2.0","id":"x","result":{}}\n\n'),
    ],
  ])('that is none at all is an unknown outcome to the agent too: %s', async (_what, answers) => {
    tools.script('tools/call', answers)
    await expect(CLIENTS[1][1]()).rejects.toMatchObject({ code: 'outcome_unknown', terminal: true })
  })
})

describe('The pause that a server names before its stream is opened again', () => {
  const url = new URL('http://127.0.0.1/mcp')
  it.each([
    ['3600000', 60_000],
    ['60001', 60_000],
    ['60000', 60_000],
    ['1500', 1500],
    ['0', 100],
  ])('is within what a caller can wait for: %s', async (named, heeded) => {
    const response = new Response(`retry: ${named}\nid: 1\ndata:\n\n`, {
      headers: { 'content-type': 'text/event-stream' },
    })
    const text = await bounded(response, { url, exchange: undefined, request: undefined }).text()
    expect(/^retry: (\d+)$/m.exec(text)?.[1]).toBe(`${heeded}`)
  })
})
