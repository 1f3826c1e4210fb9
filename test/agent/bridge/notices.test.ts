/**
 * What a server says beside its answers, for the official clients: log messages, and changes of resources
 * that are followed. contract, "What the service does", and "Agreement (claim_token, beat 3)": what strangers
 * write is shown, never obeyed.
 */
import { Client as ModernClient } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  limitLogs,
  isGraveEnough,
  leastOf,
  levelIn,
  readLog,
  type Log,
} from '../../../src/agent/bridge/notices/logs.ts'
import { createSubscriptions } from '../../../src/agent/bridge/notices/subscriptions.ts'
import { passedMeta, withoutLevel } from '../../../src/agent/bridge/answers/message-meta.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { bridgeFolder, startBridge, type BridgedClient, type ClientKind } from '../../support/bridge.ts'
import { startConformanceTools } from '../../support/conformance-server.ts'

const WATCHED = 'test://watched-resource'
const open: BridgedClient[] = []
let tools: ToolServer
let folder: Awaited<ReturnType<typeof bridgeFolder>>
beforeEach(async () => {
  tools = await startConformanceTools(0)
  folder = await bridgeFolder()
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
  await tools.stop()
  await folder.remove()
})

let count = 0
/** A bridge in front of the server, which usher does not protect. */
async function startClient(kind: ClientKind): Promise<BridgedClient> {
  const resources = [`http://127.0.0.1:${tools.port}/mcp/alice`]
  const started = await startBridge({ kind, name: `notices ${++count}`, resources, state: folder.folder })
  open.push(started)
  return started
}

async function legacy(): Promise<{ client: Client; logs: unknown[]; updates: string[] }> {
  const { client } = await startClient('1.x 2025-11-25')
  if (!(client instanceof Client)) throw new Error('no client of the SDK 1.x')
  const logs: unknown[] = []
  const updates: string[] = []
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logs.push(params))
  client.setNotificationHandler(
    ResourceUpdatedNotificationSchema,
    ({ params }) => void updates.push(params.uri),
  )
  return { client, logs, updates }
}

const STEPS = ['Tool execution started', 'Tool processing data', 'Tool execution completed']

describe('A client of MCP 2025-11-25', () => {
  it('gets the log messages of a call before its answer', async () => {
    const { client, logs } = await legacy()
    await client.callTool({ name: 'test_tool_with_logging' })
    expect(logs).toEqual(STEPS.map(data => ({ level: 'info', data })))
  })

  it('gets no message below the level that it set, which its server hears too', async () => {
    const { client, logs } = await legacy()
    expect(await client.setLoggingLevel('warning')).toEqual({})
    await client.callTool({ name: 'test_tool_with_logging' })
    expect(logs).toEqual([])
    const levels = tools.record.arrivals.map(
      ({ body }) => JSON.parse(body) as { method?: string; params?: object },
    )
    expect(levels.filter(one => one?.method === 'logging/setLevel').map(one => one.params)).toEqual([
      { level: 'warning' },
    ])
  })

  it('gets messages that belong to no call, escaped, once it lets them through', async () => {
    const { client, logs } = await legacy()
    await client.callTool({ name: 'update_watched' })
    const grave = { level: 'error', logger: 'store', data: { of: '&lt;b&gt;everything&lt;/b&gt;' } }
    await expect.poll(() => logs).toEqual([grave])
    await client.setLoggingLevel('debug')
    await client.callTool({ name: 'update_watched' })
    await expect.poll(() => logs).toEqual([grave, { level: 'debug', data: 'a detail' }, grave])
  })

  it('is refused a level that MCP does not have', async () => {
    const { client } = await legacy()
    await expect(client.setLoggingLevel('loud' as 'info')).rejects.toThrow('Send level as one of')
  })

  it('hears that a resource which it follows changed, and nothing after it left it', async () => {
    const { client, updates } = await legacy()
    expect(client.getServerCapabilities()?.resources?.subscribe).toBe(true)
    await client.callTool({ name: 'update_watched' })
    await client.subscribeResource({ uri: WATCHED })
    await client.callTool({ name: 'update_watched' })
    await expect.poll(() => updates).toEqual([WATCHED])
    await client.unsubscribeResource({ uri: WATCHED })
    await client.callTool({ name: 'update_watched' })
    // Its server says nothing more, and what it says comes in order.
    await client.callTool({ name: 'test_simple_text' })
    expect(updates).toEqual([WATCHED])
  })
})

describe('A server that forgot its sessions', () => {
  it('is asked again for what is followed, and its clients hear that it may have changed', async () => {
    const { client, logs, updates } = await legacy()
    await client.setLoggingLevel('debug')
    await client.subscribeResource({ uri: WATCHED })
    const { port } = tools
    await tools.stop()
    tools = await startConformanceTools(port)
    await client.callTool({ name: 'test_simple_text' })
    await expect.poll(() => updates).toEqual([WATCHED])
    const asked = (): unknown[] =>
      tools.record.arrivals.map(({ body }) => (JSON.parse(body) as { method?: string } | null)?.method)
    await expect.poll(asked).toEqual(expect.arrayContaining(['resources/subscribe', 'logging/setLevel']))
    await client.callTool({ name: 'update_watched' })
    await expect.poll(() => updates).toEqual([WATCHED, WATCHED])
    await expect.poll(() => logs).toContainEqual({ level: 'debug', data: 'a detail' })
  })
})

describe('A client of MCP 2026-07-28', () => {
  it.each([
    ['info', STEPS],
    ['error', []],
    [undefined, []],
  ])(
    'gets the log messages of a call from the level on that it names with it: %s',
    async (level, expected) => {
      const { client } = await startClient('2.x 2026-07-28')
      if (!(client instanceof ModernClient)) throw new Error('no client of the SDK 2.x')
      const logs: unknown[] = []
      client.setNotificationHandler('notifications/message', ({ params }) => void logs.push(params.data))
      const meta = level === undefined ? {} : { _meta: { 'io.modelcontextprotocol/logLevel': level } }
      await client.callTool({ name: 'test_tool_with_logging', ...meta })
      expect(logs).toEqual(expected)
    },
  )
})

describe('A log message of a server', () => {
  it('has every text escaped, names too, and keeps what is no text', () => {
    const data = { '<i>': ['a\u200bb', 1, null, { deep: '<script>' }] }
    expect(readLog({ level: 'info', logger: 'x\ny', data, more: 1 })).toEqual({
      level: 'info',
      logger: expect.not.stringContaining('\n') as string,
      data: { '&lt;i&gt;': [expect.not.stringContaining('\u200b'), 1, null, { deep: '&lt;script&gt;' }] },
    })
  })

  it('that is long is shown as the beginning of its text', () => {
    const shown = readLog({ level: 'info', data: ['x'.repeat(20_000)] })!
    expect(typeof shown.data).toBe('string')
    expect((shown.data as string).length).toBeLessThan(5000)
  })

  it.each([[undefined], [{ level: 'loud', data: 1 }], [{ level: 'info' }], [[]]])(
    'that is none of MCP is dropped: %j',
    params => {
      expect(readLog(params)).toBeUndefined()
    },
  )

  it('cannot fill the channel: 64 pass at once, and 20 a second after that', () => {
    let at = 0
    const heard: Log[] = []
    const tell = limitLogs(
      log => heard.push(log),
      () => at,
    )
    const log: Log = { level: 'info', data: 'x' }
    for (let i = 0; i < 1000; i++) tell(log)
    expect(heard).toHaveLength(64)
    at += 1000
    for (let i = 0; i < 1000; i++) tell(log)
    expect(heard).toHaveLength(84)
  })

  it('passes from the level on that is wanted; a server is asked for the least grave of all', () => {
    expect(isGraveEnough('warning', 'warning')).toBe(true)
    expect(isGraveEnough('notice', 'warning')).toBe(false)
    expect(leastOf(['error', 'debug', 'alert'])).toBe('debug')
    expect(leastOf([])).toBeUndefined()
    expect(levelIn('loud')).toBeUndefined()
  })

  it('is asked for with the request at a server of 2026-07-28 alone', () => {
    const meta = passedMeta({ traceparent: 't', progressToken: 1 }, 'info')
    expect(meta).toEqual({ traceparent: 't', 'io.modelcontextprotocol/logLevel': 'info' })
    expect(withoutLevel(meta)).toEqual({ traceparent: 't' })
    expect(withoutLevel(passedMeta({}, 'info'))).toBeUndefined()
    expect(passedMeta({ 'io.modelcontextprotocol/logLevel': 'debug' })).toBeUndefined()
  })
})

describe('Subscriptions of several sessions', () => {
  const follower = () => ({ updated: vi.fn<(uri: string) => void>() })
  afterEach(() => vi.useRealTimers())

  it('reach each session that follows, and end at the server with the last one', () => {
    const subscriptions = createSubscriptions()
    const [one, two] = [follower(), follower()]
    subscriptions.add(one, 'r', 'a://x')
    subscriptions.add(two, 'r', 'a://x')
    subscriptions.updated('other', 'a://x')
    expect(one.updated).not.toHaveBeenCalled()
    subscriptions.updated('r', 'a://x')
    expect([one.updated.mock.calls, two.updated.mock.calls]).toEqual([[['a://x']], [['a://x']]])
    expect(subscriptions.remove(one, 'r', 'a://x')).toBe(false)
    expect(subscriptions.leave(two)).toEqual([{ resource: 'r', uri: 'a://x' }])
    expect(subscriptions.of('r')).toEqual([])
    subscriptions.close()
  })

  it('name what is followed where the server names a part of it, and nothing beside it', () => {
    const subscriptions = createSubscriptions()
    const one = follower()
    subscriptions.add(one, 'r', 'file:///a')
    subscriptions.updated('r', 'file:///ab')
    expect(one.updated).not.toHaveBeenCalled()
    subscriptions.updated('r', 'file:///a/b')
    expect(one.updated.mock.calls).toEqual([['file:///a']])
    subscriptions.close()
  })

  it('are at most 256 of a session, and tell of a resource twice a second at most, the last time too', () => {
    vi.useFakeTimers()
    const subscriptions = createSubscriptions()
    const one = follower()
    for (let at = 0; at < 256; at++) expect(subscriptions.add(one, 'r', `a://${at}`)).toBe(true)
    expect(subscriptions.add(one, 'r', 'a://more')).toBe(false)
    expect(subscriptions.add(one, 'r', 'a://1')).toBe(true)
    for (let at = 0; at < 100; at++) subscriptions.updated('r', 'a://1')
    expect(one.updated).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(500)
    expect(one.updated).toHaveBeenCalledTimes(2)
    vi.advanceTimersByTime(5000)
    expect(one.updated).toHaveBeenCalledTimes(2)
    subscriptions.close()
  })
})
