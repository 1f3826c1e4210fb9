/**
 * A tool that its resource splits by its arguments, through the bridge: each part has terms and a grant of
 * its own. contract, "What the service does", beats 1 to 4, and "Challenge (beat 1)" (`identifier` names the
 * tool).
 */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { encodeChallenge } from '../../../src/wire/negotiation/challenge.ts'
import type { JsonObject } from '../../../src/wire/json.ts'
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
  params: { name: string; arguments?: JsonObject }
}

const TOOLS = [{ name: 'edit_file', inputSchema: { type: 'object' } }]

/** `edit_file` with `dryRun: true` is `edit_preview`. */
function splitTool(): void {
  let part = ''
  peers.twists.template = plain => {
    const named = {
      ...plain,
      template_id: `alice/${part}/v1`,
      terms_uri: `${peers.issuer}/terms/alice/${part}/v1`,
      resource_id: `alice/${part}`,
    }
    const { family: _family, nonce: _nonce, ...published } = named
    peers.authority.script(`/terms/alice/${part}/v1`, () => ({ body: published }))
    return named
  }
  const capabilities = { tools: {} }
  peers.twists.discovery = id => ({
    body: { jsonrpc: '2.0', id, result: { supportedVersions: ['2026-07-28'], capabilities } },
  })
  peers.tools.script('/mcp/alice', ({ body, headers }) => {
    const { id, method, params } = JSON.parse(body.toString()) as Message
    const answer = (result: object) => ({
      body: { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } },
    })
    if (method === 'tools/list') return answer({ tools: TOOLS, ttlMs: 0, cacheScope: 'private' })
    if (method !== 'tools/call') return undefined
    part = params.arguments?.['dryRun'] === true ? 'edit_preview' : 'edit_file'
    const { authorization } = headers
    const permissions =
      authorization === undefined ? [] : readRptClaims(authorization.replace(/^PoP /, '')).permissions
    if (!permissions.some(({ resource_id }) => resource_id === `alice/${part}`))
      return { status: 401, headers: { 'www-authenticate': encodeChallenge(challengeOf(peers, part)) } }
    return answer({ content: [{ type: 'text', text: part }] })
  })
}

it('each part is negotiated for once, and keeps its grant while the other is called', async () => {
  splitTool()
  const bridged = await startBridge({
    kind: '1.x 2025-11-25',
    name: 'parts',
    resources: [peers.resource],
    state: folder.folder,
    capabilities: { elicitation: { form: {} } },
    args: [],
  })
  open.push(bridged)
  const client = bridged.client as unknown as {
    callTool(params: object): Promise<{ content: { text: string }[] }>
  }
  const answers: string[] = []
  for (const dryRun of [true, false, true, false]) {
    const { content } = await client.callTool({ name: 'edit_file', arguments: { path: '/x', dryRun } })
    answers.push(content[0]!.text)
  }
  expect(answers).toEqual(['edit_preview', 'edit_file', 'edit_preview', 'edit_file'])
  expect(peers.grants.map(({ permissions }) => permissions[0]!.resource_id)).toEqual([
    'alice/edit_preview',
    'alice/edit_file',
  ])
})
