/** Owns where a tool server of a test listens, and what it writes down of each request that arrives. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Protect, ToolServer } from '../../src/dev/stack/tool-server.ts'

/**
 * Listens on a loopback port. `answer` gets the body as JSON, `undefined` for a request without one; if it
 * throws, the connection is cut.
 */
export async function listenAsTools(
  { port, protect }: { port: number; protect: Protect },
  record: ToolServer['record'],
  answer: (request: IncomingMessage, response: ServerResponse, body: unknown) => Promise<void>,
): Promise<ToolServer> {
  const received = async (request: IncomingMessage, response: ServerResponse, parsed?: unknown) => {
    const { method = '', url: path = '', headers } = request
    const body: unknown = parsed ?? (method === 'POST' ? JSON.parse(await text(request)) : undefined)
    record.arrivals.push({ method, path, headers, body: JSON.stringify(body ?? null) })
    await answer(request, response, body)
  }
  const listener = protect((request, response, parsed) =>
    received(request, response, parsed).catch(() => response.destroy()),
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
