/**
 * contract, "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed), for a resource
 * that answers whatever it likes, met by a bridge as clients start it: its words are escaped and bounded
 * before client and terminal, and its client's channel holds nothing but messages.
 */
import { spawn } from 'node:child_process'
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, ProtocolError, Server, type McpHttpHandler } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { withPlainQuestions } from '../../../src/agent/bridge/asked-back.ts'
import type { Json } from '../../../src/wire/json.ts'
import { bridgeFolder, startBridge, type BridgedClient, type BridgeOptions } from '../../support/bridge.ts'
import { ROOT } from '../../support/repository.ts'

const HOSTILE = '\u001b]0;x\u0007 \u202eevil <img src=x> ![a](https://evil.example) \u200b'
const LIVE = /[\p{Cc}\p{Cf}]|<img|\]\(/u

let tools: object[]
let next: string | undefined
let capabilities: { tools?: object }
let answer: (params: { name: string }, notify: (message: object) => Promise<void>) => unknown
let handler: McpHttpHandler
let http: HttpServer
let resource: string
let folder: Awaited<ReturnType<typeof bridgeFolder>>
const open: { close: () => Promise<unknown> }[] = []

beforeEach(async () => {
  tools = [{ name: 'read', inputSchema: { type: 'object' } }]
  next = undefined
  capabilities = { tools: {} }
  answer = () => ({ content: [{ type: 'text', text: 'done' }] })
  handler = createMcpHandler(() => {
    const server = new Server({ name: 's', version: '1' }, { capabilities })
    if (capabilities.tools === undefined) return server
    server.setRequestHandler('tools/list', () => ({
      tools: tools as never,
      ...(next === undefined ? {} : { nextCursor: `${next}${Math.random()}` }),
      ttlMs: 0,
      cacheScope: 'private' as const,
    }))
    server.setRequestHandler('tools/call', async ({ params: given }, { mcpReq }) => {
      const { inputResponses } = mcpReq
      const params = { ...given, ...(inputResponses === undefined ? {} : { inputResponses }) }
      const { progressToken = 0 } = mcpReq._meta ?? {}
      const notify = (message: object): Promise<void> =>
        mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress: 1, ...message },
        })
      return (await answer(params, notify)) as never
    })
    return server
  })
  const serve = toNodeHandler(handler)
  http = createServer((request, response) => void serve(request as Parameters<typeof serve>[0], response))
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  resource = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp/alice`
  folder = await bridgeFolder()
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close().catch(() => undefined)
  await handler.close()
  http.closeAllConnections()
  http.close()
  await folder.remove()
})

async function bridge(options: Partial<BridgeOptions> = {}): Promise<BridgedClient> {
  const started = await startBridge({
    name: 'client',
    resources: [resource],
    state: folder.folder,
    kind: '2.x 2026-07-28',
    ...options,
  })
  open.push(started)
  return started
}

describe('A hostile resource', () => {
  it('has its progress shown escaped, and no longer than somebody reads', async () => {
    answer = async (_params, notify) => {
      await notify({ message: `${HOSTILE} ${'x'.repeat(100_000)}`, more: HOSTILE })
      return { content: [] }
    }
    const heard: { message?: string | undefined }[] = []
    const { call } = await bridge()
    await call('read', {}, { onprogress: progress => void heard.push(progress) })
    expect(heard).toHaveLength(1)
    expect(heard[0]!.message).toContain('evil')
    expect(JSON.stringify(heard)).not.toMatch(LIVE)
    expect(JSON.stringify(heard).length).toBeLessThan(1000)
    expect(JSON.stringify(heard)).not.toContain('"more"')
  })

  it('has its error shown escaped, with its own code', async () => {
    answer = () => {
      throw new ProtocolError(-32050, `${HOSTILE} ${'x'.repeat(100_000)}`)
    }
    const { call } = await bridge()
    const error = await call('read').then(
      () => undefined,
      (thrown: Error & { code?: number }) => thrown,
    )
    expect(error).toMatchObject({ code: -32050 })
    expect(error!.message).toContain('evil')
    expect(error!.message).not.toMatch(LIVE)
    expect(error!.message.length).toBeLessThan(1500)
  })

  it('asks nothing of the client but a form or a page for its person, in escaped words', async () => {
    const asked: unknown[] = []
    const inputs = {
      a: {
        method: 'elicitation/create',
        params: {
          mode: 'form',
          message: HOSTILE,
          requestedSchema: {
            type: 'object',
            properties: { x: { type: 'string', title: HOSTILE, description: HOSTILE } },
          },
        },
      },
    }
    answer = () =>
      asked.length === 0
        ? { resultType: 'input_required', inputRequests: inputs, requestState: 's' }
        : { content: [{ type: 'text', text: 'done' }] }
    const { call } = await bridge({
      capabilities: { elicitation: {}, sampling: {}, roots: {} },
      word: question => {
        asked.push(question)
        return 'accept'
      },
    })
    expect((await call('read')).text).toBe('done')
    expect(asked).toHaveLength(1)
    expect(JSON.stringify(asked)).toContain('evil')
    expect(JSON.stringify(asked)).not.toMatch(LIVE)
    const of = (method: string, params: object = {}): Json => ({
      resultType: 'input_required',
      inputRequests: { a: { method, params: params as Json } },
    })
    for (const [method, params] of [
      ['sampling/createMessage', { messages: [], maxTokens: 10 }],
      ['roots/list', {}],
      ['elicitation/create', { mode: 'url', message: 'm', url: 'javascript:alert(1)' }],
      ['elicitation/create', { message: 'm', requestedSchema: { properties: { 'a\u200b': {} } } }],
    ] as const)
      expect(() => withPlainQuestions(of(method, params))).toThrow('may not ask')
  })

  it.each(['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const)(
    'that asks before it answers has its question put to the person at the SDK client %s, escaped, and has her word',
    async kind => {
      const requestedSchema = { type: 'object', properties: {} }
      const params = { mode: 'form', message: `Which account? ${HOSTILE}`, requestedSchema }
      const heard: unknown[] = []
      answer = given => {
        const { inputResponses } = given as { inputResponses?: unknown }
        if (inputResponses === undefined)
          return {
            resultType: 'input_required',
            inputRequests: { a: { method: 'elicitation/create', params } },
            requestState: 's',
          }
        heard.push(inputResponses)
        return { content: [{ type: 'text', text: 'done' }] }
      }
      const { call, elicited } = await bridge({ kind, capabilities: { elicitation: { form: {} } } })
      expect((await call('read')).text).toBe('done')
      expect(elicited).toHaveLength(1)
      expect(elicited[0]!.message).toContain('Which account?')
      expect(elicited[0]!.message).not.toMatch(LIVE)
      expect(heard).toMatchObject([{ a: { action: 'accept' } }])
    },
  )

  it('leaves its tools out that nobody could read or call, and lists the rest', async () => {
    const schema = { type: 'object', properties: {} }
    tools = [
      { name: 'read', inputSchema: schema },
      { name: 'long', inputSchema: { ...schema, $comment: 'x'.repeat(70_000) } },
      { name: `n${'x'.repeat(128)}`, inputSchema: schema },
      { name: 'esc\u001b[2J', inputSchema: schema },
    ]
    const { said, tools: list } = await bridge({ kind: '1.x 2025-11-25' })
    expect((await list()).map(({ name }) => name)).toEqual(['read'])
    await expect.poll(said).toContain('3 tools')
    expect(said().replaceAll('\n', '')).not.toMatch(LIVE)
  })

  it('whose list has no end is an error in words, soon', async () => {
    next = 'more'
    const { tools: list } = await bridge({ kind: '1.x 2025-11-25' })
    await expect(list()).rejects.toThrow('cannot be reached, or does not speak MCP')
  })

  it.each([
    ['no tools at all', () => (capabilities = {})],
    [
      'a declaration that the SDK warns of',
      () =>
        (tools = [
          {
            name: 'esc',
            inputSchema: {
              type: 'object',
              properties: { a: { type: 'object', 'x-mcp-header': `\u001b[2J${'x'.repeat(10_000)}` } },
            },
          },
        ]),
    ],
  ])(
    'with %s: standard output holds messages alone, and standard error nothing that acts',
    async (_what, set) => {
      set()
      const child = spawn(process.execPath, [join(ROOT, 'src', 'cli.ts'), 'agent', 'bridge', resource], {
        env: { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true', UMA_BRIDGE_STATE: folder.folder },
        stdio: 'pipe',
      })
      open.push({ close: async () => child.kill('SIGKILL') })
      const lines: string[] = []
      let said = ''
      child.stderr.on('data', chunk => (said += String(chunk)))
      createInterface({ input: child.stdout }).on('line', line => lines.push(line))
      const send = (message: object): void =>
        void child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
      const clientInfo = { name: 'c', version: '1' }
      send({
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
      })
      send({ method: 'notifications/initialized' })
      send({ id: 2, method: 'tools/list' })
      await expect.poll(() => lines.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(2)
      for (const line of lines) expect(JSON.parse(line)).toMatchObject({ jsonrpc: '2.0' })
      expect(said).not.toBe('')
      expect(said.replaceAll('\n', '')).not.toMatch(LIVE)
      expect(said.length).toBeLessThan(5000)
    },
  )
})
