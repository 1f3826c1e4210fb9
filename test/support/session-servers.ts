/**
 * Owns the sessions of a test's MCP server of the official SDK 1.x over HTTP: each of them has a server
 * of its own.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'

/** Answers requests in the session that they name, or, where they name none, in a new one of `make`. */
export function answerInSessions(
  make: () => McpServer,
): (request: IncomingMessage, response: ServerResponse, body: unknown) => Promise<void> {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  return async (request, response, body) => {
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (known !== undefined) return known.handleRequest(request, response, body)
    if (id !== undefined) return void response.writeHead(404).end()
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: made => void sessions.set(made, transport),
    })
    await make().connect(transport)
    return transport.handleRequest(request, response, body)
  }
}
