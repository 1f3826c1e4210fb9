/**
 * Owns the tool server of a test that asks the person at the client in the middle of a call, as MCP
 * 2025-11-25 has it (the official SDK 1.x, with sessions). It takes the place of the sample tool server.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { ElicitResultSchema, type ElicitRequest } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import type { Protect, ToolServer } from '../../src/dev/stack/tool-server.ts'
import { answerInSessions } from './session-servers.ts'
import { listenAsTools } from './tool-listener.ts'

export interface AskingTools {
  start: (port: number, protect?: Protect) => Promise<ToolServer>
  /** What a call asks, one after the other; none when empty. */
  questions: ElicitRequest['params'][]
  /** Over the stream of the call, or over one of the session's own, which names no call. */
  stream: 'call' | 'session'
  /** How long it waits for an answer on the stream of the session, milliseconds. */
  patience: number
  /** Asks though the client declared that nobody can be asked. */
  insists: boolean
  /** What it was answered, or how it failed. */
  answers: unknown[]
  /** Notifications of progress of a call, and the milliseconds between two of them. */
  progress: number
  pace: number
  /** How a call fails once it has told its progress; undefined if it does not. */
  fails: string | undefined
}

export function askingTools(): AskingTools {
  const tools: AskingTools = {
    questions: [],
    stream: 'call',
    patience: 60_000,
    insists: false,
    answers: [],
    progress: 0,
    pace: 0,
    fails: undefined,
    start: (port, protect = handler => handler) => start(tools, port, protect),
  }
  return tools
}

function start(tools: AskingTools, port: number, protect: Protect): Promise<ToolServer> {
  const record: ToolServer['record'] = { arrivals: [], executions: [] }
  return listenAsTools(
    { port, protect },
    record,
    answerInSessions(() => serverOf(tools, record)),
  )
}

function serverOf(tools: AskingTools, { executions }: ToolServer['record']): McpServer {
  const server = new McpServer(
    { name: 'asking', version: '1' },
    { enforceStrictCapabilities: false, capabilities: { logging: {} } },
  )
  const input = { symbol: z.string().optional(), qty: z.number().optional() }
  for (const tool of ['portfolio_read', 'place_trade'])
    server.registerTool(tool, { description: tool, inputSchema: input }, async (args, extra) => {
      const { _meta, sendNotification, sendRequest } = extra
      for (let progress = 1; progress <= tools.progress; progress++) {
        await sendNotification({
          method: 'notifications/progress',
          params: { progressToken: _meta?.progressToken ?? 'nobody', progress, message: `part ${progress}` },
        })
        if (tools.pace > 0) await delay(tools.pace)
      }
      if (tools.fails !== undefined) throw new Error(tools.fails)
      for (const params of tools.questions) {
        const request = { method: 'elicitation/create' as const, params }
        const asked =
          tools.insists || tools.stream === 'call'
            ? sendRequest(request, ElicitResultSchema)
            : server.server.elicitInput(params, { timeout: tools.patience })
        const answer = await asked.catch((error: unknown) => error)
        tools.answers.push(answer)
        if (answer instanceof Error) throw answer
        if ((answer as { action: string }).action !== 'accept')
          return { content: [{ type: 'text', text: `not without an answer` }], isError: true }
      }
      executions.push({ tool, arguments: args })
      return { content: [{ type: 'text', text: `did ${tool}` }] }
    })
  return server
}
