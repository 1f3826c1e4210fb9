/**
 * contract, "Permission ticket" (awaiting-owner): how a client of the bridge waits for the owner, by what it can do; and what becomes of a request
 * that nobody waits for.
 */
import { describe, expect, it } from 'vitest'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { pendingOf, type BridgeOptions } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { TASKS, withTasks } from '../../support/bridge-tasks.ts'

const stand = useBridges()
const { bridge, executions, unique, waiting } = stand

describe('A client that is held', () => {
  it('has the answer of its one call when the owner decides, with progress where it listens', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const heard: (string | undefined)[] = []
    const before = executions('place_trade')
    const trade = { symbol: 'VTI', qty: unique() }
    const answer = call('place_trade', trade, { onprogress: ({ message }) => void heard.push(message) })
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await answer).text).toBe(`Bought ${trade.qty} VTI`)
    expect(heard[0]).toContain('The owner (alice) decides')
    expect(executions('place_trade')).toBe(before + 1)
  })

  it('and leaves: an approval meanwhile executes nothing until the repeat', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const before = executions('place_trade')
    const trade = { symbol: 'BND', qty: unique() }
    const leaving = new AbortController()
    const left = call('place_trade', trade, { signal: leaving.signal })
    left.catch(() => undefined)
    const { family } = await waiting()
    leaving.abort()
    await expect(left).rejects.toThrow()
    await stand.owner.decide(family, 'approved')
    await expect.poll(() => pendingOf(stand.owner)).toEqual([])
    expect(executions('place_trade')).toBe(before)
    expect((await call('place_trade', trade)).text).toBe(`Bought ${trade.qty} BND`)
    expect(executions('place_trade')).toBe(before + 1)
  })

  it('and does not come back in time: the request is declined', async () => {
    const { call } = await bridge({
      capabilities: { elicitation: {} },
      args: ['--hold', '5', '--linger', '1'],
    })
    const trade = { symbol: 'BND', qty: unique() }
    expect((await call('place_trade', trade)).reason).toBe('waiting')
    await expect.poll(() => pendingOf(stand.owner)).toEqual([])
  })

  it('beside another that asks the very same: one request, one call, one answer for both', async () => {
    const { call } = await bridge({ capabilities: { elicitation: {} } })
    const trade = { symbol: 'VXUS', qty: unique() }
    const before = executions('place_trade')
    const answers = [call('place_trade', trade), call('place_trade', trade)]
    await stand.owner.decide((await waiting()).family, 'approved')
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(
      Array(2).fill(`Bought ${trade.qty} VXUS`),
    )
    expect(executions('place_trade')).toBe(before + 1)
  })
})

describe("The owner's console, where the agent's user is the owner", () => {
  const capabilities = { elicitation: { form: {}, url: {} } }
  const args = ['--owner-console', 'https://console.example/', '--hold', '20']

  it.each(['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const)(
    'is shown by a link: %s',
    async kind => {
      const decide = async (): Promise<'accept'> => {
        await stand.owner.decide((await waiting()).family, 'approved')
        return 'accept'
      }
      const word: BridgeOptions['word'] = ({ mode }) => (mode === 'url' ? decide() : 'accept')
      const { call, elicited } = await bridge({ kind, capabilities, args, word })
      const trade = { symbol: 'VTI', qty: unique() }
      expect((await call('place_trade', trade)).text).toBe(`Bought ${trade.qty} VTI`)
      expect(elicited.map(({ mode }) => mode)).toEqual(['form', 'url'])
      expect(elicited[1]!.url).toMatch(/^https:\/\/console\.example\/#\/waiting\/fam_/)
    },
  )
})

describe('A client with the tasks extension', () => {
  async function raw(name: string) {
    const client = new Client(
      { name, version: '1' },
      {
        capabilities: { elicitation: {}, ...TASKS },
        versionNegotiation: { mode: { pin: '2026-07-28' } },
        inputRequired: { autoFulfill: true },
      },
    )
    client.setRequestHandler('elicitation/create', async () => ({ action: 'accept' as const, content: {} }))
    const started = await startedTransport(name)
    await client.connect(started)
    stand.ending(client)
    const { ask, latest } = withTasks(client)
    /** Calls, and answers the task that is made of it. */
    const toTask = async (given: object): Promise<string> => {
      client.callTool({ name: 'place_trade', arguments: { ...given } }).catch(() => undefined)
      await expect.poll(latest, { timeout: 30_000 }).toBeDefined()
      return latest()!
    }
    return { ask, toTask, pid: started.pid! }
  }

  async function startedTransport(name: string): Promise<StdioClientTransport> {
    const args = ['src/cli.ts', 'agent', 'bridge', stand.stack.resource, '--client-name', name]
    const env = {
      PATH: process.env['PATH']!,
      HOME: stand.folder,
      UMA_DEV_LOOPBACK: 'true',
      UMA_BRIDGE_STATE: stand.folder,
    }
    return new StdioClientTransport({ command: process.execPath, args, env, stderr: 'ignore' })
  }

  it('has a task while the owner thinks, and fetches the one answer, also from another process', async () => {
    const name = `tasks ${unique()}`
    const first = await raw(name)
    const before = executions('place_trade')
    const trade = { symbol: 'VTI', qty: unique() }
    const taskId = await first.toTask(trade)
    expect(await first.ask(taskId)).toMatchObject({ taskId, status: 'working' })
    process.kill(first.pid, 'SIGKILL')
    const second = await raw(name)
    expect(await second.ask(taskId)).toMatchObject({ status: 'working' })
    await stand.owner.decide((await waiting()).family, 'approved')
    await expect.poll(async () => (await second.ask(taskId))['status'], { timeout: 60_000 }).toBe('completed')
    const { result } = (await second.ask(taskId)) as { result: { content: { text: string }[] } }
    expect(result.content[0]!.text).toBe(`Bought ${trade.qty} VTI`)
    expect(executions('place_trade')).toBe(before + 1)
    await expect(second.ask('nobody knows')).rejects.toThrow('no such task')
  })
})
