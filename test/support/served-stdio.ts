/**
 * Owns an HTTP server in front of MCP servers over standard input and output: each session of MCP 2025-11-25
 * is a process of its own, of the server that the path names (`/<name>/mcp`, `/mcp/alice/<name>`), or else of
 * `current`. It changes no message.
 */
import { randomUUID } from 'node:crypto'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Protect, ToolServer } from '../../src/dev/stack/tool-server.ts'
import { relay } from './relay.ts'
import { listenAsTools } from './tool-listener.ts'

export interface ServedStdio {
  /** Starts listening; `protect` is put before it. */
  start: (port: number, protect?: Protect) => Promise<ToolServer>
  /** The server at every path that names none. */
  current: string
  /** Ends every session. */
  end: () => Promise<void>
}

/** `open`: the way to a new process of the server of that name. */
export function servedStdio(open: (name: string) => Transport): ServedStdio {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const processes: Transport[] = []

  const begin = async (name: string): Promise<StreamableHTTPServerTransport> => {
    const process = open(name)
    processes.push(process)
    const session = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: id => void sessions.set(id, session),
    })
    relay(session, process)
    await Promise.all([session.start(), process.start()])
    return session
  }
  const served: ServedStdio = {
    current: '',
    start: (port, protect = handler => handler) =>
      listenAsTools({ port, protect }, { arrivals: [], executions: [] }, async (request, response, body) => {
        const id = request.headers['mcp-session-id']
        const [, behind, itself] = /^\/([^/]+)\/mcp$|^\/mcp\/alice\/([^/]+)$/.exec(request.url ?? '') ?? []
        const name = behind ?? itself ?? served.current
        const session = typeof id === 'string' ? sessions.get(id) : await begin(name)
        if (session === undefined) return void response.writeHead(404).end()
        await session.handleRequest(request, response, body)
      }),
    end: async () => {
      sessions.clear()
      for (const process of processes.splice(0)) await process.close()
    },
  }
  return served
}
