/**
 * Owns the sample MCP server of the demo and the end-to-end tests: four tools of the owner `alice`, on the
 * official SDK. It knows nothing of usher; it records what reached it, so that a test can check what did and
 * what did not. Contract: "Authorized call".
 */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

/** One request as it arrived behind Envoy. */
export interface Arrival {
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** The body, byte for byte. */
  body: string
}

/** One execution of a tool. */
export interface Execution {
  tool: string
  arguments: unknown
}

export interface ToolServer {
  port: number
  /** What reached it so far, oldest first; the same is served at `/record`, which Envoy does not route to. */
  record: { arrivals: Arrival[]; executions: Execution[] }
  stop(): Promise<void>
}

/**
 * A request handler, and one that is put in front of it. The third parameter is a body that was parsed
 * already.
 */
type Handler = (request: IncomingMessage, response: ServerResponse, body?: unknown) => unknown
export type Protect = (handler: Handler) => Handler

/**
 * Starts it on loopback; `port` 0 takes a free one. `protect` runs in front of everything, if nothing else
 * does. Fails with a sentence if the SDK (a development package) is missing.
 */
export async function startToolServer(
  port: number,
  protect: Protect = handler => handler,
): Promise<ToolServer> {
  const sdk = await loadSdk()
  const record: ToolServer['record'] = { arrivals: [], executions: [] }
  const handler = sdk.createMcpHandler(() =>
    addTools(new sdk.McpServer({ name: 'brokerage', version: '1.0.0' }), execution =>
      record.executions.push(execution),
    ),
  )
  const serveMcp = sdk.toNodeHandler(handler)
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    parsed?: unknown,
  ): Promise<void> => {
    if (request.url === '/record') return sendJson(response, record)
    const body = await text(request)
    const { method = '', url = '', headers } = request
    record.arrivals.push({ method, path: url, headers, body })
    // The SDK's structural type has no `undefined` in its optional members; Node's own has.
    await serveMcp(request as Parameters<typeof serveMcp>[0], response, parsed ?? parseOrUndefined(body))
  }
  const listener = protect((request, response, parsed) =>
    answer(request, response, parsed).catch(() => response.destroy()),
  )
  const server = createServer((request, response) => void listener(request, response))
  await listening(server, port)
  return {
    port: (server.address() as AddressInfo).port,
    record,
    stop: async () => {
      await handler.close()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

async function loadSdk() {
  try {
    const [{ createMcpHandler, McpServer }, { toNodeHandler }] = await Promise.all([
      import('@modelcontextprotocol/server'),
      import('@modelcontextprotocol/node'),
    ])
    return { createMcpHandler, McpServer, toNodeHandler }
  } catch (error) {
    throw new Error('The MCP SDK is a development package: run `npm ci` in a clone of usher.', {
      cause: error,
    })
  }
}

/** A read, a stricter read, an irreversible trade, and one that no tier of alice's governs. */
function addTools(server: McpServer, onExecution: (execution: Execution) => void): McpServer {
  const executed = (tool: string, args: unknown, answer: string) => {
    onExecution({ tool, arguments: args })
    return { content: [{ type: 'text' as const, text: answer }] }
  }
  const reads = { readOnlyHint: true }
  const destroys = { readOnlyHint: false, destructiveHint: true }
  server.registerTool(
    'portfolio_read',
    { description: 'What the account holds.', inputSchema: z.object({}), annotations: reads },
    args => executed('portfolio_read', args, '12 VTI, 40 BND'),
  )
  server.registerTool(
    'statement_read',
    {
      description: 'The statement of one month.',
      inputSchema: z.object({ month: z.string() }),
      annotations: reads,
    },
    args => executed('statement_read', args, `Statement of ${args.month}: one purchase, no fees`),
  )
  server.registerTool(
    'place_trade',
    {
      description: 'Buys at the market; it cannot be undone.',
      // Further members are kept, so that what was executed can be compared with what was approved.
      inputSchema: z.looseObject({ symbol: z.string(), qty: z.number() }),
      annotations: destroys,
    },
    args => executed('place_trade', args, `Bought ${args.qty} ${args.symbol}`),
  )
  server.registerTool(
    'close_account',
    { description: 'Closes the account.', inputSchema: z.object({}), annotations: destroys },
    args => executed('close_account', args, 'The account is closed'),
  )
  return server
}

function parseOrUndefined(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

function sendJson(response: ServerResponse, value: unknown): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(`${JSON.stringify(value, null, 2)}\n`)
}

async function listening(server: Server, port: number): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })
}
