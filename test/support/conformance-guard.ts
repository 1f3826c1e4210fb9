/**
 * Owns the conformance suite's server behind `guard`: the suite speaks HTTP to a face that hands each message
 * on in memory, under a standing grant where the enforcement point asks for one.
 */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { proveMessage } from '../../src/agent/index.ts'
import type { EnforcementPoint } from '../../src/enforcement/doors/embedded/index.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { conformanceServer } from './conformance-server.ts'
import type { Listening } from './conformance-suite.ts'
import { relay } from './relay.ts'

type Grant = Pick<Parameters<typeof proveMessage>[0], 'resource' | 'accessToken' | 'key'>

/** Listens until it is closed; a session of the suite has a server of its own. */
export async function serveGuarded(
  point: EnforcementPoint,
  grant: Grant,
  needsGrant: (method: string) => boolean,
): Promise<Listening> {
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const body: unknown = request.method === 'POST' ? JSON.parse(await text(request)) : undefined
      const id = request.headers['mcp-session-id']
      const known = typeof id === 'string' ? sessions.get(id) : undefined
      const face = known ?? (await openSession(session => sessions.set(session.id, session.face)))
      await face.handleRequest(request, response, body)
    }
    answer().catch(() => response.destroy())
  })
  const openSession = async (
    note: (session: { id: string; face: StreamableHTTPServerTransport }) => void,
  ): Promise<StreamableHTTPServerTransport> => {
    const face: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: id => note({ id, face }),
    })
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    await conformanceServer().connect(point.guard(theirs, 'alice'))
    relay(face, ours, message => {
      const { method } = message as { method?: string }
      if (method === undefined || !needsGrant(method)) return message
      return proveMessage({
        ...grant,
        message: message as unknown as JsonObject,
      }) as unknown as JSONRPCMessage
    })
    await Promise.all([face.start(), ours.start()])
    return face
  }
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: async () => {
      for (const face of sessions.values()) await face.close()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
