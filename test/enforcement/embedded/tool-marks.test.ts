/**
 * contract, "What the service does": a server that enforces by itself tells its client what calling each tool
 * takes.
 */
import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { McpServer } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { proveMessage } from '../../../src/agent/index.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { JsonObject } from '../../../src/wire/json.ts'
import { singleUseGrant, standEmbedded, standingGrant, type EmbeddedStand } from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
const authority = startedOnce(startScriptedAuthority)
let stand: EmbeddedStand
let client: Client
let token: string | undefined
let changes: number

beforeEach(async () => {
  authority.reset()
  token = undefined
  changes = 0
  stand = await standEmbedded(authority.issuer)
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const server = new McpServer({ name: 'tools', version: '1' })
  const inputSchema = z.object({ symbol: z.string().optional(), qty: z.number().optional() })
  // The server's own word on access counts for nothing.
  const _meta = { 'usher/access': 'free', other: 1 }
  for (const name of ['portfolio_read', 'place_trade', 'unheard_of'])
    server.registerTool(name, { inputSchema, _meta, annotations: { readOnlyHint: true } }, () => ({
      content: [],
    }))
  await server.connect(stand.point.guard(theirs, 'alice'))
  const plain = ours.send.bind(ours) as unknown as (message: object) => Promise<void>
  const send = (message: object): Promise<void> => {
    if (token === undefined || (message as { method?: string }).method !== 'tools/call') return plain(message)
    const bare = JSON.parse(JSON.stringify(message)) as JsonObject
    const resource = `${PUBLIC_URL}/mcp/alice`
    return plain(proveMessage({ resource, message: bare, accessToken: token, key: agent }))
  }
  client = new Client({ name: 'test', version: '1' })
  client.setNotificationHandler('notifications/tools/list_changed', () => void changes++)
  await client.connect(Object.assign(ours, { send }))
})
afterEach(async () => {
  await client.close()
  await stand.close()
})

const marks = async () => {
  const { tools } = await client.listTools({}, { cacheMode: 'refresh' })
  return Object.fromEntries(tools.map(({ name, _meta }) => [name, _meta?.['usher/access']]))
}
const call = (name: string, args = {}) => client.callTool({ name, arguments: args }).catch(() => undefined)

test('before any call each configured tool asks, and what is not configured is closed, whatever the server says of it', async () => {
  expect(await marks()).toEqual({ portfolio_read: 'asks', place_trade: 'asks', unheard_of: 'closed' })
  const { tools } = await client.listTools({}, { cacheMode: 'refresh' })
  expect(tools[0]).toMatchObject({ _meta: { other: 1 }, annotations: { readOnlyHint: true } })
})

test('under a standing grant the tool is free, until a call of it is challenged', async () => {
  token = standingGrant(authority, agent)
  await call('portfolio_read')
  expect(await marks()).toMatchObject({ portfolio_read: 'free', place_trade: 'asks' })
  token = undefined
  await call('portfolio_read')
  expect(await marks()).toMatchObject({ portfolio_read: 'asks' })
})

test('a tool that is approved each time asks also after a call of it', async () => {
  token = singleUseGrant(authority, agent, { tool: 'place_trade', params_s256: s256Json(TRADE) })
  expect(await call('place_trade', TRADE)).toBeDefined()
  expect(await marks()).toMatchObject({ place_trade: 'asks' })
})

test('an outage changes no mark', async () => {
  token = standingGrant(authority, agent)
  await call('portfolio_read')
  authority.script('/introspect', 'cut')
  await call('portfolio_read')
  expect(await marks()).toMatchObject({ portfolio_read: 'free' })
})

test('the client is told when a mark became another one: after a grant, and when that ended', async () => {
  await marks()
  await call('portfolio_read')
  expect(changes).toBe(0)
  token = standingGrant(authority, agent)
  await call('portfolio_read')
  await call('portfolio_read')
  expect(changes).toBe(1)
  token = undefined
  await call('portfolio_read')
  expect(changes).toBe(2)
})
