/**
 * A tool that its client runs as a task (MCP 2025-11-25), over a transport without a status line: the call
 * and each question about the task are judged by `guard`, as the map names them. contract, "Authorized call"
 * and "Single-use grant".
 */
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import {
  CallToolResultSchema,
  CreateTaskResultSchema,
  GetTaskResultSchema,
  ListTasksResultSchema,
  type JSONRPCMessage,
} from '@modelcontextprotocol/sdk/types.js'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { proveMessage } from '../../../src/agent/index.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { JsonObject } from '../../../src/wire/json.ts'
import {
  embeddedOwner,
  singleUseGrant,
  standEmbedded,
  standingGrant,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, nowSeconds, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
const authority = startedOnce(startScriptedAuthority)
const open: (() => Promise<unknown>)[] = []
let stand: EmbeddedStand
/** The grant that requests are signed under; without one they go bare. */
let token: string | undefined

beforeEach(() => {
  authority.reset()
  token = undefined
})
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close()
})

/** A client before a guarded server whose methods of tasks are mapped so. */
async function clientOf(mapping: { methods?: object; open_methods?: string[] }): Promise<Client> {
  const { methods = {}, open_methods = [] } = mapping
  stand = await standEmbedded(authority.issuer, {
    owners: [embeddedOwner(authority.issuer, { methods })],
    open_methods,
  })
  open.push(() => stand.close())
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await serverOf().connect(stand.point.guard(theirs, 'alice'))
  const send = ours.send.bind(ours)
  ours.send = (message: JSONRPCMessage) => {
    const { method = '' } = message as { method?: string }
    const accessToken = /^(tools\/call$|tasks\/)/.test(method) ? token : undefined
    if (accessToken === undefined) return send(message)
    const bare = JSON.parse(JSON.stringify(message)) as JsonObject
    const resource = `${PUBLIC_URL}/mcp/alice`
    return send(proveMessage({ resource, message: bare, accessToken, key: agent }) as never)
  }
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(ours)
  open.push(() => client.close())
  return client
}

/** `place_trade` may be run as a task. */
function serverOf(): McpServer {
  const taskStore = new InMemoryTaskStore()
  const capabilities = { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }
  const server = new McpServer({ name: 'tasks', version: '1' }, { capabilities, taskStore })
  server.experimental.tasks.registerToolTask(
    'place_trade',
    {
      inputSchema: { symbol: z.string().optional(), qty: z.number().optional() },
      execution: { taskSupport: 'optional' },
    },
    {
      createTask: async ({ qty }, { taskStore: store }) => {
        const task = await store.createTask({ ttl: 60_000 })
        const content = [{ type: 'text' as const, text: `bought ${qty}` }]
        await store.storeTaskResult(task.taskId, 'completed', { content })
        return { task }
      },
      getTask: (_args, { taskId, taskStore: store }) => store.getTask(taskId),
      getTaskResult: async (_args, { taskId, taskStore: store }) =>
        (await store.getTaskResult(taskId)) as { content: [] },
    },
  )
  return server
}

/** Makes the task under a grant for that one call. */
async function taskOf(client: Client): Promise<{ taskId: string }> {
  token = singleUseGrant(authority, agent, { tool: 'place_trade', params_s256: s256Json(TRADE) })
  const params = { name: 'place_trade', arguments: TRADE, task: { ttl: 60_000 } }
  const { task } = await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)
  return { taskId: task.taskId }
}
const statusOf = (client: Client, params: { taskId: string }) =>
  client.request({ method: 'tasks/get', params }, GetTaskResultSchema)
const resultOf = (client: Client, params: { taskId: string }) =>
  client.request({ method: 'tasks/result', params }, CallToolResultSchema)
const ofTrades = (): string => {
  const permissions = [{ resource_id: 'alice/trades', resource_scopes: ['trade'], exp: nowSeconds() + 600 }]
  return standingGrant(authority, agent, { permissions, consequence: 'irreversible' })
}

describe('A task at a guarded server', () => {
  test('whose questions are mapped to its tool is fetched under a standing grant of that, and under no other', async () => {
    const tool = { tool: 'place_trade' }
    const client = await clientOf({ methods: { 'tasks/get': tool, 'tasks/result': tool } })
    const task = await taskOf(client)
    // The grant of the call is spent.
    await expect(statusOf(client, task)).rejects.toMatchObject({ code: -32_001 })
    token = undefined
    await expect(statusOf(client, task)).rejects.toMatchObject({ code: -32_001, data: { scope: 'trade' } })
    token = standingGrant(authority, agent)
    await expect(resultOf(client, task)).rejects.toMatchObject({ code: -32_001, data: { scope: 'trade' } })
    token = ofTrades()
    expect(await statusOf(client, task)).toMatchObject({ status: 'completed' })
    expect((await resultOf(client, task)).content).toMatchObject([{ text: 'bought 2' }])
    expect(authority.count('/consume')).toBe(1)
    const listed = client.request({ method: 'tasks/list' }, ListTasksResultSchema)
    await expect(listed).rejects.toMatchObject({ code: -32_601 })
  })

  test('whose questions tasks/* opens is fetched under any standing grant', async () => {
    const client = await clientOf({ open_methods: ['tasks/*'] })
    const task = await taskOf(client)
    token = undefined
    await expect(statusOf(client, task)).rejects.toMatchObject({
      code: -32_002,
      data: { error: 'invalid_token' },
    })
    token = standingGrant(authority, agent)
    expect(await statusOf(client, task)).toMatchObject({ status: 'completed' })
    expect((await resultOf(client, task)).content).toMatchObject([{ text: 'bought 2' }])
    const { tasks } = await client.request({ method: 'tasks/list' }, ListTasksResultSchema)
    expect(tasks).toMatchObject([task])
  })

  test('is not fetched at all where nothing names its methods', async () => {
    const client = await clientOf({})
    const task = await taskOf(client)
    token = ofTrades()
    await expect(statusOf(client, task)).rejects.toMatchObject({ code: -32_601 })
    await expect(resultOf(client, task)).rejects.toMatchObject({ code: -32_601 })
  })
})
