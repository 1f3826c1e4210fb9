import { Client as Client2, InMemoryTransport as Memory2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport as Memory1 } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer as Server1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { McpServer as Server2 } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { proveMessage } from '../../../src/agent/index.ts'
import { isChallengeData, parseChallengeData } from '../../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { JsonObject } from '../../../src/wire/json.ts'
import { singleUseGrant, standEmbedded, standingGrant, type EmbeddedStand } from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { until } from '../../support/until.ts'
import { newKey, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
let stand: EmbeddedStand
let executed: { tool: string; args: unknown; meta: unknown }[]

const authority = startedOnce(startScriptedAuthority)
beforeEach(async () => {
  authority.reset()
  executed = []
  stand = await standEmbedded(authority.issuer)
})
afterEach(() => stand.close())

/** What a client sends is given a proof where a grant is set. */
interface Wallet {
  token?: string
  key: typeof agent
}

interface Sending {
  send(message: never, options?: never): Promise<void>
}

function signing<T extends Sending>(transport: T, wallet: Wallet): T {
  const plain = transport.send.bind(transport) as unknown as (message: object) => Promise<void>
  const send = async (message: object): Promise<void> => {
    const { token, key } = wallet
    const isCall = (message as { method?: string }).method === 'tools/call'
    if (token === undefined || !isCall) return plain(message)
    const bare = JSON.parse(JSON.stringify(message)) as JsonObject
    await plain(proveMessage({ resource: `${PUBLIC_URL}/mcp/alice`, message: bare, accessToken: token, key }))
  }
  return Object.assign(transport, { send })
}

const answer = (tool: string, args: unknown, meta: unknown) => {
  executed.push({ tool, args, meta })
  return { content: [{ type: 'text' as const, text: `did ${tool}` }] }
}

interface Peer {
  call(params: { name: string; arguments?: Record<string, unknown> }): Promise<unknown>
  list(): Promise<string[]>
  wallet: Wallet
  close(): Promise<void>
}

async function sdk1(): Promise<Peer> {
  const [ours, theirs] = Memory1.createLinkedPair()
  const server = new Server1({ name: 'tools', version: '1' })
  const tool = { inputSchema: { symbol: z.string().optional(), qty: z.number().optional() } }
  for (const name of ['portfolio_read', 'place_trade'])
    server.registerTool(name, tool, (args, { _meta }) => answer(name, args, _meta))
  await server.connect(stand.point.guard(theirs, 'alice'))
  const wallet: Wallet = { key: agent }
  const client = new Client1({ name: 'test', version: '1' })
  await client.connect(signing(ours, wallet))
  return {
    call: params => client.callTool(params),
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    wallet,
    close: () => client.close(),
  }
}

async function sdk2(): Promise<Peer> {
  const [ours, theirs] = Memory2.createLinkedPair()
  const server = new Server2({ name: 'tools', version: '1' })
  addTools2(server)
  await server.connect(stand.point.guard(theirs, 'alice'))
  const wallet: Wallet = { key: agent }
  const client = new Client2({ name: 'test', version: '1' })
  await client.connect(signing(ours, wallet))
  return {
    call: params => client.callTool(params),
    list: async () => (await client.listTools()).tools.map(({ name }) => name),
    wallet,
    close: () => client.close(),
  }
}

function addTools2(server: Server2): Server2 {
  const inputSchema = z.object({ symbol: z.string().optional(), qty: z.number().optional() })
  for (const name of ['portfolio_read', 'place_trade'])
    server.registerTool(name, { inputSchema }, (args, { mcpReq }) => answer(name, args, mcpReq._meta))
  return server
}

interface RpcError {
  code: number
  message: string
  data: JsonObject
}
const errorOf = (call: Promise<unknown>): Promise<RpcError> =>
  call.then(
    () => {
      throw new Error('the call passed')
    },
    (error: unknown) => error as RpcError,
  )

describe.each([
  ['1.x', sdk1],
  ['2.x', sdk2],
])('A server of the SDK %s whose transport has no status line', (_version, open) => {
  test('shakes hands and lists its tools without a grant', async () => {
    const peer = await open()
    expect(await peer.list()).toEqual(['portfolio_read', 'place_trade'])
    expect(authority.received).toEqual([])
    await peer.close()
  })

  test('challenges a call with the JSON-RPC error -32001, whose data is the challenge', async () => {
    const peer = await open()
    const { code, data } = await errorOf(peer.call({ name: 'portfolio_read' }))
    expect([code, isChallengeData(data)]).toEqual([-32001, true])
    expect(Object.keys(data).sort()).toEqual([
      'as_uri',
      'authorization_remediation',
      'error',
      'realm',
      'resource_metadata',
      'scope',
      'ticket',
    ])
    expect(parseChallengeData(data)).toMatchObject({
      as_uri: authority.issuer,
      realm: 'tools',
      scope: 'read',
      resource_metadata: `${PUBLIC_URL}/.well-known/oauth-protected-resource/mcp/alice`,
    })
    expect(executed).toEqual([])
    await peer.close()
  })

  test('lets a proven call through, tells the tool who calls, and never shows it the credential', async () => {
    const peer = await open()
    peer.wallet.token = standingGrant(authority, agent)
    await peer.call({ name: 'portfolio_read' })
    expect(executed).toHaveLength(1)
    expect(executed[0]!.meta).toMatchObject({
      'usher/caller': { owner: 'alice', agent: `jkt:${agent.thumbprint}`, tool: 'portfolio_read' },
    })
    expect(JSON.stringify(executed)).not.toContain('PoP ')
    await peer.close()
  })

  test('refuses others with -32002: a thief, an unknown tool, a spent single-use grant', async () => {
    const peer = await open()
    peer.wallet.token = standingGrant(authority, agent)
    peer.wallet.key = newKey()
    expect(await errorOf(peer.call({ name: 'portfolio_read' }))).toMatchObject({
      code: -32002,
      data: { error: 'invalid_token', status: 401 },
    })
    peer.wallet.key = agent
    expect(await errorOf(peer.call({ name: 'close_account' }))).toMatchObject({
      code: -32002,
      data: { error: 'unknown_tool', status: 403 },
    })
    peer.wallet.token = singleUseGrant(authority, agent, {
      tool: 'place_trade',
      params_s256: s256Json(TRADE),
    })
    const other = peer.call({ name: 'place_trade', arguments: { ...TRADE, qty: 3 } })
    expect((await errorOf(other)).data).toEqual({ error: 'operation_mismatch', status: 403 })
    await peer.call({ name: 'place_trade', arguments: TRADE })
    const again = await errorOf(peer.call({ name: 'place_trade', arguments: TRADE }))
    expect([again.code, isChallengeData(again.data)]).toEqual([-32001, true])
    expect(executed.map(({ tool, args }) => [tool, args])).toEqual([['place_trade', TRADE]])
    await peer.close()
  })

  test('tells an outage apart from a denial', async () => {
    const peer = await open()
    peer.wallet.token = standingGrant(authority, agent)
    authority.script('/introspect', 'cut')
    expect((await errorOf(peer.call({ name: 'portfolio_read' }))).data).toEqual({
      error: 'temporarily_unavailable',
      status: 503,
      grant_unspent: true,
    })
    await peer.close()
  })
})

describe('A guarded transport', () => {
  /** The two ends of a stdio pipe, in lines. */
  function stdio() {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const heard: JsonObject[] = []
    output.on('data', (chunk: Buffer) => {
      for (const line of chunk.toString().trim().split('\n')) heard.push(JSON.parse(line) as JsonObject)
    })
    const transport = stand.point.guard(new StdioServerTransport(input, output), 'alice')
    const handle = serveStdio(() => addTools2(new Server2({ name: 'tools', version: '1' })), { transport })
    return { say: (line: string) => void input.write(`${line}\n`), heard, close: () => handle.close() }
  }
  const call = (id: number, params: object): JsonObject =>
    JSON.parse(JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })) as JsonObject
  const SHAKE = JSON.stringify({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    },
  })
  const proven = (message: JsonObject, token: string): JsonObject =>
    proveMessage({ resource: `${PUBLIC_URL}/mcp/alice`, message, accessToken: token, key: agent })

  test('judges what a stdio pipe carries, line by line', async () => {
    const pipe = stdio()
    pipe.say(SHAKE)
    await until(() => pipe.heard.length === 1)
    pipe.say(JSON.stringify(call(1, { name: 'portfolio_read' })))
    await until(() => pipe.heard.length === 2)
    expect(pipe.heard[1]).toMatchObject({ id: 1, error: { code: -32001 } })
    const token = standingGrant(authority, agent)
    pipe.say(JSON.stringify(proven(call(2, { name: 'portfolio_read' }), token)))
    await until(() => pipe.heard.length === 3)
    expect(pipe.heard[2]).toMatchObject({ id: 2, result: { content: [{ text: 'did portfolio_read' }] } })
    await pipe.close()
  })

  test('executes what was judged: arguments changed after they were signed are refused', async () => {
    const pipe = stdio()
    pipe.say(SHAKE)
    const token = standingGrant(authority, agent)
    const message = proven(call(1, { name: 'portfolio_read', arguments: { qty: 1 } }), token)
    const changed = JSON.stringify(message).replace('"qty":1', '"qty":2')
    pipe.say(changed)
    await until(() => pipe.heard.length === 2)
    expect(pipe.heard[1]).toMatchObject({ error: { code: -32002, data: { error: 'invalid_token' } } })
    expect(executed).toEqual([])
    await pipe.close()
  })

  test('a call that is cancelled while it is judged leaves the grant unspent', async () => {
    const pipe = stdio()
    pipe.say(SHAKE)
    await until(() => pipe.heard.length === 1)
    const operation = { tool: 'place_trade', params_s256: s256Json(TRADE) }
    const token = singleUseGrant(authority, agent, operation)
    const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as object
    authority.script('/introspect', { status: 200, body: { active: true, ...claims }, delayMs: 200 })
    pipe.say(JSON.stringify(proven(call(7, { name: 'place_trade', arguments: TRADE }), token)))
    await until(() => authority.count('/introspect') === 1)
    pipe.say(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }))
    await until(() => stand.lines.some(({ step }) => step === 'consume'))
    expect([authority.count('/consume'), executed]).toEqual([0, []])
    await pipe.close()
  })

  test('a client cannot say who calls, and a notification that is denied is not answered', async () => {
    const pipe = stdio()
    pipe.say(SHAKE)
    const token = standingGrant(authority, agent)
    const forged = call(1, { name: 'portfolio_read', _meta: { 'usher/caller': { owner: 'mallory' } } })
    pipe.say(JSON.stringify({ jsonrpc: '2.0', method: 'resources/subscribe' }))
    pipe.say(JSON.stringify(proven(forged, token)))
    await until(() => executed.length === 1)
    expect(executed[0]!.meta).toMatchObject({ 'usher/caller': { owner: 'alice' } })
    expect(pipe.heard.map(({ id }) => id)).toEqual([0, 1])
    await pipe.close()
  })

  test('refuses what came over HTTP: the bytes that were signed are gone by then', async () => {
    const [ours, theirs] = Memory1.createLinkedPair()
    const guarded = stand.point.guard(theirs, 'alice')
    const received: unknown[] = []
    guarded.onmessage = message => received.push(message)
    const heard: unknown[] = []
    ours.onmessage = message => heard.push(message)
    const list = { jsonrpc: '2.0' as const, id: 1, method: 'tools/list' }
    ;(theirs.onmessage as (message: object, extra: object) => void)(list, { requestInfo: { headers: {} } })
    await until(() => heard.length === 1)
    expect([received, heard]).toMatchObject([
      [],
      [{ error: { code: -32002, data: { error: 'temporarily_unavailable', status: 503 } } }],
    ])
  })

  test('is not made for an owner whom nobody configured', () => {
    const [, theirs] = Memory1.createLinkedPair()
    expect(() => stand.point.guard(theirs, 'mallory')).toThrow(/no owner mallory/)
  })
})
