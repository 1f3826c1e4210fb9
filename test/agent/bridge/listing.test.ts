/**
 * contract, "What the service does": the bridge's list of tools is the present one of the resource: cached as
 * long as the resource says, and read again when it says that the list changed.
 */
import { createServer, type Server as HttpServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createMcpHandler, Server, type McpHttpHandler } from '@modelcontextprotocol/server'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Bridge } from '../../../src/agent/bridge/core.ts'
import { openedBridge } from '../../support/opened-bridge.ts'
import { startScriptedTools } from '../../support/scripted-tools.ts'

let description = ''
let ttlMs = 0
let listed = 0
let handler: McpHttpHandler
let http: HttpServer
let opened: Awaited<ReturnType<typeof openedBridge>>
let bridge: Bridge

beforeEach(async () => {
  description = 'first'
  listed = 0
  handler = createMcpHandler(() => {
    const server = new Server({ name: 's', version: '1' }, { capabilities: { tools: { listChanged: true } } })
    server.setRequestHandler('tools/list', () => {
      listed++
      const tool = { name: 'read', description, inputSchema: { type: 'object' as const } }
      return { tools: [tool], ttlMs, cacheScope: 'private' as const }
    })
    return server
  })
  const serve = toNodeHandler(handler)
  http = createServer((request, response) => void serve(request as Parameters<typeof serve>[0], response))
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  const { port } = http.address() as AddressInfo
  opened = await openedBridge(`http://127.0.0.1:${port}/mcp`)
  bridge = opened.bridge
})
afterEach(async () => {
  await opened.close()
  await handler.close()
  http.closeAllConnections()
  http.close()
})

const shown = async (): Promise<unknown> => (await bridge.tools()).tools[0]!['description']

describe('The list of tools', () => {
  it('is kept as long as the resource says (ttlMs), and the client is told the rest of that time', async () => {
    ttlMs = 3_600_000
    await shown()
    description = 'second'
    const { ttlMs: left } = await bridge.tools()
    expect(await shown()).toMatch(/^first/)
    expect(listed).toBe(1)
    expect(left).toBeGreaterThan(3_000_000)
    expect(left).toBeLessThanOrEqual(ttlMs)
  })

  it('is kept for a day at most, whatever the resource says', async () => {
    ttlMs = Number.MAX_SAFE_INTEGER
    await shown()
    const { ttlMs: left } = await bridge.tools()
    expect(left).toBeGreaterThan(86_000_000)
    expect(left).toBeLessThanOrEqual(86_400_000)
  })

  it('is read anew where the resource says that it may not be kept', async () => {
    ttlMs = 0
    await shown()
    description = 'second'
    await expect.poll(shown).toMatch(/^second/)
  })

  it('is read anew at once when the resource says that it changed, and the client is told', async () => {
    ttlMs = 3_600_000
    const { told } = opened
    await shown()
    description = 'second'
    // The subscription may come after the list.
    await expect.poll(() => (handler.notify.toolsChanged(), told())).toBeGreaterThan(0)
    await expect.poll(shown).toMatch(/^second/)
  })

  it('is read anew when a server of 2025-11-25 says on its stream that it changed', async () => {
    const tools = await startScriptedTools()
    try {
      let stream: ServerResponse | undefined
      tools.script('GET', (_came, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
        stream = response
      })
      let changed = 0
      const upstream = tools.upstream({ onToolsChanged: () => void changed++ })
      expect((await upstream.listTools()).tools.map(({ name }) => name)).toEqual(['read'])
      await expect.poll(() => stream).toBeDefined()
      expect(changed).toBe(0)
      stream!.write('data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
      await expect.poll(() => changed).toBe(1)
    } finally {
      await tools.close()
    }
  })

  it('that changes all the time has the client told at once, then seldom, and the list read is the last one', async () => {
    ttlMs = 3_600_000
    const { told } = opened
    await shown()
    await expect.poll(() => (handler.notify.toolsChanged(), told())).toBe(1)
    const began = performance.now()
    let sent = 0
    await expect.poll(() => (handler.notify.toolsChanged(), sent++, told()), { interval: 20 }).toBe(3)
    expect(sent).toBeGreaterThan(50)
    expect(performance.now() - began).toBeGreaterThan(8000)
    description = 'last'
    handler.notify.toolsChanged()
    await expect.poll(shown).toMatch(/^last/)
  }, 30_000)
})
