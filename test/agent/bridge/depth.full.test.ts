/**
 * contract, "Errors", for a resource whose answers are nested deeper than parsers outlive: each is reported
 * soon with its own code, and affects nothing else.
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ANSWER_DEPTH_MAX, depthGuard } from '../../../src/agent/bridge/answers/depth.ts'
import { bridgeFolder, startBridge, type BridgedClient } from '../../support/bridge.ts'

/** Objects in objects, so many. */
const nested = (depth: number): string => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
const INITIALIZED =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}'
const TOOL = (name: string, schema: string): string =>
  `{"name":"${name}","inputSchema":{"type":"object","properties":${schema}}}`

/** The results of the three methods, as JSON. */
let initialized: string
let listed: string
let called: string
let isStream: boolean
let calls: number
let http: Server
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let started: BridgedClient

beforeEach(async () => {
  initialized = INITIALIZED
  listed = `{"tools":[${TOOL('read', '{}')}]}`
  called = '{"content":[{"type":"text","text":"done"}]}'
  isStream = false
  calls = 0
  http = createServer(
    (request, response) =>
      void text(request).then(body => {
        const { id, method } = JSON.parse(body || '{}') as { id?: number; method?: string }
        if (id === undefined) return void response.writeHead(request.method === 'POST' ? 202 : 405).end()
        if (method === 'tools/call') calls++
        const result = resultOf(method)
        const said = result === undefined ? '"error":{"code":-32601,"message":"no"}' : `"result":${result}`
        const message = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${said}}`
        const type = isStream ? 'text/event-stream' : 'application/json'
        response.writeHead(200, { 'content-type': type })
        // A comment with brackets that close nothing, and a field that opens a text.
        response.end(isStream ? `: ${']'.repeat(30_000)}\nfield: "\ndata: ${message}\n\n` : message)
      }),
  )
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  folder = await bridgeFolder()
  started = await startedBridge()
})
const startedBridge = (): Promise<BridgedClient> =>
  startBridge({
    kind: '2.x 2025-11-25',
    name: 'client',
    resources: [`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp/alice`],
    state: folder.folder,
  })
afterEach(async () => {
  await started.close()
  http.closeAllConnections()
  http.close()
  await folder.remove()
})

function resultOf(method: string | undefined): string | undefined {
  if (method === 'tools/list') return listed
  if (method === 'tools/call') return called
  return method === 'initialize' ? initialized : undefined
}

describe.each([
  ['one document', false],
  ['a stream of events', true],
])('A resource that answers by %s', (_what, byStream) => {
  beforeEach(() => void (isStream = byStream))

  it('has an answer that is nested too deep refused with a word of its own, and the call runs once', async () => {
    called = `{"content":[],"structuredContent":${nested(20_000)}}`
    const answer = await started.call('read')
    expect(answer).toMatchObject({ isError: true, reason: 'answer_too_deep' })
    expect(answer.text).toContain(`nested more than ${ANSWER_DEPTH_MAX} deep. The call was made`)
    expect(calls).toBe(1)
    // The message and its result are two of them.
    called = `{"content":[{"type":"text","text":"deep"}],"structuredContent":${nested(ANSWER_DEPTH_MAX - 2)}}`
    expect(await started.call('read')).toMatchObject({ isError: false, text: 'deep' })
  })

  it('is told soon that how it introduces itself is nested too deep, and is reached again by the next call', async () => {
    initialized = INITIALIZED.replace('"tools":{}', `"tools":{},"experimental":${nested(20_000)}`)
    // The one that runs has reached it already.
    await started.close()
    started = await startedBridge()
    expect(await started.call('read')).toMatchObject({ isError: true, reason: 'answer_too_deep' })
    expect(calls).toBe(0)
    initialized = INITIALIZED
    expect((await started.call('read')).text).toBe('done')
  })

  it('has a list that is nested too deep refused so too, and is asked again by the next call', async () => {
    listed = `{"tools":[${TOOL('read', nested(20_000))}]}`
    await expect(started.tools()).rejects.toThrow('(answer_too_deep)')
    expect(await started.call('read')).toMatchObject({ isError: true, reason: 'answer_too_deep' })
    expect(calls).toBe(0)
    listed = `{"tools":[${TOOL('deep', nested(70))},${TOOL('read', '{}')}]}`
    expect((await started.tools()).map(({ name }) => name)).toEqual(['read'])
    expect((await started.call('read')).text).toBe('done')
  })
})

describe('The depth of a body', () => {
  const open = (count: number): string => '['.repeat(count)
  const [most, over, part] = [open(ANSWER_DEPTH_MAX), open(ANSWER_DEPTH_MAX + 1), open(ANSWER_DEPTH_MAX - 20)]
  it.each([
    ['a document', false, over, most],
    ['what stands in a text', false, `"\\\\"${over}`, `"${over}`],
    ['a text with an escaped quote', false, `"\\""${over}`, `"\\"${over}`],
    ['data, after a byte order mark', true, `\ufeffdata:${over}`, `\ufeffdata: ${most}`],
    ['what is no data', true, `: "\ndata:${over}`, `: ${over}\nevent:${over}\ndatum:${over}`],
    [
      'data on several lines',
      true,
      `data:${part}\n: ${']'.repeat(300)}\ndata:${part}`,
      `data:${part}\n\ndata:${part}`,
    ],
    ['lines that end in CR LF', true, `data:${part}\r\ndata:${part}`, `data:${part}\r\n\r\ndata:${part}`],
    ['lines that end in CR', true, `data:${part}\rdata:${part}`, `data:${part}\r\rdata:${part}`],
    ['a text that a line leaves open', true, `data:"\ndata:${over}`, `data:"\ndata:${most}`],
  ])('is counted in %s, however it is cut into chunks', (_what, byStream, deep, shallow) => {
    const isShallow = (body: string, length: number): boolean => {
      const guard = depthGuard(byStream)
      const bytes = Buffer.from(body)
      for (let at = 0; at < bytes.length; at += length)
        if (!guard(bytes.subarray(at, at + length))) return false
      return true
    }
    const lengths = [1, 2, 3, 7, 100_000]
    expect(lengths.map(length => isShallow(deep, length))).toEqual(lengths.map(() => false))
    expect(lengths.map(length => isShallow(shallow, length))).toEqual(lengths.map(() => true))
  })
})
