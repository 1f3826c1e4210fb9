/**
 * A link (`resource_link`) of a tool, followed by a client of the bridge at a resource that maps the reading
 * of such links to that tool. contract, "What the service does", beats 1 to 4, and "Challenge (beat 1)"
 * (`identifier` names the tool).
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '../../../src/wire/json.ts'
import { encodeChallenge } from '../../../src/wire/negotiation/challenge.ts'
import { readRptClaims } from '../../../src/wire/negotiation/tokens.ts'
import { bridgeFolder, startBridge, type BridgedClient } from '../../support/bridge.ts'
import { challengeOf, startScriptedPeers } from '../../support/scripted-resource.ts'
import { startedForEach } from '../../support/started.ts'

const peers = startedForEach(startScriptedPeers)
let folder: Awaited<ReturnType<typeof bridgeFolder>>
const open: BridgedClient[] = []
beforeAll(async () => {
  folder = await bridgeFolder()
})
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})
afterAll(() => folder.remove())

interface Message {
  id: string
  method: string
  params: { name?: string; uri?: string }
}

const LISTS: Record<string, JsonObject> = {
  'tools/list': { tools: ['report', 'secret'].map(name => ({ name, inputSchema: { type: 'object' } })) },
  'resources/list': { resources: [] },
}

/** `demo://report/…` is mapped to the tool `report`, `demo://secret/…` to `secret`. */
function mapLinks(): void {
  let needed = ''
  peers.twists.template = plain => {
    const named = {
      ...plain,
      template_id: `${needed}/v1`,
      terms_uri: `${peers.issuer}/terms/${needed}/v1`,
      resource_id: needed,
    }
    const { family: _family, nonce: _nonce, ...published } = named
    peers.authority.script(`/terms/${needed}/v1`, () => ({ body: published }))
    return named
  }
  const capabilities = { tools: {}, resources: {} }
  peers.twists.discovery = id => ({
    body: { jsonrpc: '2.0', id, result: { supportedVersions: ['2026-07-28'], capabilities } },
  })
  peers.tools.script('/mcp/alice', ({ body, headers }) => {
    const { id, method, params } = JSON.parse(body.toString()) as Message
    const answer = (result: object) => ({
      body: { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } },
    })
    const cached = { ttlMs: 0, cacheScope: 'private' }
    if (LISTS[method] !== undefined) return answer({ ...LISTS[method], ...cached })
    if (method !== 'tools/call' && method !== 'resources/read') return undefined
    const tool = params.name ?? (params.uri!.startsWith('demo://secret/') ? 'secret' : 'report')
    const { authorization } = headers
    const permissions =
      authorization === undefined ? [] : readRptClaims(authorization.replace(/^PoP /, '')).permissions
    if (!permissions.some(({ resource_id }) => resource_id === `alice/${tool}`)) {
      needed = `alice/${tool}`
      return { status: 401, headers: { 'www-authenticate': encodeChallenge(challengeOf(peers, tool)) } }
    }
    if (method === 'tools/call')
      return answer({ content: [{ type: 'resource_link', uri: `demo://${tool}/1`, name: 'One' }] })
    return answer({ contents: [{ uri: params.uri!, text: tool }], ...cached })
  })
}

interface Reading {
  callTool(params: { name: string }): Promise<{ content: { uri: string }[] }>
  readResource(params: { uri: string }): Promise<{ contents: { text: string }[] }>
}

let count = 0
async function clientAt(): Promise<{ client: Reading; elicited: BridgedClient['elicited'] }> {
  const bridged = await startBridge({
    kind: '1.x 2025-11-25',
    name: `links ${++count}`,
    resources: [peers.resource],
    state: folder.folder,
    capabilities: { elicitation: { form: {} } },
  })
  open.push(bridged)
  return { client: bridged.client as unknown as Reading, elicited: bridged.elicited }
}
const negotiated = () => peers.grants.map(({ permissions }) => permissions[0]!.resource_id)

describe('A client of the bridge that follows a link of a tool', () => {
  it('reads it under the standing grant of the tool, and nobody is asked again', async () => {
    mapLinks()
    const { client, elicited } = await clientAt()
    const { content } = await client.callTool({ name: 'report' })
    const { uri } = content[0]!
    for (let i = 0; i < 2; i++)
      expect((await client.readResource({ uri })).contents).toEqual([{ uri, text: 'report' }])
    expect(negotiated()).toEqual(['alice/report'])
    expect(elicited).toHaveLength(1)
  })

  it('is asked about the terms of what is mapped to another tool, and the first grant lives on', async () => {
    mapLinks()
    const { client, elicited } = await clientAt()
    await client.callTool({ name: 'report' })
    await client.readResource({ uri: 'demo://secret/1' })
    expect((await client.readResource({ uri: 'demo://report/1' })).contents[0]!.text).toBe('report')
    await client.callTool({ name: 'report' })
    expect(negotiated()).toEqual(['alice/report', 'alice/secret'])
    expect(elicited).toHaveLength(2)
  })
})
