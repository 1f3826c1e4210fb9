/**
 * contract, "Single-use grant": a tool that its server runs as a task alone (MCP 2025-11-25,
 * `execution.taskSupport: required`) would spend an approval on a call that nobody can bring to its end. The
 * server is one of the official SDK 1.x, behind an enforcement point and an authority of ours.
 */
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createAgent } from '../../../src/agent/index.ts'
import { diagnose } from '../../../src/agent/bridge/setup/doctor.ts'
import type { ToolServer } from '../../../src/dev/stack/tool-server.ts'
import { DEFAULT_SPEC_NS } from '../../../src/wire/names.ts'
import { pendingOf } from '../../support/bridge.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { capturedTerminal } from '../../support/captured-terminal.ts'
import { answerInSessions } from '../../support/session-servers.ts'
import { listenAsTools } from '../../support/tool-listener.ts'
import { newKey } from '../../support/wire-samples.ts'

const INPUT = { symbol: z.string().optional(), qty: z.number().optional() }

/** `portfolio_read` is called in the ordinary way; `place_trade` is a task alone. */
function serverOf({ executions }: ToolServer['record']): McpServer {
  const capabilities = { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }
  const taskStore = new InMemoryTaskStore()
  const server = new McpServer({ name: 'tasks', version: '1' }, { capabilities, taskStore })
  const ran = (tool: string, args: unknown): CallToolResult => {
    executions.push({ tool, arguments: args })
    return { content: [{ type: 'text', text: `did ${tool}` }] }
  }
  server.registerTool('portfolio_read', { inputSchema: INPUT }, args => ran('portfolio_read', args))
  server.experimental.tasks.registerToolTask(
    'place_trade',
    { inputSchema: INPUT, execution: { taskSupport: 'required' } },
    {
      createTask: async (args, extra) => {
        const task = await extra.taskStore.createTask({ ttl: 60_000 })
        await extra.taskStore.storeTaskResult(task.taskId, 'completed', ran('place_trade', args))
        return { task }
      },
      getTask: (_, { taskId, taskStore: kept }) => kept.getTask(taskId),
      getTaskResult: async (_, { taskId, taskStore: kept }) =>
        (await kept.getTaskResult(taskId)) as CallToolResult,
    },
  )
  return server
}

const stand = useBridges({
  args: ['--hold', '20'],
  stack: {
    authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
    toolServer: (port, protect = handler => handler) => {
      const record: ToolServer['record'] = { arrivals: [], executions: [] }
      return listenAsTools(
        { port, protect },
        record,
        answerInSessions(() => serverOf(record)),
      )
    },
  },
})
const FORM = { elicitation: { form: {} } }

describe('A tool that its server runs as a task alone', () => {
  it.each(['1.x 2025-11-25', '2.x 2026-07-28'] as const)(
    'is listed as closed and named, and calling it asks the owner nothing: the client %s',
    async kind => {
      const { call, tools, said, elicited } = await stand.bridge({ kind, capabilities: FORM })
      const listed = (await tools()).find(({ name }) => name === 'place_trade')
      expect(listed).toMatchObject({ _meta: { 'usher/access': 'closed' } })
      expect(listed!['description']).toBe('Cannot be called here: its server runs it as a task alone.')
      expect(listed).not.toHaveProperty('execution')
      await expect.poll(said).toContain('the tool "place_trade" is listed as closed: its server runs it')
      const answer = await call('place_trade', { symbol: 'VTI', qty: stand.unique() })
      expect(answer).toMatchObject({ isError: true, reason: 'task_required' })
      expect(answer.text).toContain('the owner was not asked')
      expect([await pendingOf(stand.owner), elicited]).toEqual([[], []])
      expect(stand.executions('place_trade')).toBe(0)
      const reading = call('portfolio_read')
      await stand.owner.decide((await stand.waiting()).family, 'approved')
      expect((await reading).text).toBe('did portfolio_read')
    },
  )

  it('is refused by the library before the owner is asked; another tool of the server is called', async () => {
    const agent = createAgent({ key: newKey(), allowLoopback: true, waitSecondsMax: 30 })
    const { resource } = stand.stack
    const trade = { symbol: 'VTI', qty: stand.unique() }
    await expect(agent.call({ resource, tool: 'place_trade', arguments: trade })).rejects.toMatchObject({
      code: 'task_required',
      terminal: true,
      local: true,
    })
    expect([await pendingOf(stand.owner), await agent.receipts()]).toEqual([[], []])
    const reading = agent.call({ resource, tool: 'portfolio_read', arguments: {} })
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    const { result } = await reading
    expect(result).toMatchObject({ content: [{ text: 'did portfolio_read' }] })
  })

  it('is named by the doctor', async () => {
    const terminal = capturedTerminal()
    const config = { devLoopback: true, specNs: DEFAULT_SPEC_NS } as Parameters<typeof diagnose>[0]['config']
    const { resource } = stand.stack
    const options = { resource, clientName: undefined, stateRoot: stand.folder, config }
    await expect(diagnose(options, terminal)).rejects.toThrow()
    expect(terminal.printed).toMatch(/^FAIL {2}tool: "place_trade" is listed as closed: its server runs it/m)
    expect(terminal.printed).toContain('ok    tools: 2')
  })
})
