/**
 * contract, "Permission ticket" (awaiting-owner), for clients of the bridge that wait by tasks (MCP
 * 2026-07-28): the owner is asked once, the call runs once, and the answer is fetched by the client that it
 * is for, also from another process.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it } from 'vitest'
import { filesIn, pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { TASKS, withTasks, type TaskClient } from '../../support/bridge-tasks.ts'
import { listeningBridge } from '../../support/listening-bridge.ts'
import { ROOT } from '../../support/repository.ts'
import { usherProgram } from '../../support/usher-program.ts'

const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
const { executions, unique, waiting } = stand
const PRELOAD = `--import=${join(ROOT, 'test', 'support', 'kill-at.ts')}`

interface TaskCaller extends TaskClient {
  /** Calls, and answers the task that is made of it. */
  toTask: (trade: object, tool?: string) => Promise<string>
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
    toTask: async (trade, name = 'place_trade') => {
      const before = tasks.made()
      client.callTool({ name, arguments: { ...trade } }).catch(() => undefined)
      await expect.poll(tasks.made).toBe(before + 1)
      return tasks.latest()!
    },
  }
}

const bridgeArgs = (...args: string[]): string[] => [
  usherProgram(),
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
  await expect.poll(async () => (await ask(taskId))['status']).toBe('completed')
  const { result } = (await ask(taskId)) as { result: { content: { text: string }[] } }
  return result.content[0]!.text
}

const started = (name: string, ...args: string[]) => startedWith({}, name, ...args)

async function startedWith(
  more: Record<string, string>,
  name: string,
  ...args: string[]
): Promise<TaskCaller & { pid: number }> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: bridgeArgs('--client-name', name, ...args),
    env: { ...environment(), ...more },
    stderr: 'ignore',
  })
  return { ...(await connected(name, transport)), pid: transport.pid! }
}

describe('A client with the tasks extension', () => {
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

describe('A task', () => {
  it('lives as long as it was told, also where the bridge is killed and nobody else waits', async () => {
    const name = `away ${unique()}`
    const first = await started(name)
    const trade = { symbol: 'VTI', qty: unique() }
    const taskId = await first.toTask(trade)
    const { family } = await waiting()
    const before = await first.ask(taskId)
    process.kill(first.pid, 'SIGKILL')
    const second = await started(name, '--linger', '0')
    expect((await second.ask(taskId))['createdAt']).toBe(before['createdAt'])
    expect((await pendingOf(stand.owner)).map(item => item.family)).toEqual([family])
    await stand.owner.decide(family, 'approved')
    expect(await answerOf(second, taskId)).toBe(`Bought ${trade.qty} VTI`)
    await expect.poll(() => keptOf(name)).toEqual([])
  })

  it.each([[false], [true]])(
    'of a tool whose grant is for all its calls has the answer to its own call, not to the first that asked; killed meanwhile: %s',
    async isKilled => {
      const name = `standing ${unique()}`
      const first = await started(name)
      const months = [`month ${unique()}`, `month ${unique()}`]
      const ids: string[] = []
      for (const month of months) ids.push(await first.toTask({ month }, 'statement_read'))
      if (isKilled) process.kill(first.pid, 'SIGKILL')
      const client = isKilled ? await started(name) : first
      for (const id of ids) expect(await client.ask(id)).toMatchObject({ status: 'working' })
      await stand.owner.decide((await waiting()).family, 'approved')
      for (const [at, month] of months.entries()) {
        expect(await answerOf(client, ids[at]!)).toContain(`Statement of ${month}`)
        expect(executions('statement_read', { month })).toBe(1)
      }
    },
  )

  it('that is cancelled stays so, its request is declined after --linger, and nothing of it is kept', async () => {
    const name = `cancels ${unique()}`
    const client = await started(name, '--linger', '5')
    const trade = { symbol: 'VTI', qty: unique() }
    const taskId = await client.toTask(trade)
    await waiting()
    await client.ask(taskId, 'tasks/cancel')
    expect(await client.ask(taskId)).toMatchObject({ status: 'cancelled' })
    await expect.poll(() => pendingOf(stand.owner)).toEqual([])
    await expect.poll(() => keptOf(name)).toEqual([])
    expect(executions('place_trade', trade)).toBe(0)
  })
})

/** The requests that are kept of a client. */
async function keptOf(name: string): Promise<string[]> {
  const folder = `/${name.replaceAll(' ', '-')}-`
  const files = (await filesIn(stand.folder)).map(({ path }) => path)
  return files.filter(path => path.includes(folder) && path.includes('/families/'))
}

describe('A task on a disk that is full', () => {
  it('is refused by a code when it cannot be kept longer, and is there for whoever asks again', async () => {
    const name = `full ${unique()}`
    const first = await started(name)
    const trade = { symbol: 'VTI', qty: unique() }
    const taskId = await first.toTask(trade)
    const { family } = await waiting()
    process.kill(first.pid, 'SIGKILL')
    const [path] = await keptOf(name)
    const record = JSON.parse(await readFile(path!, 'utf8')) as { tasks: { until: number }[] }
    // So that asking for it gives it longer, which is written down.
    record.tasks[0]!.until -= 1800
    await writeFile(path!, JSON.stringify(record))
    const second = await startedWith({ NODE_OPTIONS: PRELOAD, FULL_AT: 'families kept#1' }, name)
    await expect(second.ask(taskId)).rejects.toMatchObject({
      message: expect.stringContaining('(state_unusable)'),
      data: { 'usher/reason': 'state_unusable', 'usher/terminal': false, 'usher/retry_after': 60 },
    })
    expect(await second.ask(taskId)).toMatchObject({ taskId, status: 'working' })
    await stand.owner.decide(family, 'approved')
    expect(await answerOf(second, taskId)).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade', trade)).toBe(1)
  })
})

describe('Several clients with tasks at one bridge', () => {
  it('have each its own answer, once, though all wait at once; none sees the task of another', async () => {
    const { url, token } = await listeningBridge(stand)
    const requestInit = { headers: { authorization: `Bearer ${token}` } }
    const names = ['one', 'two', 'three'].map(name => `${name} ${unique()}`)
    const clients = await Promise.all(
      names.map(name => connected(name, new StreamableHTTPClientTransport(url, { requestInit }))),
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
