/**
 * The official SDK's own clients read resources of an MCP server that enforces by itself, as the
 * configuration maps them. MCP 2025-11-25 and 2026-07-28; contract, "Authorized call".
 */
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer as Server1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { NodeHandler } from '../../../src/enforcement/doors/embedded/index.ts'
import {
  embeddedOwner,
  serve,
  standEmbedded,
  standingGrant,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { connect1, connect2, newWallet, signingFetch } from '../../support/mcp-clients.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const URI = 'demo://portfolio/1'
let stand: EmbeddedStand
let open: (() => Promise<void>)[]

const authority = startedOnce(startScriptedAuthority)
beforeEach(async () => {
  authority.reset()
  open = []
  const methods = { 'resources/read': { tool: 'portfolio_read' } }
  stand = await standEmbedded(authority.issuer, { owners: [embeddedOwner(authority.issuer, { methods })] })
})
afterEach(async () => {
  for (const close of open.reverse()) await close()
  await stand.close()
})

async function start(clientOf: typeof connect1) {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'tools', version: '1' })
    server.registerResource('portfolio', URI, {}, uri => ({ contents: [{ uri: uri.href, text: 'VTI 2' }] }))
    server.registerPrompt('poem', {}, () => ({ messages: [] }))
    return server
  })
  open.push(() => handler.close())
  const { port, close } = await serve(stand.point.protect(toNodeHandler(handler) as NodeHandler))
  open.push(close)
  const wallet = newWallet(agent)
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  const { client } = await clientOf(url, signingFetch(wallet, `${PUBLIC_URL}/mcp/alice`))
  open.push(() => client.close())
  return { client: client as unknown as Resources, wallet }
}

/** The part that clients of both SDKs share. */
interface Resources {
  listResources(): Promise<{ resources: { uri: string }[] }>
  readResource(params: { uri: string }): Promise<unknown>
  getPrompt(params: { name: string }): Promise<unknown>
}

describe.each<[string, typeof connect1]>([
  ['1.x (2025-11-25)', connect1],
  ['2.x (2026-07-28)', (url, fetch) => connect2(url, fetch, { pin: '2026-07-28' }) as never],
])('A client of the SDK %s', (what, clientOf) => {
  test('lists resources without a grant, and reads one under the grant of the tool that it is mapped to', async () => {
    const { client, wallet } = await start(clientOf)
    expect((await client.listResources()).resources.map(({ uri }) => uri)).toEqual([URI])
    await expect(client.readResource({ uri: URI })).rejects.toThrow()
    expect(wallet.denied.map(({ status }) => status)).toEqual([401])
    wallet.token = standingGrant(authority, agent)
    expect(await client.readResource({ uri: URI })).toMatchObject({ contents: [{ uri: URI, text: 'VTI 2' }] })
  })

  test('goes on after a method that is not mapped, which the server does not have for it', async () => {
    const { client } = await start(clientOf)
    const refused = await client.getPrompt({ name: 'poem' }).then(
      () => undefined,
      (error: unknown) => error,
    )
    expect(refused).toBeInstanceOf(Error)
    // The SDK 2.x tells of a 404 by its text.
    expect(what.startsWith('1.x') ? refused : JSON.parse(/\{.*\}/s.exec(String(refused))![0])).toMatchObject(
      what.startsWith('1.x') ? { code: -32601 } : { error: { code: -32601 } },
    )
    expect((await client.listResources()).resources).toHaveLength(1)
  })
})

test('over a transport without a status line a mapped method is challenged, and another one is -32601', async () => {
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const server = new Server1({ name: 'tools', version: '1' })
  server.registerResource('portfolio', URI, {}, uri => ({ contents: [{ uri: uri.href, text: 'VTI 2' }] }))
  server.registerPrompt('poem', {}, () => ({ messages: [] }))
  await server.connect(stand.point.guard(theirs, 'alice'))
  const client = new Client1({ name: 'test', version: '1' })
  await client.connect(ours)
  open.push(() => client.close())
  expect((await client.listResources()).resources.map(({ uri }) => uri)).toEqual([URI])
  await expect(client.readResource({ uri: URI })).rejects.toMatchObject({
    code: -32001,
    data: { scope: 'read' },
  })
  await expect(client.getPrompt({ name: 'poem' })).rejects.toMatchObject({ code: -32601 })
})
