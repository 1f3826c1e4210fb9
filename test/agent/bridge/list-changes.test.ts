/**
 * Changes of the lists of prompts and resources, from servers of both revisions of MCP to clients of both.
 * contract, "What the service does": the client is unmodified.
 */
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  Client as ModernClient,
  StreamableHTTPClientTransport,
  type McpSubscription,
} from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { createMcpHandler, Server, type McpHttpHandler } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { serveOnLoopback } from '../../../src/agent/bridge/listen.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { bridgeFolder, startBridge, type BridgedClient, type ClientKind } from '../../support/bridge.ts'
import { startConformanceTools } from '../../support/conformance-server.ts'
import { plainOptions } from '../../support/opened-bridge.ts'

let folder: Awaited<ReturnType<typeof bridgeFolder>>
const ends: (() => unknown)[] = []
beforeEach(async () => {
  folder = await bridgeFolder()
})
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
  await folder.remove()
})

/** A server whose lists change when it is told so. */
interface Changing {
  url: string
  change: (bridged: ModernClient | Client) => Promise<unknown>
}

async function older(): Promise<Changing> {
  const tools: ToolServer = await startConformanceTools(0)
  ends.push(() => tools.stop())
  return {
    url: `http://127.0.0.1:${tools.port}/mcp/alice`,
    change: client => client.callTool({ name: 'change_lists' }),
  }
}

async function newer(): Promise<Changing> {
  const capabilities = { tools: {}, prompts: { listChanged: true }, resources: { listChanged: true } }
  const page = { ttlMs: 0, cacheScope: 'private' as const }
  const handler: McpHttpHandler = createMcpHandler(() => {
    const server = new Server({ name: 's', version: '1' }, { capabilities })
    server.setRequestHandler('tools/list', () => ({ tools: [], ...page }))
    server.setRequestHandler('prompts/list', () => ({ prompts: [], ...page }))
    server.setRequestHandler('resources/list', () => ({ resources: [], ...page }))
    return server
  })
  const serve = toNodeHandler(handler)
  const http: HttpServer = createServer(
    (request, response) => void serve(request as Parameters<typeof serve>[0], response),
  )
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  ends.push(async () => {
    await handler.close()
    http.closeAllConnections()
    http.close()
  })
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    change: async () => {
      handler.notify.promptsChanged()
      handler.notify.resourcesChanged()
    },
  }
}

type Lists = 'prompts' | 'resources'

/** What the client hears of these lists, in order; that of tools also changes by a call of one. */
async function listen(client: Client | ModernClient): Promise<{ changes: Lists[]; open?: McpSubscription }> {
  const changes: Lists[] = []
  if (client instanceof Client) {
    client.setNotificationHandler(PromptListChangedNotificationSchema, () => void changes.push('prompts'))
    client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void changes.push('resources'))
    return { changes }
  }
  for (const list of ['prompts', 'resources'] as const)
    client.setNotificationHandler(`notifications/${list}/list_changed`, () => void changes.push(list))
  const open = await client.listen({
    promptsListChanged: true,
    resourcesListChanged: true,
    resourceSubscriptions: ['test://watched-resource'],
  })
  return { changes, open }
}

let count = 0
async function bridged(kind: ClientKind, url: string): Promise<Client | ModernClient> {
  const started: BridgedClient = await startBridge({
    kind,
    name: `lists ${++count}`,
    resources: [url],
    state: folder.folder,
  })
  ends.push(() => started.close())
  return started.client!
}

/** After this the bridge is connected to the server, and hears what that says. */
async function look(client: Client | ModernClient): Promise<void> {
  await client.listTools()
  await client.listPrompts()
  await client.listResources()
}

describe.each<[string, () => Promise<Changing>]>([
  ['2025-11-25', older],
  ['2026-07-28', newer],
])('A server of MCP %s whose prompts and resources change', (_revision, start) => {
  it.each<ClientKind>(['1.x 2025-11-25', '2.x 2026-07-28'])(
    'has the client %s notified of each list, once',
    async kind => {
      const { url, change } = await start()
      const client = await bridged(kind, url)
      const { changes } = await listen(client)
      await look(client)
      await change(client)
      await expect.poll(() => changes.toSorted()).toEqual(['prompts', 'resources'])
      // What else the bridge had to say would have come before this answer.
      await client.listPrompts()
      expect(changes.toSorted()).toEqual(['prompts', 'resources'])
    },
  )
})

describe('A client of MCP 2026-07-28 that listens (subscriptions/listen)', () => {
  it('is told which changes it will hear of: those of lists, and of no resource whose server does not say so', async () => {
    const { url } = await newer()
    const { open } = await listen(await bridged('2.x 2026-07-28', url))
    expect(open?.honoredFilter).toEqual({ promptsListChanged: true, resourcesListChanged: true })
  })

  it('hears of each list once over HTTP, too', async () => {
    const { url, change } = await newer()
    const token = 'A'.repeat(43)
    const serving = await serveOnLoopback(plainOptions(url, folder.folder), {
      host: '127.0.0.1',
      port: 0,
      token,
    })
    ends.push(async () => {
      await serving.close()
      await serving.closed
    })
    const client = new ModernClient(
      { name: 'over http', version: '1' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    )
    const requestInit = { headers: { authorization: `Bearer ${token}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(serving.address!), { requestInit }))
    ends.push(() => client.close())
    const { changes } = await listen(client)
    await look(client)
    await change(client)
    await expect.poll(() => changes.toSorted()).toEqual(['prompts', 'resources'])
  })
})
