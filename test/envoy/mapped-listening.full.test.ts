/**
 * `subscriptions/listen` (MCP 2026-07-28) that is mapped to a tool, through a real Envoy as shipped and a
 * real sidecar, to a server that nobody told of usher: an unmodified client listens through the bridge under
 * the grant of that tool. contract, "Authorized call" and "What the service does".
 */
import { Client } from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, Server, type McpHttpHandler } from '@modelcontextprotocol/server'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import type { ToolServer } from '../../src/dev/stack/tool-server.ts'
import { pendingOf } from '../support/bridge.ts'
import { useBridges } from '../support/bridge-stand.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { listenAsTools } from '../support/tool-listener.ts'

const WATCHED = 'test://watched'
const LISTEN = 'subscriptions/listen'
const PAGE = { ttlMs: 0, cacheScope: 'private' as const }

function serverOf(): Server {
  const capabilities = { tools: {}, resources: { subscribe: true } }
  const server = new Server({ name: 'watched', version: '2' }, { capabilities })
  const tools = [{ name: 'portfolio_read', inputSchema: { type: 'object' as const } }]
  server.setRequestHandler('tools/list', () => ({ tools, ...PAGE }))
  server.setRequestHandler('tools/call', () => ({ content: [{ type: 'text', text: 'did portfolio_read' }] }))
  server.setRequestHandler('resources/list', () => ({ resources: [{ uri: WATCHED, name: 'W' }], ...PAGE }))
  return server
}

/** Who follows a resource of hers needs the grant of `portfolio_read`. */
function withMappedListening(yaml: string): Promise<string> {
  const settings = parse(yaml) as { owners: [Record<string, unknown>] }
  const methods = { [LISTEN]: { tool: 'portfolio_read' } }
  return Promise.resolve(stringify({ ...settings, owners: [{ ...settings.owners[0], methods }] }))
}

describeWith(await envoy(), 'Listening that is mapped to a tool', found => {
  describe.each([
    ['asks by gRPC', false],
    ['asks by HTTP', true],
  ])('through an Envoy that %s', (_how, checksByHttp) => {
    let handler: McpHttpHandler
    const toolServer = async (port: number): Promise<ToolServer> => {
      handler = createMcpHandler(serverOf)
      const serve = toNodeHandler(handler)
      const record: ToolServer['record'] = { arrivals: [], executions: [] }
      const protect = <T>(listener: T): T => listener
      const listening = await listenAsTools({ port, protect }, record, (request, response, body) =>
        serve(request as Parameters<typeof serve>[0], response, body),
      )
      const stop = async (): Promise<void> => {
        await handler.close()
        await listening.stop()
      }
      return { ...listening, stop }
    }
    const stand = useBridges({
      stack: {
        envoy: found,
        checksByHttp,
        toolServer,
        authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' },
        changeSidecar: withMappedListening,
      },
      args: ['--hold', '20'],
    })
    /** The requests to listen that reached the server, by their fields. */
    const reached = () =>
      stand.stack.toolServer.record.arrivals
        .filter(({ body }) => (JSON.parse(body) as { method?: string } | null)?.method === LISTEN)
        .map(({ headers }) => headers)
    const clientOf = async () => {
      const capabilities = { elicitation: { form: {} } }
      const bridged = await stand.bridge({ kind: '2.x 2026-07-28', capabilities })
      const { client } = bridged
      if (!(client instanceof Client)) throw new Error('no client of the SDK 2.x')
      const updates: string[] = []
      client.setNotificationHandler(
        'notifications/resources/updated',
        ({ params }) => void updates.push(params.uri),
      )
      return { ...bridged, client, updates }
    }

    test('reaches no server while no grant of the tool is held, and asks the owner nothing', async () => {
      const { client } = await clientOf()
      const before = reached().length
      const { honoredFilter } = await client.listen({ resourceSubscriptions: [WATCHED] })
      expect(honoredFilter.resourceSubscriptions ?? []).toEqual([])
      expect(reached()).toHaveLength(before)
      expect(await pendingOf(stand.owner)).toEqual([])
    })

    test('has the client hear of a change under the grant of the tool, of which its server is told', async () => {
      const { client, call, updates } = await clientOf()
      const answer = call('portfolio_read')
      answer.catch(() => undefined)
      await stand.owner.decide((await stand.waiting()).family, 'approved')
      expect((await answer).text).toBe('did portfolio_read')
      const before = reached().length
      const open = await client.listen({ resourceSubscriptions: [WATCHED] })
      expect(open.honoredFilter).toEqual({ resourceSubscriptions: [WATCHED] })
      expect(reached().slice(before)).toMatchObject([{ 'x-uma-tool': 'portfolio_read' }])
      expect(await pendingOf(stand.owner)).toEqual([])
      handler.notify.resourceUpdated(WATCHED)
      await expect.poll(() => updates).toEqual([WATCHED])
      await open.close()
    })
  })
})
