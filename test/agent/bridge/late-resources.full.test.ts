/**
 * contract, "What the service does": a resource that fails when the bridge first asks it is asked again, and
 * its client is told when it answers: no client asks a second time by itself.
 */
import type { ServerResponse } from 'node:http'
import { createMcpHandler, Server } from '@modelcontextprotocol/server'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it, type TestContext } from 'vitest'
import type { Bridge } from '../../../src/agent/bridge/core.ts'
import { openedBridge } from '../../support/opened-bridge.ts'
import { document, resultOf, startScriptedTools, type ScriptedTools } from '../../support/scripted-tools.ts'
import { until } from '../../support/until.ts'

const page = (_came: unknown, response: ServerResponse): void =>
  void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Starting.</p>')

interface Row {
  what: string
  /** The resource cannot be listed after this. */
  fail: (tools: ScriptedTools) => Promise<void> | void
  /** It can again. */
  mend: (tools: ScriptedTools) => Promise<void> | void
  /** The client asks first by this, and never again. */
  ask?: (bridge: Bridge) => Promise<unknown>
}

const listsAgain = (tools: ScriptedTools): void =>
  tools.script('tools/list', resultOf({ tools: [{ name: 'read', inputSchema: { type: 'object' } }] }))
const initializesAgain = (tools: ScriptedTools): void =>
  tools.script(
    'initialize',
    resultOf({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 's', version: '1' },
    }),
  )

const ROWS: Row[] = [
  { what: 'where nothing listens', fail: tools => tools.stop(), mend: tools => tools.listen() },
  {
    what: 'where nothing listens, and a call is made before any list',
    fail: tools => tools.stop(),
    mend: tools => tools.listen(),
    ask: bridge => bridge.find('read'),
  },
  {
    what: 'that is 503 while it starts',
    fail: tools => tools.script('initialize', (_came, response) => document(response, {}, 503)),
    mend: initializesAgain,
  },
  {
    what: 'that shows a page while it starts',
    fail: tools => tools.script('initialize', page),
    mend: initializesAgain,
  },
  {
    what: 'that opens a session and cannot list yet',
    fail: tools =>
      tools.script('tools/list', ({ id }, response) =>
        document(response, { jsonrpc: '2.0', id, error: { code: -32_603, message: 'Not yet.' } }),
      ),
    mend: listsAgain,
  },
]

async function bridgeTo(resource: URL, onTestFinished: TestContext['onTestFinished']) {
  const { bridge, told, close } = await openedBridge(resource.href)
  onTestFinished(close)
  return { bridge, told }
}

describe.concurrent('The only resource of a bridge', () => {
  it.for(ROWS)(
    'is asked again, and the client is told when it answers: one $what',
    { timeout: 90_000 },
    async ({ fail, mend, ask = bridge => bridge.tools() }, { expect, onTestFinished }) => {
      const tools = await startScriptedTools()
      const { bridge, told } = await bridgeTo(tools.url, onTestFinished)
      onTestFinished(() => tools.close())
      await fail(tools)
      await expect(ask(bridge)).rejects.toMatchObject({ code: 'unreachable' })
      expect(told()).toBe(0)
      await mend(tools)
      await until(() => told() > 0)
      expect((await bridge.tools()).tools.map(({ name }) => name)).toEqual(['read'])
    },
  )

  it('that ends its stream of changes and cannot serve it is asked for it again, and more and more rarely', async ({
    expect,
    onTestFinished,
  }) => {
    const tools = await startScriptedTools()
    onTestFinished(() => tools.close())
    const failed: number[] = []
    tools.script('GET', ({ nth }, response) => {
      if (nth === 1)
        return void response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end('retry: 100\nid: 1\ndata:\n\n')
      failed.push(performance.now())
      response.writeHead(503).end()
    })
    await tools.upstream().listTools()
    await until(() => failed.length >= 4)
    // 100 ms is what the server named; a second, and two, are what it gets.
    const pauses = failed.slice(1, 4).map((at, nth) => at - failed[nth]!)
    expect(pauses[0]).toBeGreaterThan(900)
    expect(pauses[1]).toBeGreaterThan(1900)
    expect(pauses[2]).toBeGreaterThan(3900)
  })

  it('that ended its stream of changes is listed again, because nobody told what changed since', async ({
    expect,
    onTestFinished,
  }) => {
    let name = 'before'
    const handler = createMcpHandler(() => {
      const server = new Server(
        { name: 's', version: '1' },
        { capabilities: { tools: { listChanged: true } } },
      )
      server.setRequestHandler('tools/list', () => ({
        tools: [{ name, inputSchema: { type: 'object' as const } }],
        ttlMs: 3_600_000,
        cacheScope: 'private' as const,
      }))
      return server
    })
    const serve = toNodeHandler(handler)
    const http = createServer(
      (request, response) => void serve(request as Parameters<typeof serve>[0], response),
    )
    await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
    const { port } = http.address() as AddressInfo
    const { bridge, told } = await bridgeTo(new URL(`http://127.0.0.1:${port}/mcp`), onTestFinished)
    onTestFinished(() => {
      http.closeAllConnections()
      http.close()
    })
    const names = async (): Promise<unknown[]> => (await bridge.tools()).tools.map(one => one['name'])
    expect(await names()).toEqual(['before'])
    name = 'after'
    // As by a restart, or by a proxy that ends what is idle.
    http.closeAllConnections()
    await until(() => told() > 0)
    expect(await names()).toEqual(['after'])
    // The stream was opened again with it.
    name = 'last'
    await until(async () => (handler.notify.toolsChanged(), (await names())[0] === 'last'))
  })
})
