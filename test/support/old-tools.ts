/**
 * Owns the tool server of a test that is of MCP 2025-11-25 (the official SDK 1.x) and does what it is told
 * to: cuts a call off, answers with more than anybody takes, changes what its tools are. It stands where the
 * sample tool server of the stack does.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'
import type { Protect, ToolServer } from '../../src/dev/tool-server.ts'

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

export function oldTools(): OldTools {
  const tools: OldTools = {
    description: 'What the account holds.',
    characters: 16,
    listed: 0,
    start: (port, protect = handler => handler) => start(tools, port, protect),
  }
  return tools
}

async function start(tools: OldTools, port: number, protect: Protect): Promise<ToolServer> {
  const record: ToolServer['record'] = { arrivals: [], executions: [] }
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    parsed?: unknown,
  ): Promise<void> => {
    const body = parsed ?? JSON.parse(await text(request))
    const { method: verb = '', url = '', headers } = request
    record.arrivals.push({ method: verb, path: url, headers, body: JSON.stringify(body) })
    const { method, params } = body as {
      method: string
      params?: { name?: string; arguments?: { symbol?: string } }
    }
    if (method === 'tools/list') tools.listed++
    if (params?.arguments?.symbol === CUT) {
      record.executions.push({ tool: params.name!, arguments: params.arguments })
      return void response.destroy()
    }
    const server = serverOf(tools, record)
    const transport = new StreamableHTTPServerTransport({
      enableJsonResponse: true,
    })
    await server.connect(transport)
    await transport.handleRequest(request, response, body)
  }
  const listener = protect((request, response, parsed) =>
    answer(request, response, parsed).catch(() => response.destroy()),
  )
  const server = createServer((request, response) => void listener(request, response))
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    record,
    stop: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
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
    return { content: [{ type: 'text', text: `Bought ${args.qty} ${args.symbol}` }] }
  })
  return server
}
