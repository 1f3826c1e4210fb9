/**
 * Resources, prompts and completion through the bridge, for the official clients of both revisions. contract,
 * "What the service does", beats 1 to 4, and "Single-use grant".
 */
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../../src/wire/json.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import type { ClientKind } from '../../support/bridge.ts'
import { messageIn, UNCACHED, useMappedBridges, type Message } from '../../support/mapped-bridges.ts'
import type { Received, Reply } from '../../support/scripted-http.ts'
import { challengeOf } from '../../support/scripted-resource.ts'

const { peers, bridge, declare, publish } = useMappedBridges()

const URI = 'demo://portfolio/{1}?a=%20b'
const RESULTS: Record<string, JsonObject> = {
  'tools/list': { tools: [] },
  'resources/list': { resources: [{ uri: URI, name: 'port<b>folio', mimeType: 'text/plain', size: 5 }] },
  'resources/templates/list': { resourceTemplates: [{ uriTemplate: 'demo://more/{x}', name: 'more' }] },
  'prompts/list': { prompts: [{ name: 'buy', arguments: [{ name: 'symbol', required: true }] }] },
  'resources/read': { contents: [{ uri: URI, text: 'VTI 2\u{200b}\n<b>' }], _meta: { 'demo/of': 1 } },
  'prompts/get': { messages: [{ role: 'user', content: { type: 'text', text: 'Buy <VTI>' } }] },
  'completion/complete': { completion: { values: ['VTI', 'VXUS'], hasMore: false } },
}
const FREE = new Set(['tools/list', 'resources/list', 'resources/templates/list', 'prompts/list'])

/** A server of MCP 2026-07-28 behind an enforcement point that maps each method to `read_file`. */
function serveObjects(changes: Record<string, (id: Message['id']) => Reply> = {}): void {
  const { twists } = peers
  twists.challenge = () => challengeOf(peers, 'read_file')
  declare({ resources: {}, prompts: {}, completions: {}, tools: {} })
  twists.template = plain => {
    publish(plain)
    return plain
  }
  peers.tools.script('/mcp/alice', received => {
    const { id, method } = messageIn(received)
    const change = changes[method]
    if (change !== undefined) return change(id)
    const more = method.endsWith('/list') || method === 'resources/read' ? UNCACHED : {}
    if (!FREE.has(method) && received.headers.authorization === undefined) return undefined
    const result = { resultType: 'complete', ...more, ...RESULTS[method] }
    return { body: { jsonrpc: '2.0', id, result } }
  })
}

interface Objects {
  listResources(): Promise<{ resources: JsonObject[] }>
  listResourceTemplates(): Promise<{ resourceTemplates: JsonObject[] }>
  listPrompts(): Promise<{ prompts: JsonObject[] }>
  readResource(params: { uri: string }): Promise<JsonObject>
  getPrompt(params: { name: string; arguments?: Record<string, string> }): Promise<JsonObject>
  complete(params: object): Promise<JsonObject>
}

async function clientOf(kind: ClientKind, args: readonly string[] = []): Promise<Objects> {
  const capabilities = kind.endsWith('2026-07-28') ? {} : { elicitation: { form: {} } }
  const { client } = await bridge({ kind, capabilities, args })
  return client as unknown as Objects
}

const asked = (method: string): Received[] =>
  peers.tools.to('/mcp/alice').filter(one => one.method === 'POST' && messageIn(one).method === method)

describe.each<ClientKind>(['1.x 2025-11-25', '2.x 2026-07-28'])('A client of %s', kind => {
  /** The terms, accepted beforehand for a client by which no person can be asked. */
  const accepting = async (method: () => Promise<unknown>): Promise<readonly string[]> => {
    const refused = await method().then(
      () => '',
      (error: unknown) => String(error),
    )
    return ['--accept-terms', /s256:[\w-]{43}/.exec(refused)![0]]
  }
  const ready = async (): Promise<Objects> => {
    const client = await clientOf(kind)
    if (!kind.endsWith('2026-07-28')) return client
    return clientOf(kind, await accepting(() => client.readResource({ uri: URI })))
  }

  it('finds resources, templates and prompts without a grant: what is data as it is, what is shown escaped', async () => {
    serveObjects()
    const client = await clientOf(kind)
    expect((await client.listResources()).resources).toEqual([
      { uri: URI, name: 'port&lt;b&gt;folio', mimeType: 'text/plain', size: 5 },
    ])
    expect((await client.listResourceTemplates()).resourceTemplates).toMatchObject([
      { uriTemplate: 'demo://more/{x}' },
    ])
    expect((await client.listPrompts()).prompts).toEqual(RESULTS['prompts/list']!['prompts'])
    expect(peers.agreements).toEqual([])
  })

  it('reads a resource under a grant that is negotiated once, and gets the answer unchanged', async () => {
    serveObjects()
    const client = await ready()
    for (let i = 0; i < 2; i++)
      expect(await client.readResource({ uri: URI })).toMatchObject(RESULTS['resources/read']!)
    expect(peers.grants).toHaveLength(1)
    expect(messageIn(asked('resources/read').at(-1)!).params['uri']).toBe(URI)
  })

  it('gets a prompt and a completion', async () => {
    serveObjects()
    const client = await ready()
    const args = { symbol: 'VTI' }
    expect(await client.getPrompt({ name: 'buy', arguments: args })).toMatchObject(RESULTS['prompts/get']!)
    expect(messageIn(asked('prompts/get').at(-1)!).params).toMatchObject({ name: 'buy', arguments: args })
    const ref = { type: 'ref/prompt', name: 'buy' }
    const argument = { name: 'symbol', value: 'V' }
    expect(await client.complete({ ref, argument })).toMatchObject(RESULTS['completion/complete']!)
  })

  it('spends a grant for one use on exactly the request that was approved', async () => {
    peers.twists.perOperation = true
    serveObjects()
    const client = await ready()
    await client.readResource({ uri: URI })
    const params = { 'usher/method': 'resources/read', uri: URI }
    expect(peers.grants.at(-1)!.operation).toEqual({ tool: 'read_file', params_s256: s256Json(params) })
    expect(asked('resources/read').filter(one => one.headers.authorization !== undefined)).toHaveLength(1)
  })

  it('goes on without what the server, or its enforcement point, does not have', async () => {
    serveObjects({
      'prompts/list': id => ({ body: { jsonrpc: '2.0', id, error: { code: -32601, message: 'No.' } } }),
    })
    const client = await clientOf(kind)
    expect((await client.listPrompts()).prompts).toEqual([])
    await expect(client.getPrompt({ name: 'buy' })).rejects.toThrow('There is no such prompt')
    expect((await client.listResources()).resources).toHaveLength(1)
  })
})
