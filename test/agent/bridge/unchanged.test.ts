/**
 * contract, "Agreement (claim_token, beat 3)": what is approved is what was sent. A call that would not
 * arrive as its client wrote it is refused by the first of our programs that sees it, with the sidecar's
 * sentence, and nothing is sent.
 */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createAgent } from '../../../src/agent/index.ts'
import { runAgent } from '../../../src/agent/main.ts'
import { marked, markingLines, whyChanged } from '../../../src/agent/bridge/answers/unchanged.ts'
import { isJsonObject } from '../../../src/wire/json.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { CALLED, resultOf, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'
import { usherProgram } from '../../support/usher-program.ts'
import { newKey } from '../../support/wire-samples.ts'

let tools: ScriptedTools
let folder: string
/** The arguments of each call that came, as text. */
let came: string[]
const ending: (() => unknown)[] = []
beforeEach(async () => {
  came = []
  tools = await startScriptedTools()
  tools.script('tools/call', (call, response) => {
    came.push(JSON.stringify(call.params?.['arguments']))
    resultOf(CALLED)(call, response)
  })
  folder = await mkdtemp(join(tmpdir(), 'usher-unchanged-'))
  vi.stubEnv('UMA_DEV_LOOPBACK', 'true')
  vi.stubEnv('UMA_AGENT_KEY', join(folder, 'key.json'))
  vi.stubEnv('UMA_AGENT_STORE', join(folder, 'store'))
})
afterEach(async () => {
  for (const end of ending.splice(0)) await end()
  vi.unstubAllEnvs()
  await tools.close()
  await rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 20 })
})

const NUMBERS: [string, string][] = [
  ['an integer past 2^53', '{"qty":9007199254740993}'],
  ['one deep in a list', '{"orders":[{"ids":[1,12345678901234567890]}]}'],
  ['a fraction of many digits', '{"price":0.1234567890123456789}'],
  ['a number that is as good as zero', '{"price":1e-400}'],
  ['one beside text that looks like one', '{"note":"12345678901234567890","qty":-9007199254740993}'],
]
const MEMBERS: [string, string][] = [
  ['__proto__', '{"__proto__":{"qty":1}}'],
  ['__proto__ in a list', '{"orders":[{"__proto__":null}]}'],
  ['__proto__, written with escapes', String.raw`{"\u005f_proto_\u005f":{"qty":1}}`],
  ['__proto__ beside others', '{"symbol":"VTI","more":{"__proto__":"x","qty":1}}'],
]
const SENTENCE = 'Send numbers that a double carries unchanged:'

/** A bridge as a child, spoken to line by line: no SDK has parsed what is written. */
async function bridged(...args: string[]) {
  const env = { PATH: process.env['PATH'], HOME: folder, UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: folder }
  const child = spawn(process.execPath, [usherProgram(), 'agent', 'bridge', tools.url.href, ...args], { env })
  ending.push(async () => {
    const closed = new Promise(resolve => child.once('close', resolve))
    child.kill('SIGKILL')
    await closed
  })
  const heard = new Map<number, (message: object) => void>()
  createInterface({ input: child.stdout }).on('line', line => {
    const message = JSON.parse(line) as { id?: number }
    heard.get(message.id ?? -1)?.(message)
  })
  let said = ''
  child.stderr.on('data', chunk => (said += String(chunk)))
  const write = (text: string): void => void child.stdin.write(`${text}\n`)
  const ask = (id: number, text: string): Promise<object> =>
    new Promise(resolve => {
      heard.set(id, resolve)
      write(text)
    })
  return { ask, write, said: () => said }
}
const INITIALIZE = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'raw', version: '1' },
}
const callText = (id: number, args: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"read","arguments":${args}}}`

describe('A call that would not arrive as it was written', () => {
  it('is refused by the bridge over standard input, and the next is made', async () => {
    const { ask, write } = await bridged()
    await ask(1, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: INITIALIZE }))
    write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    let id = 1
    for (const [, args] of [...NUMBERS, ...MEMBERS]) {
      const answer = await ask(++id, callText(id, args))
      expect(answer, args).toMatchObject({
        result: { isError: true, _meta: { 'usher/reason': 'request_invalid' } },
      })
      const words = JSON.stringify(answer)
      expect(words.includes(SENTENCE) || words.includes('__proto__'), args).toBe(true)
    }
    expect(came).toEqual([])
    expect(await ask(++id, callText(id, '{"qty":9007199254740992}'))).toMatchObject({ result: CALLED })
    expect(came).toEqual(['{"qty":9007199254740992}'])
  })

  it('is refused by the bridge over HTTP', async () => {
    const { said } = await bridged('--listen', '127.0.0.1:0', '--client-name', 'raw')
    await expect.poll(() => /listening on (\S+)/.exec(said())?.[1]).toBeDefined()
    const url = /listening on (\S+)/.exec(said())![1]!
    const token = /Authorization: Bearer ([\w-]{43})/.exec(said())![1]!
    const post = (body: string, session?: string): Promise<Response> =>
      fetch(url, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...(session === undefined
            ? {}
            : { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' }),
        },
        body,
      })
    const opened = await post(
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: INITIALIZE }),
    )
    const session = opened.headers.get('mcp-session-id')!
    await opened.text()
    for (const [, args] of [NUMBERS[0]!, MEMBERS[0]!])
      expect(await (await post(callText(2, args), session)).text(), args).toContain('request_invalid')
    expect(came).toEqual([])
  })

  it.each(NUMBERS)('is refused by `usher agent call`: %s', async (_what, args) => {
    await runAgent(['keygen'], capturedTerminal())
    const terminal = capturedTerminal()
    expect(await runAgent(['call', tools.url.href, 'read', args], terminal)).toBe(2)
    expect(terminal.said).toContain(SENTENCE)
    expect(came).toEqual([])
  })

  it.each(MEMBERS)('is passed on as it is by `usher agent call`: %s', async (_what, args) => {
    await runAgent(['keygen'], capturedTerminal())
    const terminal = capturedTerminal()
    const options = ['--mcp-version', '2025-11-25']
    expect(await runAgent(['call', tools.url.href, 'read', args, ...options], terminal)).toBe(0)
    expect(came).toEqual([JSON.stringify(JSON.parse(args))])
  })

  class Order {
    qty = 1
  }
  const cyclic: Record<string, unknown> = {}
  cyclic['again'] = cyclic
  const OTHERWISE = 'would be read as something else.'
  const REFUSED: [string, object, string][] = [
    ['no number', { qty: NaN }, SENTENCE],
    ['an infinite one', { orders: [{ qty: Infinity }] }, SENTENCE],
    ['a bigint', { qty: 9007199254740993n }, SENTENCE],
    ['no number in a box', { qty: Object(NaN) }, SENTENCE],
    ['a bigint in a box', { qty: Object(5n) }, SENTENCE],
    ['a Map', { order: new Map([['qty', 1]]) }, `a Map ${OTHERWISE}`],
    ['a Set', { ids: new Set([1]) }, `a Set ${OTHERWISE}`],
    ['a Date', { since: new Date(0) }, `a Date ${OTHERWISE}`],
    ['a Date that is none', { since: new Date(NaN) }, `a Date ${OTHERWISE}`],
    ['a URL', { url: new URL('https://a.example') }, `a URL ${OTHERWISE}`],
    ['bytes', { data: new Uint8Array([1]) }, `a Uint8Array ${OTHERWISE}`],
    ['a Buffer', { data: Buffer.from('a') }, `a Buffer ${OTHERWISE}`],
    ['a pattern', { like: /a/ }, `a RegExp ${OTHERWISE}`],
    ['an error', { why: new Error('x') }, `a Error ${OTHERWISE}`],
    ['an instance of a class', { order: new Order() }, `a Order ${OTHERWISE}`],
    ['a promise', { order: Promise.resolve(1) }, `a Promise ${OTHERWISE}`],
    ['a function', { order: () => 1 }, `a function ${OTHERWISE}`],
    ['a symbol', { order: Symbol('x') }, `a symbol ${OTHERWISE}`],
    ['an object that writes itself', { order: { toJSON: () => 1 } }, `a function ${OTHERWISE}`],
    ['a hole in a list', { ids: [1, undefined] }, `undefined ${OTHERWISE}`],
    ['what is within itself', cyclic, 'Nest JSON at most 64 deep.'],
    ['a Map for all of them', new Map([['qty', 1]]), `a Map ${OTHERWISE}`],
    ['a list for all of them', [1], 'as a JSON object'],
  ]
  it.each(REFUSED)('is refused by the agent as a library: %s', async (_what, args, words) => {
    const agent = createAgent({ key: newKey(), allowLoopback: true })
    const called = async () => agent.call({ resource: tools.url.href, tool: 'read', arguments: args })
    await expect(called()).rejects.toMatchObject({
      code: 'request_invalid',
      detail: expect.stringContaining(words),
    })
    expect(came).toEqual([])
  })

  it.each(REFUSED.slice(0, -1))('is refused by a transport of the agent: %s', async (_what, args) => {
    const sent: object[] = []
    const agent = createAgent({ key: newKey(), allowLoopback: true })
    const plain = { start: async () => undefined, close: async () => undefined }
    const given = { ...plain, send: async (message: object) => void sent.push(message) }
    const transport = agent.authorize(given, tools.url.href)
    const params = { name: 'read', arguments: args }
    const call = { jsonrpc: '2.0' as const, id: 1, method: 'tools/call', params }
    await expect(transport.send(call)).rejects.toMatchObject({ code: 'request_invalid' })
    expect(sent).toEqual([])
  })

  it('is made by the agent as a library where JSON says the same', async () => {
    const agent = createAgent({ key: newKey(), allowLoopback: true, mcpVersion: '2025-11-25' })
    const bare: object = Object.assign(Object.create(null) as object, { b: null })
    const args = { a: [1, -0.5, 'x', true, [], {}], bare, left: undefined, boxed: Object('y'), n: Object(2) }
    const other: object = runInNewContext('({ of: [1] })') as object
    await agent.call({ resource: tools.url.href, tool: 'read', arguments: { ...args, other } })
    expect(came).toEqual([
      '{"a":[1,-0.5,"x",true,[],{}],"bare":{"b":null},"boxed":"y","n":2,"other":{"of":[1]}}',
    ])
  })

  it('is refused by the fetch for other clients', async () => {
    const agent = createAgent({ key: newKey(), allowLoopback: true })
    const send = agent.fetchFor(tools.url.href)
    const body = callText(1, NUMBERS[0]![1])
    await expect(send(tools.url, { method: 'POST', body })).rejects.toMatchObject({ code: 'request_invalid' })
    expect(came).toEqual([])
  })
})

describe('Whatever else a client writes', () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  it.each([
    ['a request', '{"jsonrpc":"2.0","id":1,"method":"ping"}'],
    ['a list of requests', '[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]'],
    ['a call with what looks like it', callText(1, '{"a":1.50,"note":"__proto__","b":{"proto":1}}')],
    [
      'a call with a number that goes no further',
      callText(1, '{}').replace('"arguments"', '"_meta":{"n":9007199254740993},"arguments"'),
    ],
    ['what nobody follows', `{"jsonrpc":"2.0","id":1,"method":"x","params":${deep}}`],
    ['a call that nobody follows', callText(1, `{"n":9007199254740993,"a":${deep}}`)],
    ['no JSON', 'no JSON at all'],
    ['nothing', ''],
  ])('passes unchanged, byte for byte: %s', (_what, text) => {
    expect(marked(text) === text).toBe(true)
  })

  it.each([
    ['an argument twice', callText(1, '{"qty":1,"qty":2}')],
    ['its arguments twice', callText(1, '{}').replace('"arguments"', '"arguments":{"qty":1},"arguments"')],
    ['half of a character', callText(1, String.raw`{"note":"\ud800"}`)],
    ['bytes that are not UTF-8', Buffer.from(callText(1, '{"note":"\u00e9"}'), 'latin1')],
  ])('has no arguments, but a mark, where it is a call with %s', (_what, source) => {
    const { params } = JSON.parse(marked(source)) as { params: { arguments: object; _meta: object } }
    expect([params.arguments, whyChanged(params._meta)]).toEqual([{}, expect.stringMatching(/^\S.*\S$/)])
  })

  it.each([
    ...[...NUMBERS, ...MEMBERS].map(([what, content]): [string, string] => [what, content]),
    ['a member twice', '{"n":1,"n":2}'],
  ])("has no answers, but a mark, where it answers a task's question with %s", (_what, content) => {
    const replies = `{"q":{"action":"accept","content":${content}}}`
    const { params } = JSON.parse(
      marked(
        `{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":"t","inputResponses":${replies}}}`,
      ),
    ) as { params: { inputResponses: object; taskId: string; _meta: object } }
    expect([params.taskId, params.inputResponses, whyChanged(params._meta)]).toEqual([
      't',
      {},
      expect.stringMatching(/^\S.*\S$/),
    ])
  })

  it.each([
    ['a request', 'id', '{"jsonrpc":"2.0","id":ID,"method":"ping"}'],
    [
      'a request of a batch',
      'id',
      '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":ID,"method":"ping"}]',
    ],
    [
      'a call',
      'progressToken',
      callText(1, '{}').replace('"arguments"', '"_meta":{"progressToken":ID},"arguments"'),
    ],
    [
      'a cancellation',
      'requestId',
      '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}',
    ],
  ])('keeps the digits of the id of %s as text, and all else', (_what, name, text) => {
    for (const id of ['9007199254740993', '-12345678901234567890', '1e400'])
      expect(marked(text.replace('ID', id))).toBe(
        text.replace(`"${name}":ID`, `"${name}":"usher:as-written:${id}"`),
      )
    expect(marked(text.replace('ID', '9007199254740992'))).toBe(text.replace('ID', '9007199254740992'))
  })

  it.each([
    ['a number past 2^53', '{"n":9007199254740993}'],
    ['a fraction of many digits', '{"n":0.1234567890123456789}'],
    ['__proto__', '{"__proto__":1}'],
    ['a member twice', '{"n":1,"n":2}'],
  ])('is an error that says so where it answers a question with %s', (_what, content) => {
    const answer = JSON.parse(
      marked(`{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":${content}}}`),
    ) as object
    expect(answer).toEqual({
      jsonrpc: '2.0',
      id: 7,
      error: { code: -32_602, message: expect.stringMatching(/^\S.*\S$/) },
    })
  })

  it('has params that are absent where they are null', () => {
    expect(JSON.parse(marked('{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}'))).toEqual({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/list',
    })
  })

  it('passes in lines, wherever its chunks are cut, and a line that is too long passes as it comes', async () => {
    const long = `{"x":"${'y'.repeat(17 * 1024 * 1024)}"}`
    const text = `${callText(1, '{"qty":1}')}\r\n${long}\n${callText(2, '{"qty":9007199254740993}')}\nunfinished`
    const lines = markingLines()
    const out: Buffer[] = []
    lines.on('data', (chunk: Buffer) => out.push(chunk))
    const bytes = Buffer.from(text)
    for (let at = 0; at < bytes.length; at += 65_537) lines.write(bytes.subarray(at, at + 65_537))
    await new Promise<void>(resolve => lines.end(resolve).on('end', resolve))
    const [first, second, third, rest] = Buffer.concat(out).toString().split('\n')
    expect([first, second === long, rest]).toEqual([`${callText(1, '{"qty":1}')}\r`, true, 'unfinished'])
    const call: unknown = JSON.parse(third!)
    expect(isJsonObject(call) && call['params']).toMatchObject({ arguments: {}, _meta: expect.anything() })
  })
})
