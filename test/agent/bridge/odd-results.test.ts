/**
 * contract, "Errors" and "Single-use grant": an answer that came is never told as none. What a client can
 * take is handed on as it is; what it cannot take is told in words, with what came, escaped.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { diagnose } from '../../../src/agent/bridge/setup/doctor.ts'
import { readClientConfig } from '../../../src/config.ts'
import { bridgeFolder, startBridge, type BridgedClient } from '../../support/bridge.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import {
  document,
  READ,
  resultOf,
  startScriptedTools,
  type Answers,
  type ScriptedTools,
} from '../../support/scripted-tools.ts'

let tools: ScriptedTools
let folder: Awaited<ReturnType<typeof bridgeFolder>>
const clients: BridgedClient[] = []
const KINDS = ['1.x 2025-11-25', '2.x 2026-07-28'] as const

beforeAll(async () => {
  tools = await startScriptedTools()
  tools.script(
    'tools/list',
    resultOf({
      tools: [READ, { name: 'structured', inputSchema: {}, outputSchema: { type: 'array' } }, { name: 5 }],
    }),
  )
  folder = await bridgeFolder()
  for (const kind of KINDS)
    clients.push(await startBridge({ kind, name: kind, resources: [tools.url.href], state: folder.folder }))
})
afterAll(async () => {
  for (const client of clients) await client.close()
  await tools?.close()
  await folder?.remove()
})

const called = async (at: number, answers: Answers, tool = 'read') => {
  tools.script('tools/call', answers)
  const before = tools.methods.filter(method => method === 'tools/call').length
  const answer = await clients[at]!.call(tool)
  expect(tools.methods.filter(method => method === 'tools/call').length - before).toBe(1)
  return answer
}
const text = (words: string): object => ({ type: 'text', text: words })

describe.each(KINDS.map((kind, at) => ({ kind, at })))('The SDK client $kind', ({ at }) => {
  it.each<[string, unknown, string[]]>([
    [
      'a part of a type that nobody knows',
      { content: [text('first'), { type: 'video', uri: 'v:1' }, text('last')] },
      ['first', 'video', 'v:1', 'last'],
    ],
    ['a part without a type', { content: [{ words: 'hello' }] }, ['hello']],
    ['a part that is text', { content: ['hello', text('last')] }, ['hello', 'last']],
    [
      'an image that is no Base64',
      { content: [{ type: 'image', data: '<p>', mimeType: 'image/png' }] },
      ['image/png', '&lt;p&gt;'],
    ],
    ['text that is a number', { content: [{ type: 'text', text: 12 }] }, ['12']],
    ['content that is one part', { content: text('alone') }, ['alone']],
    ['a result of an early revision', { toolResult: { sum: 12 } }, ['toolResult', '12']],
    ['a result that is text', 'Bought 12', ['Bought 12']],
    ['a result that is a list', [text('alone')], ['alone']],
    ['a word for isError', { content: [text('first')], isError: 'no' }, ['first', 'isError']],
    [
      'null where something is optional',
      {
        content: [{ ...text('first'), annotations: null, _meta: null }],
        structuredContent: null,
        _meta: null,
      },
      ['first'],
    ],
    [
      'annotations that nobody knows',
      { content: [{ ...text('first'), annotations: { audience: ['model'] } }] },
      ['first'],
    ],
  ])('is handed what came: %s', async (_what, result, words) => {
    const answer = await called(at, resultOf(result))
    for (const word of words) expect(answer.text).toContain(word)
    expect(answer.reason).toBeUndefined()
  })

  it('is handed parts that it knows as they are, beside one that it does not', async () => {
    const answer = await called(at, resultOf({ content: [text('as <it> is'), { type: 'chart' }] }))
    expect(answer.text.split('\n')[0]).toBe('as <it> is')
    expect(answer.isError).toBe(false)
    expect(answer.text).toMatch(
      /The call was made, and the tool answered; .* a part of type 'chart'|type "chart"/,
    )
  })

  it('is told an unknown part escaped, and never its own words as live markup', async () => {
    const part = { type: 'x" <b>', alt: '<img src=a>[a](b)\u001b[2J' }
    const answer = await called(at, resultOf({ content: [part] }))
    for (const live of ['<img', '<b>', '](b)', '\u001b']) expect(answer.text).not.toContain(live)
    expect(answer.text).toContain('&lt;img src=a&gt;')
  })

  it('is handed structured content that is a list', async () => {
    const answer = await called(at, resultOf({ content: [], structuredContent: [1, 2] }), 'structured')
    expect(answer.text).toContain('[1,2]')
  })

  it.each<[string, Answers]>([
    [
      'text/plain',
      ({ id }, response) => {
        response.writeHead(200, { 'content-type': 'text/plain' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [text('done')] } }))
      },
    ],
    [
      'no type at all',
      ({ id }, response) =>
        void response
          .writeHead(200)
          .end(JSON.stringify({ jsonrpc: '2.0', id, result: { content: [text('done')] } })),
    ],
    [
      'no revision of JSON-RPC',
      ({ id }, response) => document(response, { id, result: { content: [text('done')] } }),
    ],
    [
      'its id as text',
      ({ id }, response) =>
        document(response, { jsonrpc: '2.0', id: `${id}`, result: { content: [text('done')] } }),
    ],
  ])('is handed an answer that has %s', async (_what, answers) => {
    expect((await called(at, answers)).text).toBe('done')
  })

  it.each<[string, unknown, string]>([
    ['whose code is text', { code: 'E_FUNDS', message: 'No funds.' }, 'No funds.'],
    ['that is text', 'No funds.', 'No funds.'],
    ['with no message', { code: -32_000 }, 'JSON-RPC error -32000'],
  ])("is told the tool's own error %s", async (_what, error, words) => {
    const answer = called(at, ({ id }, response) => document(response, { jsonrpc: '2.0', id, error }))
    await expect(answer).rejects.toThrow(words)
  })

  it.each([
    [200, 'text/html'],
    [200, 'application/xml'],
    [202, 'text/plain'],
    [500, 'text/html'],
  ])('is told what came instead of an answer: the outcome is unknown (%d, %s)', async (status, type) => {
    const answer = await called(
      at,
      (_came, response) =>
        void response.writeHead(status, { 'content-type': type }).end('<h1>Order 7 is in</h1>'),
    )
    expect(answer).toMatchObject({ isError: true, reason: 'outcome_unknown' })
    expect(answer.text).toContain('&lt;h1&gt;Order 7 is in')
  })
})

describe('A tool that is left out of the list', () => {
  it('is named by the bridge, and by the doctor', async () => {
    expect(clients[0]!.said()).toContain('the tool "tool 3" is left out: its name is no text.')
    const terminal = capturedTerminal()
    const options = {
      resource: tools.url.href,
      clientName: undefined,
      stateRoot: folder.folder,
      config: readClientConfig({ UMA_DEV_LOOPBACK: 'true' }),
    }
    await expect(diagnose(options, terminal)).rejects.toThrow()
    expect(terminal.printed).toContain('ok    tools: 2\n')
    expect(terminal.printed).toContain(`FAIL  tool: "tool 3" is left out of the list: its name is no text.`)
  })
})
