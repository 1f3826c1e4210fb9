/**
 * A server that enforces by itself judges the parts of a split tool as the sidecar does, over HTTP and over a
 * transport without a status line. contract, "Authorized call".
 */
import { Client, InMemoryTransport } from '@modelcontextprotocol/client'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import type { NodeHandler } from '../../../src/enforcement/doors/embedded/index.ts'
import {
  embeddedOwner,
  serve,
  standEmbedded,
  standingGrant,
  type EmbeddedStand,
} from '../../support/embedded.ts'
import { connect2, newWallet, signingFetch } from '../../support/mcp-clients.ts'
import { startScriptedAuthority } from '../../support/scripted-authority.ts'
import { startedOnce } from '../../support/started.ts'
import { newKey, PUBLIC_URL } from '../calls.ts'

const agent = newKey()
const authority = startedOnce(startScriptedAuthority)
let stand: EmbeddedStand
const open: (() => Promise<void>)[] = []

const TOOLS = [
  { tool: 'edit_file', resource_id: 'alice/edits', scopes: ['write'], consequence: 'irreversible' },
  {
    tool: 'edit_file',
    when: { '/dryRun': true },
    as: 'edit_preview',
    // What `standingGrant` is for.
    resource_id: 'alice/portfolio',
    scopes: ['read'],
    consequence: 'reversible',
  },
]

beforeEach(async () => {
  authority.reset()
  stand = await standEmbedded(authority.issuer, {
    owners: [embeddedOwner(authority.issuer, { tools: TOOLS })],
  })
})
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
  await stand.close()
})

function editor(): McpServer {
  const server = new McpServer({ name: 'tools', version: '1' })
  const inputSchema = z.object({ dryRun: z.boolean().optional() })
  for (const name of ['edit_file', 'edit_preview'])
    server.registerTool(name, { inputSchema }, ({ dryRun }) => ({
      content: [{ type: 'text', text: dryRun === true ? 'preview' : 'edited' }],
    }))
  return server
}

test('over HTTP a grant of the part lets the preview through, and not the edit', async () => {
  const handler = createMcpHandler(editor)
  open.push(() => handler.close())
  const { port, close } = await serve(stand.point.protect(toNodeHandler(handler) as NodeHandler))
  open.push(close)
  const wallet = newWallet(agent)
  wallet.token = standingGrant(authority, agent)
  const url = new URL(`http://127.0.0.1:${port}/mcp/alice`)
  const { client } = await connect2(url, signingFetch(wallet, `${PUBLIC_URL}/mcp/alice`), {
    pin: '2026-07-28',
  })
  open.push(() => client.close())
  expect(await client.callTool({ name: 'edit_file', arguments: { dryRun: true } })).toMatchObject({
    content: [{ text: 'preview' }],
  })
  await expect(client.callTool({ name: 'edit_file', arguments: {} })).rejects.toThrow()
  expect(wallet.denied.map(({ status }) => status)).toEqual([401])
})

test('without a status line each part is challenged by its own scopes, and a part cannot be called by its name', async () => {
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await editor().connect(stand.point.guard(theirs, 'alice'))
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(ours)
  open.push(() => client.close())
  const refused = (name: string, args: object) =>
    client.callTool({ name, arguments: { ...args } }).then(
      () => undefined,
      (error: unknown) => (error as { data: object }).data,
    )
  expect(await refused('edit_file', { dryRun: true })).toMatchObject({ scope: 'read' })
  expect(await refused('edit_file', { dryRun: 'true' })).toMatchObject({ scope: 'write' })
  expect(await refused('edit_preview', { dryRun: true })).toMatchObject({ error: 'unknown_tool' })
  const { tools } = await client.listTools()
  expect(tools.map(({ name, _meta }) => [name, _meta?.['usher/access']])).toEqual([
    ['edit_file', 'asks'],
    ['edit_preview', 'closed'],
  ])
})
