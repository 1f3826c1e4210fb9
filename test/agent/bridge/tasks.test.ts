/**
 * contract, "Permission ticket" (awaiting-owner), for clients of the bridge that wait by tasks (MCP
 * 2026-07-28): the owner is asked once, the call runs once, and the answer is fetched by the client that it
 * is for, also from another process.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it } from 'vitest'
import { pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { TASKS, withTasks, type TaskClient } from '../../support/bridge-tasks.ts'
import { ROOT } from '../../support/repository.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const { executions, unique, waiting } = stand

interface TaskCaller extends TaskClient {
  /** Calls, and answers the task that is made of it. */
  toTask: (trade: object) => Promise<string>
}

/** A client that can do tasks, and accepts the terms. */
async function connected(name: string, transport: Parameters<Client['connect']>[0]): Promise<TaskCaller> {
  const client = new Client(
    { name, version: '1' },
    { capabilities: { elicitation: {}, ...TASKS }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
  )
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
  await client.connect(transport)
  stand.ending(client)
  const tasks = withTasks(client)
  return {
    ...tasks,
    toTask: async trade => {
      const before = tasks.made()
      client.callTool({ name: 'place_trade', arguments: { ...trade } }).catch(() => undefined)
      await expect.poll(tasks.made, { timeout: 30_000 }).toBe(before + 1)
      return tasks.latest()!
    },
  }
}

const bridgeArgs = (...args: string[]): string[] => [
  join(ROOT, 'src', 'cli.ts'),
  'agent',
  'bridge',
  stand.stack.resource,
  ...args,
]
const environment = () => ({
  PATH: process.env['PATH']!,
  HOME: stand.folder,
  UMA_DEV_LOOPBACK: 'true',
  UMA_BRIDGE_STATE: stand.folder,
})

/** The text of the answer that a task came to. */
async function answerOf({ ask }: TaskCaller, taskId: string): Promise<string> {
  await expect.poll(async () => (await ask(taskId))['status'], { timeout: 60_000 }).toBe('completed')
  const { result } = (await ask(taskId)) as { result: { content: { text: string }[] } }
  return result.content[0]!.text
}

describe('A client with the tasks extension', () => {
  async function started(name: string): Promise<TaskCaller & { pid: number }> {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: bridgeArgs('--client-name', name),
      env: environment(),
      stderr: 'ignore',
    })
    return { ...(await connected(name, transport)), pid: transport.pid! }
  }

  it('has a task while the owner thinks, and fetches the one answer, also from another process', async () => {
    const name = `tasks ${unique()}`
    const first = await started(name)
    const trade = { symbol: 'VTI', qty: unique() }
    const taskId = await first.toTask(trade)
    expect(await first.ask(taskId)).toMatchObject({ taskId, status: 'working' })
    process.kill(first.pid, 'SIGKILL')
    const second = await started(name)
    expect(await second.ask(taskId)).toMatchObject({ status: 'working' })
    await stand.owner.decide((await waiting()).family, 'approved')
    expect(await answerOf(second, taskId)).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade', trade)).toBe(1)
    await expect(second.ask('nobody knows')).rejects.toThrow('no such task')
  })
})

describe('Several clients with tasks at one bridge', () => {
  /** A bridge on the loopback, whose address is answered. */
  async function listening(): Promise<URL> {
    const child = spawn(process.execPath, bridgeArgs('--listen', '127.0.0.1:0'), {
      env: environment(),
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    stand.ending({ close: async () => child.kill('SIGKILL') })
    let said = ''
    child.stderr.on('data', chunk => (said += String(chunk)))
    await expect.poll(() => /listening on (\S+)/.exec(said)?.[1], { timeout: 30_000 }).toBeDefined()
    return new URL(/listening on (\S+)/.exec(said)![1]!)
  }

  it('have each its own answer, once, though all wait at once; none sees the task of another', async () => {
    const url = await listening()
    const names = ['one', 'two', 'three'].map(name => `${name} ${unique()}`)
    const clients = await Promise.all(
      names.map(name => connected(name, new StreamableHTTPClientTransport(url))),
    )
    // The last two of one client: it waits for two answers at once.
    const callers = [...clients, clients.at(-1)!]
    const trades = callers.map(() => ({ symbol: 'VTI', qty: unique() }))
    const tasks = [
      ...(await Promise.all(clients.map((client, at) => client.toTask(trades[at]!)))),
      await clients.at(-1)!.toTask(trades.at(-1)!),
    ]
    expect(new Set(tasks).size).toBe(4)
    const items = await pendingOf(stand.owner)
    expect(items).toHaveLength(4)
    expect(new Set(items.map(({ handle }) => handle)).size).toBe(3)
    await expect(clients[0]!.ask(tasks[1]!)).rejects.toThrow('no such task')
    for (const { family } of items) await stand.owner.decide(family, 'approved')
    const answers = await Promise.all(callers.map((client, at) => answerOf(client, tasks[at]!)))
    expect(answers).toEqual(trades.map(({ qty }) => `Bought ${qty} VTI`))
    for (const trade of trades) expect(executions('place_trade', trade)).toBe(1)
    expect(await pendingOf(stand.owner)).toEqual([])
  })
})
