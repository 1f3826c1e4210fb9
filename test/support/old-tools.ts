/**
 * Owns the tool server of a test that is of MCP 2025-11-25 (the official SDK 1.x) and does what it is told
 * to: cuts a call off, answers with more than anybody takes, changes what its tools are. It takes the place
 * of the stack's sample tool server.
 */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'
import type { Protect, ToolServer } from '../../src/dev/stack/tool-server.ts'
import { listenAsTools } from './tool-listener.ts'

export interface OldTools {
  start: (port: number, protect?: Protect) => Promise<ToolServer>
  /** What `portfolio_read` says that it does. */
  description: string
  /** Characters of its answer. */
  characters: number
  /** How often the tools were listed. */
  listed: number
}

/** The symbol of a trade that is executed, and whose connection is cut before the answer. */
export const CUT = 'CUT'

/** The symbol of a trade that is executed, and answered as if another request had been sent. */
export const FOREIGN = 'FOREIGN'

/** The symbol of a trade whose answer is longer than any connection holds unread. */
export const LONG = 'LONG'
const LONG_CHARACTERS = 15 * 1024 * 1024

export function oldTools(): OldTools {
  const tools: OldTools = {
    description: 'What the account holds.',
    characters: 16,
    listed: 0,
    start: (port, protect = handler => handler) => start(tools, port, protect),
  }
  return tools
}

function start(tools: OldTools, port: number, protect: Protect): Promise<ToolServer> {
  const record: ToolServer['record'] = { arrivals: [], executions: [] }
  return listenAsTools({ port, protect }, record, async (request, response, body) => {
    const { method, params } = body as {
      method: string
      params?: { name?: string; arguments?: { symbol?: string } }
    }
    if (method === 'tools/list') tools.listed++
    if (params?.arguments?.symbol === CUT) {
      record.executions.push({ tool: params.name!, arguments: params.arguments })
      return void response.destroy()
    }
    if (params?.arguments?.symbol === FOREIGN) {
      record.executions.push({ tool: params.name!, arguments: params.arguments })
      const answer = { jsonrpc: '2.0', id: 'of another', result: { content: '<img src=x>\u001b' } }
      return void response.setHeader('content-type', 'application/json').end(JSON.stringify(answer))
    }
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    await serverOf(tools, record).connect(transport)
    await transport.handleRequest(request, response, body)
  })
}

function serverOf(tools: OldTools, { executions }: ToolServer['record']): McpServer {
  const server = new McpServer({ name: 'old', version: '1' })
  server.registerTool('portfolio_read', { description: tools.description, inputSchema: {} }, args => {
    executions.push({ tool: 'portfolio_read', arguments: args })
    return { content: [{ type: 'text', text: 'x'.repeat(tools.characters) }] }
  })
  const trade = { symbol: z.string(), qty: z.number() }
  server.registerTool('place_trade', { description: 'Buys.', inputSchema: trade }, args => {
    executions.push({ tool: 'place_trade', arguments: args })
    const told = `Bought ${args.qty} ${args.symbol}`
    const text = args.symbol === LONG ? told.padEnd(LONG_CHARACTERS) : told
    return { content: [{ type: 'text', text }] }
  })
  return server
}
