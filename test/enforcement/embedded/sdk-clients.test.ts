/** The official SDK's own clients, of both revisions, before an MCP server that enforces by itself. MCP 2025-11-25 and 2026-07-28. */
import {
  Client as Client2,
  StreamableHTTPClientTransport as Http2,
  type FetchLike,
} from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer as Server1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer as Server2 } from '@modelcontextprotocol/server'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { signedHeaders } from '../../../src/agent/proof.ts'
import type { NodeHandler } from '../../../src/enforcement/embedded/index.ts'
import { parseChallenge } from '../../../src/wire/challenge.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import {
  serve,
  singleUseGrant,
  standEmbedded,
  standingGrant,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../../support/scripted-authority.ts'
import { newKey, nowSeconds, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
let authority: ScriptedAuthority
let stand: EmbeddedStand
let executed: unknown[]
let versions: (string | null)[]
let open: (() => Promise<void>)[]

beforeAll(async () => {
  authority = await startScriptedAuthority()
})
afterAll(() => authority.close())
beforeEach(async () => {
  authority.reset()
  executed = []
  versions = []
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
  /** Set: calls are sent under it. */
  wallet: { token?: string }
  /** The answers that were denials. */
  denied: Response[]
}

/** What the SDK sends, signed where there is a grant; the SDK itself knows nothing of it. */
function signingFetch(session: Session): FetchLike {
  return async (url, init = {}) => {
    const headers = new Headers(init.headers)
    versions.push(headers.get('mcp-protocol-version'))
    const { token } = session.wallet
    if (token !== undefined && typeof init.body === 'string') {
      const request = {
        method: init.method ?? 'GET',
        url: new URL(`${PUBLIC_URL}/mcp/alice`),
        body: init.body,
        accessToken: token,
      }
      const proof = signedHeaders(request, { key: agent, now: nowSeconds })
      for (const [name, value] of Object.entries(proof)) headers.set(name, value)
    }
    const response = await fetch(url, { ...init, headers })
    if (response.status >= 400 && response.status !== 405) session.denied.push(response.clone())
    return response
  }
}

async function connect(handler: NodeHandler, client: Client1 | Client2): Promise<Session> {
  const { port, close } = await serve(stand.point.protect(handler))
  open.push(close)
  const session: Session = {
    wallet: {},
    denied: [],
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: (name, args) => client.callTool({ name, ...(args && { arguments: args }) }),
  }
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  const options = { fetch: signingFetch(session) }
  if (client instanceof Client1) await client.connect(new Http1(url, options))
  else await client.connect(new Http2(url, options))
  open.push(() => client.close())
  return session
}

const NAME = { name: 'test', version: '1' }
const client1 = (): Client1 => new Client1(NAME)
const client2 = (pin: string): Client2 => new Client2(NAME, { versionNegotiation: { mode: { pin } } })

describe.each([
  ['1.x (2025-11-25), server 1.x', '2025-11-25', () => connect(handler1, client1())],
  ['1.x (2025-11-25), server 2.x', '2025-11-25', () => connect(handler2(), client1())],
  ['2.x (2026-07-28), server 2.x', '2026-07-28', () => connect(handler2(), client2('2026-07-28'))],
])('A client of the SDK %s', (_what, version, start) => {
  test('connects and lists tools without a grant', async () => {
    const session = await start()
    expect(await session.list()).toEqual(['portfolio_read', 'place_trade'])
    expect([authority.received, session.denied]).toEqual([[], []])
    expect(versions).toContain(version)
  })

  test('is challenged for a call, and let through under the grant', async () => {
    const session = await start()
    await expect(session.call('portfolio_read')).rejects.toThrow()
    const [refused] = session.denied as [Response]
    expect(refused.status).toBe(401)
    expect(parseChallenge([refused.headers.get('www-authenticate')!]).as_uri).toBe(authority.issuer)
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
    expect(session.denied.map(({ status }) => status)).toEqual([403, 401])
    expect(executed).toEqual([['place_trade', TRADE]])
  })
})
