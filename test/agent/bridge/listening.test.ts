/**
 * Changes of single resources (`resources/subscribe`, MCP 2025-11-25; `resourceSubscriptions` of
 * `subscriptions/listen`, 2026-07-28), where the client or the server is of 2026-07-28. contract, "What the
 * service does": the client is unmodified.
 */
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Client as OlderClient } from '@modelcontextprotocol/sdk/client/index.js'
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { createMcpHandler, Server, type McpHttpHandler } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serveOnLoopback } from '../../../src/agent/bridge/listen.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { bridgeFolder, startBridge } from '../../support/bridge.ts'
import { startConformanceTools } from '../../support/conformance-server.ts'
import { plainOptions } from '../../support/opened-bridge.ts'

const WATCHED = 'test://watched-resource'
const TEXT = 'test://static-text'
const ends: (() => unknown)[] = []
let tools: ToolServer
let folder: Awaited<ReturnType<typeof bridgeFolder>>
beforeEach(async () => {
  tools = await startConformanceTools(0)
  folder = await bridgeFolder()
})
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
  await tools.stop()
  await folder.remove()
})

/** A server of MCP 2026-07-28 with one resource that can be followed, and each method it was asked for. */
interface Newer {
  http: HttpServer
  url: string
  methods: string[]
  handler: McpHttpHandler
}

async function newer(): Promise<Newer> {
  const page = { ttlMs: 0, cacheScope: 'private' as const }
  const handler = createMcpHandler(() => {
    const capabilities = { tools: { listChanged: true }, resources: { subscribe: true } }
    const server = new Server({ name: 's', version: '1' }, { capabilities })
    server.setRequestHandler('tools/list', () => ({ tools: [], ...page }))
    server.setRequestHandler('resources/list', () => ({ resources: [{ uri: WATCHED, name: 'W' }], ...page }))
    return server
  })
  const serve = toNodeHandler(handler)
  const methods: string[] = []
  const http = createServer((request, response) => {
    void (async () => {
      const body = request.method === 'POST' ? ((await json(request)) as { method: string }) : undefined
      methods.push(body?.method ?? request.method!)
      await serve(request as Parameters<typeof serve>[0], response, body)
    })().catch(() => response.destroy())
  })
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  ends.push(async () => {
    await handler.close()
    http.closeAllConnections()
    http.close()
  })
  return { http, url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`, methods, handler }
}

const resource = (): string => `http://127.0.0.1:${tools.port}/mcp/alice`
let count = 0

async function overStdio(at = resource()): Promise<Client> {
  const name = `listening ${++count}`
  const kind = '2.x 2026-07-28'
  const started = await startBridge({ kind, name, resources: [at], state: folder.folder })
  ends.push(() => started.close())
  if (!(started.client instanceof Client)) throw new Error('no client of the SDK 2.x')
  return started.client
}

async function overHttp(): Promise<Client> {
  const token = 'A'.repeat(43)
  const listen = { host: '127.0.0.1', port: 0, token }
  const serving = await serveOnLoopback(plainOptions(resource(), folder.folder), listen)
  ends.push(async () => {
    await serving.close()
    await serving.closed
  })
  const options = { versionNegotiation: { mode: { pin: '2026-07-28' } } }
  const client = new Client({ name: `listening ${++count}`, version: '1' }, options)
  const requestInit = { headers: { authorization: `Bearer ${token}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(serving.address!), { requestInit }))
  ends.push(() => client.close())
  return client
}

/** The URIs that the client hears of, in order. */
function updatesOf(client: Client): string[] {
  const updates: string[] = []
  client.setNotificationHandler(
    'notifications/resources/updated',
    ({ params }) => void updates.push(params.uri),
  )
  return updates
}
/** How often the server was asked for something. */
const asked = (method: string): number =>
  tools.record.arrivals.filter(
    ({ body }) => (JSON.parse(body) as { method?: string } | null)?.method === method,
  ).length

describe('A client of MCP 2026-07-28 that listens (subscriptions/listen)', () => {
  it.each([
    ['over standard input and output', () => overStdio()],
    ['over HTTP', overHttp],
  ])(
    'hears %s that a resource which it named changed, and its server hears when that ends',
    async (_how, connect) => {
      const client = await connect()
      const updates = updatesOf(client)
      const open = await client.listen({ resourceSubscriptions: [WATCHED] })
      expect(open.honoredFilter).toEqual({ resourceSubscriptions: [WATCHED] })
      await client.callTool({ name: 'update_watched' })
      await expect.poll(() => updates).toEqual([WATCHED])
      expect(asked('resources/unsubscribe')).toBe(0)
      await open.close()
      await expect.poll(() => asked('resources/unsubscribe')).toBe(1)
      await client.callTool({ name: 'update_watched' })
      // Its server says nothing more, and what it says comes in order.
      await client.callTool({ name: 'test_simple_text' })
      expect(updates).toEqual([WATCHED])
    },
  )

  it('is told that it will hear of what its server follows, and of nothing else', async () => {
    const client = await overStdio()
    const { honoredFilter } = await client.listen({
      toolsListChanged: true,
      resourceSubscriptions: [WATCHED, 'test://nothing', WATCHED],
    })
    expect(honoredFilter).toEqual({ toolsListChanged: true, resourceSubscriptions: [WATCHED] })
  })

  it('hears by each of its requests of what that one named', async () => {
    const client = await overHttp()
    const updates = updatesOf(client)
    const [one, other] = [
      await client.listen({ resourceSubscriptions: [WATCHED, TEXT] }),
      await client.listen({ resourceSubscriptions: [TEXT] }),
    ]
    await client.callTool({ name: 'update_watched' })
    await expect.poll(() => updates.toSorted()).toEqual([TEXT, TEXT, WATCHED])
    await one.close()
    // The other one still listens to that.
    await expect.poll(() => asked('resources/unsubscribe')).toBe(1)
    await client.callTool({ name: 'update_watched' })
    await expect.poll(() => updates.toSorted()).toEqual([TEXT, TEXT, TEXT, WATCHED])
    await other.close()
  })
})

describe('A server of MCP 2026-07-28 whose resource is followed', () => {
  const times = (methods: readonly string[], method: string): number =>
    methods.filter(one => one === method).length

  it('has a client of the same revision hear of its changes, until that listens no more', async () => {
    const { url, methods, handler } = await newer()
    const client = await overStdio(url)
    const updates = updatesOf(client)
    const open = await client.listen({ resourceSubscriptions: [WATCHED, 'test://nothing'] })
    expect(open.honoredFilter.resourceSubscriptions).toContain(WATCHED)
    handler.notify.resourceUpdated(WATCHED)
    await expect.poll(() => updates).toEqual([WATCHED])
    const before = times(methods, 'notifications/cancelled')
    await open.close()
    await expect.poll(() => times(methods, 'notifications/cancelled')).toBeGreaterThan(before)
  })

  it('has a client of 2025-11-25 that subscribes hear of its changes', async () => {
    const { url, handler } = await newer()
    const state = folder.folder
    const bridged = await startBridge({ name: `older ${++count}`, resources: [url], state })
    ends.push(() => bridged.close())
    if (!(bridged.client instanceof OlderClient)) throw new Error('no client of the SDK 1.x')
    const updates: string[] = []
    bridged.client.setNotificationHandler(
      ResourceUpdatedNotificationSchema,
      ({ params }) => void updates.push(params.uri),
    )
    expect(await bridged.client.subscribeResource({ uri: WATCHED })).toEqual({})
    handler.notify.resourceUpdated(WATCHED)
    await expect.poll(() => updates).toEqual([WATCHED])
  })

  it('is asked again when its stream broke off, and the client hears that the resource may have changed', async () => {
    const { url, http, methods, handler } = await newer()
    const client = await overStdio(url)
    const updates = updatesOf(client)
    await client.listen({ resourceSubscriptions: [WATCHED] })
    const before = times(methods, 'subscriptions/listen')
    http.closeAllConnections()
    await expect.poll(() => updates).toEqual([WATCHED])
    expect(times(methods, 'subscriptions/listen')).toBeGreaterThan(before)
    handler.notify.resourceUpdated(WATCHED)
    await expect.poll(() => updates).toEqual([WATCHED, WATCHED])
  })
})
