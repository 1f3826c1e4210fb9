/**
 * Owns two MCP servers that ask the client before they answer, one of each revision, without an enforcement
 * point before them, and the bridges that lead to them.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, type Server } from '@modelcontextprotocol/server'
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { bridgeFolder, startBridge, type BridgedClient, type BridgeOptions } from './bridge.ts'
import { answerInSessions } from './session-servers.ts'

export type Revision = 'earlier' | 'later'

/**
 * Starts both before the tests of a file. A bridge to the one of `revision` is ended after its test; its
 * client is named by its kind and its capabilities.
 */
export function useAskingServers({ earlier, later }: { earlier: () => McpServer; later: () => Server }): {
  bridge: (
    revision: Revision,
    options: Omit<BridgeOptions, 'name' | 'resources' | 'state'>,
  ) => Promise<BridgedClient & { resource: string }>
} {
  const modern = createMcpHandler(later)
  const serveLater = toNodeHandler(modern)
  const serveEarlier = answerInSessions(earlier)
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url === '/mcp/later')
      return void serveLater(request as Parameters<typeof serveLater>[0], response)
    const body: unknown = request.method === 'POST' ? JSON.parse(await text(request)) : undefined
    await serveEarlier(request, response, body)
  }
  const http = createServer((request, response) => void serve(request, response))
  let folder: Awaited<ReturnType<typeof bridgeFolder>>
  const open: BridgedClient[] = []

  beforeAll(async () => {
    await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
    folder = await bridgeFolder()
  })
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close().catch(() => undefined)
  })
  afterAll(async () => {
    await modern.close()
    http.closeAllConnections()
    http.close()
    await folder.remove()
  })

  return {
    bridge: async (revision, options) => {
      const resource = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp/${revision}`
      const name = `client ${options.kind} ${JSON.stringify(options.capabilities)}`
      const bridged = await startBridge({ ...options, name, resources: [resource], state: folder.folder })
      open.push(bridged)
      return { ...bridged, resource }
    },
  }
}
