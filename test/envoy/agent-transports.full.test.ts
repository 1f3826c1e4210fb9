/**
 * Our agent inside the official SDK's clients, end to end: a tool server that enforces by itself, a real
 * authority and its owner. contract, "Challenge (beat 1)" ("Where there is no status line"), beats 1 to
 * 4.
 */
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Client as Client2, InMemoryTransport as Memory2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport as Memory1 } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer as Server1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { inputRequired, McpServer as Server2 } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { createAgent, memoryStore, type Agent, type AgentEvent } from '../../src/agent/index.ts'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { embed, type EnforcementPoint } from '../../src/enforcement/doors/embedded/index.ts'
import { createOwnerClient, type OwnerClient } from '../../src/owner/index.ts'
import { newKey } from '../enforcement/calls.ts'
import { connect1, connect2 } from '../support/mcp-clients.ts'
import { startStack } from '../support/stack.ts'
import { until } from '../support/until.ts'

const TRADE = { symbol: 'VTI', qty: 2 }
const INPUT = { symbol: z.string().optional(), qty: z.number().optional() }
const NAME = { name: 'test', version: '1' }

let stack: Stack
let point: EnforcementPoint
let owner: OwnerClient
let agent: Agent
let events: AgentEvent[]
let decision: 'approved' | 'denied' | undefined
let executed: [string, unknown, unknown][]
let open: (() => Promise<unknown>)[]

beforeAll(async () => {
  stack = await startStack({})
  point = await embed(join(stack.directory, 'embedded.yaml'), {
    environment: { UMA_DEV_LOOPBACK: 'true', UMA_PEP_LOG_LEVEL: 'fatal' },
  })
  owner = createOwnerClient({ api: stack.ownerApi, issuer: stack.issuer, key: stack.household.ownerKey })
})
afterAll(async () => {
  await point?.close()
  await stack?.stop()
})
beforeEach(() => {
  events = []
  executed = []
  open = []
  decision = 'approved'
  agent = createAgent({
    key: newKey(),
    store: memoryStore(),
    allowLoopback: true,
    waitSecondsMax: 30,
    onEvent: event => {
      events.push(event)
      if (event.type === 'waiting' && decision !== undefined) void owner.decide(event.family, decision)
    },
  })
})
afterEach(async () => {
  for (const close of open.reverse()) await close()
})

const kinds = (): string[] => events.map(({ type }) => type)
const execute = (tool: string, args: unknown, meta: unknown) => {
  executed.push([tool, args, meta])
  return { content: [{ type: 'text' as const, text: `did ${tool}` }] }
}

type Client = Client1 | Client2

/** The two ends of a pair in memory, the server's guarded, the client's authorized. */
async function inMemory1(): Promise<Client> {
  const [ours, theirs] = Memory1.createLinkedPair()
  const server = new Server1(NAME)
  for (const name of ['portfolio_read', 'place_trade'])
    server.registerTool(name, { inputSchema: INPUT }, (args, { _meta }) => execute(name, args, _meta))
  await server.connect(point.guard(theirs, 'alice'))
  const client = new Client1(NAME)
  await client.connect(agent.authorize(ours, stack.resource))
  return client
}

async function inMemory2(): Promise<Client> {
  const [ours, theirs] = Memory2.createLinkedPair()
  await server2().connect(point.guard(theirs, 'alice'))
  const client = new Client2(NAME)
  await client.connect(agent.authorize(ours, stack.resource))
  return client
}

/** Lines over pipes, revision 2026-07-28. */
async function overStdio(): Promise<Client> {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()]
  const transport = point.guard(new StdioServerTransport(toServer, toClient), 'alice')
  const served = serveStdio(server2, { transport })
  open.push(async () => served.close())
  // The same class reads and writes lines for either side.
  const ours = agent.authorize(new StdioServerTransport(toClient, toServer), stack.resource)
  const client = new Client2(NAME, {
    versionNegotiation: { mode: { pin: '2026-07-28' } },
    capabilities: { elicitation: { form: {} } },
  })
  client.setRequestHandler('elicitation/create', () => ({
    action: 'accept',
    content: { account: 'savings' },
  }))
  await client.connect(ours)
  return client
}

function server2(): Server2 {
  const server = new Server2(NAME)
  const inputSchema = z.object({ ...INPUT, ask: z.boolean().optional() })
  server.registerTool('portfolio_read', { inputSchema }, (args, { mcpReq }) =>
    execute('portfolio_read', args, mcpReq._meta),
  )
  server.registerTool('place_trade', { inputSchema }, (args, { mcpReq }) => {
    const { inputResponses } = mcpReq
    if (args.ask !== true || inputResponses !== undefined)
      return execute('place_trade', args, inputResponses ?? mcpReq._meta)
    return inputRequired({
      requestState: 'which account',
      inputRequests: {
        account: inputRequired.elicit({
          message: 'From which account?',
          requestedSchema: { type: 'object', properties: { account: { type: 'string' } } },
        }),
      },
    })
  })
  return server
}

const call = (client: Client, name: string, args: Record<string, unknown> = {}): Promise<unknown> =>
  client.callTool({ name, arguments: args })

describe.each([
  ['of the SDK 1.x, in memory', inMemory1],
  ['of the SDK 2.x, in memory', inMemory2],
  ['of the SDK 2.x over stdio, revision 2026-07-28', overStdio],
])('A client %s', (_what, connect) => {
  let client: Client
  beforeEach(async () => {
    client = await connect()
    open.push(() => client.close())
  })

  test('negotiates from the error -32001, waits for the owner, and the call passes', async () => {
    expect(await call(client, 'portfolio_read')).toMatchObject({ content: [{ text: 'did portfolio_read' }] })
    expect(kinds().join(' ')).toBe(
      'calling challenged authority_confirmed terms_offered agreement_signed waiting granted calling answered',
    )
    expect(executed).toMatchObject([
      ['portfolio_read', {}, { 'usher/caller': { owner: 'alice', agent: `jkt:${agent.thumbprint}` } }],
    ])
    expect(await agent.receipts()).toHaveLength(1)
  })

  test('uses a standing grant again, and lets everything else pass as it is', async () => {
    await call(client, 'portfolio_read')
    events.length = 0
    expect((await client.listTools()).tools).toHaveLength(2)
    await Promise.all([call(client, 'portfolio_read'), call(client, 'portfolio_read')])
    expect([kinds().filter(kind => kind === 'challenged'), executed.length]).toEqual([[], 3])
  })

  test('has a trade approved as it is executed, once each', async () => {
    await call(client, 'place_trade', TRADE)
    await call(client, 'place_trade', { ...TRADE, qty: 3 })
    expect(executed.map(([tool, args]) => [tool, args])).toEqual([
      ['place_trade', TRADE],
      ['place_trade', { ...TRADE, qty: 3 }],
    ])
    const signed = events.flatMap(event =>
      event.type === 'agreement_signed' ? [event.operation?.params] : [],
    )
    expect(signed).toEqual([TRADE, { ...TRADE, qty: 3 }])
  })

  test('hears the word of a refusal in the error: the owner denies, the tool has no tier', async () => {
    decision = 'denied'
    await expect(call(client, 'place_trade', TRADE)).rejects.toMatchObject({
      code: -32002,
      data: { error: 'request_denied' },
    })
    await expect(call(client, 'no_such_tool')).rejects.toMatchObject({
      code: -32002,
      data: { error: 'unknown_tool', status: 403 },
    })
    expect(executed).toEqual([])
  })

  test('cancels a call that waits for the owner: nobody goes on with it', async () => {
    decision = undefined
    const giving = new AbortController()
    const params = { name: 'place_trade', arguments: TRADE }
    const waiting =
      client instanceof Client1
        ? client.callTool(params, undefined, { signal: giving.signal })
        : client.callTool(params, { signal: giving.signal })
    waiting.catch(() => undefined)
    await until(() => kinds().includes('waiting'))
    giving.abort()
    await expect(waiting).rejects.toThrow()
    const family = events.flatMap(event => (event.type === 'waiting' ? [event.family] : []))[0]!
    await owner.decide(family, 'approved')
    // Takes a poll of its own, in which the one that was given up would have been granted.
    decision = 'approved'
    await call(client, 'place_trade', { ...TRADE, qty: 3 })
    expect(kinds().filter(kind => kind === 'granted')).toHaveLength(1)
    expect(executed.map(([tool, args]) => [tool, args])).toEqual([['place_trade', { ...TRADE, qty: 3 }]])
  })
})

test('A tool that asks back is called anew with the answers, and the owner approves them with the arguments', async () => {
  const client = await overStdio()
  open.push(() => client.close())
  const args = { ...TRADE, ask: true }
  expect(await call(client, 'place_trade', args)).toMatchObject({ content: [{ text: 'did place_trade' }] })
  const responses = { account: { action: 'accept', content: { account: 'savings' } } }
  const signed = events.flatMap(event => (event.type === 'agreement_signed' ? [event.operation?.params] : []))
  expect(signed).toMatchObject([
    args,
    { ...args, 'usher/inputResponses': responses, 'usher/requestState': expect.any(String) },
  ])
  expect(executed).toMatchObject([['place_trade', args, responses]])
})

test.each([
  ['1.x (2025-11-25)', connect1],
  [
    '2.x (2026-07-28)',
    (url: URL, fetch: typeof globalThis.fetch) => connect2(url, fetch, { pin: '2026-07-28' }),
  ],
])('A client of the SDK %s calls over HTTP with the fetch of the agent', async (_version, connect) => {
  const { record } = stack.toolServer
  record.executions.length = 0
  const { client } = await connect(new URL(stack.resource), agent.fetchFor(stack.resource))
  open.push(() => client.close())
  expect(await call(client, 'portfolio_read')).toMatchObject({ content: [{ text: '12 VTI, 40 BND' }] })
  await call(client, 'place_trade', TRADE)
  await call(client, 'portfolio_read')
  expect(kinds().filter(kind => kind === 'challenged')).toHaveLength(2)
  expect(record.executions.map(({ tool }) => tool)).toEqual([
    'portfolio_read',
    'place_trade',
    'portfolio_read',
  ])
  decision = 'denied'
  await expect(call(client, 'place_trade', { ...TRADE, qty: 3 })).rejects.toThrow(/request_denied/)
})
