/**
 * Owns an MCP server that keeps sessions, on the official SDK 1.x (revision 2025-11-25): what the sample tool
 * server, which is stateless, cannot show. Streams of its own (GET), long answers, tasks.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'

export interface SessionTools {
  handle(request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>
  /** The header fields of each request that came, oldest first. */
  arrivals: { method: string; headers: IncomingHttpHeaders }[]
  /** Which tools were executed, with which arguments. */
  executions: [string, unknown][]
  /** The sessions that live. */
  sessions: Map<string, { server: McpServer; transport: StreamableHTTPServerTransport }>
  /** Lets calls of `portfolio_read` that `hold` go on. */
  release(): void
  close(): Promise<void>
}

const INPUT = {
  parts: z.number().optional(),
  characters: z.number().optional(),
  hold: z.boolean().optional(),
  symbol: z.string().optional(),
  qty: z.number().optional(),
}

/**
 * A server with `portfolio_read`, which tells of its progress as often as it is asked to, and `place_trade`,
 * which can be a task.
 */
export function createSessionTools(): SessionTools {
  const sessions: SessionTools['sessions'] = new Map()
  const arrivals: SessionTools['arrivals'] = []
  const executions: SessionTools['executions'] = []
  let release = (): void => undefined
  let released = new Promise<void>(resolve => (release = resolve))

  const addTools = (server: McpServer): McpServer => {
    server.registerTool(
      'portfolio_read',
      { inputSchema: INPUT },
      async (args, { _meta, sendNotification }) => {
        const { parts = 0, characters = 1, hold = false } = args
        const progressToken = _meta?.progressToken ?? 'nobody listens'
        for (let progress = 1; progress <= parts; progress++) {
          const message = 'x'.repeat(characters)
          await sendNotification({
            method: 'notifications/progress',
            params: { progressToken, progress, message },
          })
          if (hold && progress === 1) await released
        }
        executions.push(['portfolio_read', args])
        return { content: [{ type: 'text', text: `after ${parts} parts` }] }
      },
    )
    const execution = { taskSupport: 'optional' } as const
    server.experimental.tasks.registerToolTask(
      'place_trade',
      { inputSchema: INPUT, execution },
      {
        createTask: async (args, { taskStore }) => {
          const task = await taskStore.createTask({ ttl: 60_000, pollInterval: 20 })
          executions.push(['place_trade', args])
          const content = [{ type: 'text' as const, text: `Bought ${args.qty} ${args.symbol}` }]
          await taskStore.storeTaskResult(task.taskId, 'completed', { content })
          return { task }
        },
        getTask: (_, { taskId, taskStore }) => taskStore.getTask(taskId),
        getTaskResult: async (_, { taskId, taskStore }) =>
          (await taskStore.getTaskResult(taskId)) as { content: { type: 'text'; text: string }[] },
      },
    )
    return server
  }

  const open = async (): Promise<StreamableHTTPServerTransport> => {
    const taskStore = new InMemoryTaskStore()
    const capabilities = { logging: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } }
    const server = addTools(new McpServer({ name: 'sessions', version: '1' }, { capabilities, taskStore }))
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: id => void sessions.set(id, { server, transport }),
      onsessionclosed: id => void sessions.delete(id),
    })
    await server.connect(transport)
    return transport
  }

  return {
    arrivals,
    executions,
    sessions,
    release: () => {
      release()
      released = new Promise(resolve => (release = resolve))
    },
    handle: async (request, response, body) => {
      const { method = '', headers } = request
      arrivals.push({ method, headers })
      const id = headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id)?.transport : await open()
      if (known === undefined) return void response.writeHead(404).end()
      await known.handleRequest(request, response, body)
    },
    close: async () => {
      for (const { server } of sessions.values()) await server.close()
    },
  }
}
