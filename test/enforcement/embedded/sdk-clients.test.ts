/**
 * The official SDK's own clients, of both revisions, before an MCP server that enforces by itself. MCP
 * 2025-11-25 and 2026-07-28.
 */
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as Server1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer as Server2 } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { NodeHandler } from '../../../src/enforcement/doors/embedded/index.ts'
import { parseChallenge } from '../../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  serve,
  singleUseGrant,
  standEmbedded,
  standingGrant,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import {
  connect1,
  connect2,
  newWallet,
  signingFetch,
  type Connected,
  type Wallet,
} from '../../support/mcp-clients.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
let stand: EmbeddedStand
let executed: unknown[]
let open: (() => Promise<void>)[]

const authority = startedOnce(startScriptedAuthority)
beforeEach(async () => {
  authority.reset()
  executed = []
  open = []
  stand = await standEmbedded(authority.issuer)
})
afterEach(async () => {
  for (const close of open.reverse()) await close()
  await stand.close()
})

const INPUT = { symbol: z.string().optional(), qty: z.number().optional() }
const execute = (tool: string, args: unknown) => {
  executed.push([tool, args])
  return { content: [{ type: 'text' as const, text: `did ${tool}` }] }
}

/** A stateless server of the SDK 1.x, one per request. */
const handler1: NodeHandler = async (request, response, body) => {
  const server = new Server1({ name: 'tools', version: '1' })
  for (const name of ['portfolio_read', 'place_trade'])
    server.registerTool(name, { inputSchema: INPUT }, args => execute(name, args))
  const transport = new StreamableHTTPServerTransport({})
  await server.connect(transport)
  await transport.handleRequest(request, response, body)
}

function handler2(): NodeHandler {
  const handler = createMcpHandler(() => {
    const server = new Server2({ name: 'tools', version: '1' })
    for (const name of ['portfolio_read', 'place_trade'])
      server.registerTool(name, { inputSchema: z.object(INPUT) }, args => execute(name, args))
    return server
  })
  open.push(() => handler.close())
  return toNodeHandler(handler) as NodeHandler
}

interface Session {
  list(): Promise<string[]>
  call(name: string, args?: Record<string, unknown>): Promise<unknown>
  wallet: Wallet
}

type Start = (url: URL, fetch: typeof globalThis.fetch) => Promise<Connected>

async function connect(handler: NodeHandler, start: Start): Promise<Session> {
  const { port, close } = await serve(stand.point.protect(handler))
  open.push(close)
  const wallet = newWallet(agent)
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  const { client } = await start(url, signingFetch(wallet, `${PUBLIC_URL}/mcp/alice`))
  open.push(() => client.close())
  return {
    wallet,
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: (name, args) => client.callTool({ name, ...(args && { arguments: args }) }),
  }
}

const pinned: Start = (url, fetch) => connect2(url, fetch, { pin: '2026-07-28' })

describe.each([
  ['1.x (2025-11-25), server 1.x', '2025-11-25', () => connect(handler1, connect1)],
  ['1.x (2025-11-25), server 2.x', '2025-11-25', () => connect(handler2(), connect1)],
  ['2.x (2026-07-28), server 2.x', '2026-07-28', () => connect(handler2(), pinned)],
])('A client of the SDK %s', (_what, version, start) => {
  test('connects and lists tools without a grant', async () => {
    const session = await start()
    expect(await session.list()).toEqual(['portfolio_read', 'place_trade'])
    expect([authority.received, session.wallet.denied]).toEqual([[], []])
    expect(session.wallet.versions).toContain(version)
  })

  test('is challenged for a call, and let through under the grant', async () => {
    const session = await start()
    await expect(session.call('portfolio_read')).rejects.toThrow()
    const [refused] = session.wallet.denied
    expect(refused!.status).toBe(401)
    expect(parseChallenge([refused!.headers.get('www-authenticate')!]).as_uri).toBe(authority.issuer)
    session.wallet.token = standingGrant(authority, agent)
    expect(await session.call('portfolio_read')).toMatchObject({
      content: [{ text: 'did portfolio_read' }],
    })
    expect(executed).toEqual([['portfolio_read', {}]])
  })

  test('executes a single-use call once, with the approved parameters', async () => {
    const session = await start()
    const operation = { tool: 'place_trade', params_s256: s256Json(TRADE) }
    session.wallet.token = singleUseGrant(authority, agent, operation)
    await expect(session.call('place_trade', { ...TRADE, qty: 3 })).rejects.toThrow()
    await session.call('place_trade', TRADE)
    await expect(session.call('place_trade', TRADE)).rejects.toThrow()
    expect(session.wallet.denied.map(({ status }) => status)).toEqual([403, 401])
    expect(executed).toEqual([['place_trade', TRADE]])
  })
})
