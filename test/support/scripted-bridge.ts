/**
 * A bridge before a resource and an authority that are scripted: the tool answers as a test says, and what
 * reached it is kept.
 */
import { afterEach, beforeEach } from 'vitest'
import { bridgeFolder, startBridge, type BridgedClient, type BridgeOptions } from './bridge.ts'
import type { Reply } from './scripted-http.ts'
import { startScriptedPeers, type ScriptedPeers } from './scripted-resource.ts'

/** What a call of a tool brings. */
export interface Params {
  name: string
  arguments: object
  requestState?: string
  inputResponses?: object
}

export interface ScriptedBridge {
  peers: ScriptedPeers
  folder: string
  client: BridgedClient
  /** What the resource lists. */
  listing: () => { tools: object[]; ttlMs?: number }
  /**
   * What the tool answers, with and without a grant; undefined: as the scripted resource does. With a member
   * `error` it is an error of JSON-RPC.
   */
  answers: (call: Params, signed: boolean) => Answer | Promise<Answer>
  /** The calls that reached the tool under a grant. */
  sent: Params[]
  /** The document of the owner's terms of each call, or of all of them. */
  terms(perOperation: boolean): void
  start(options: Pick<BridgeOptions, 'kind' | 'capabilities' | 'args' | 'word'>): Promise<BridgedClient>
  /** How many requests of that method came to the resource. */
  came(method: string): number
}
type Answer = object | undefined

export const TOOL = 'place_trade'
const CACHED = { ttlMs: 60_000, cacheScope: 'private' }
const ABOUT = {
  ...CACHED,
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
  serverInfo: { name: 't', version: '1' },
}
const told = (id: string, answer: object): Reply => ({
  body: {
    jsonrpc: '2.0',
    id,
    ...('error' in answer ? answer : { result: { resultType: 'complete', ...answer } }),
  },
})

/** Makes one anew for each test. */
export function useScriptedBridge(): ScriptedBridge {
  const stand = {
    terms: perOperation => publish(stand.peers, perOperation),
    came: method =>
      stand.peers.tools.to('/mcp/alice').filter(({ body }) => body.toString().includes(`"${method}"`)).length,
  } as ScriptedBridge
  let remove: () => Promise<void>
  beforeEach(async () => {
    const kept = await bridgeFolder()
    remove = kept.remove
    Object.assign(stand, { peers: await startScriptedPeers(), folder: kept.folder, sent: [] })
    stand.answers = () => undefined
    stand.listing = () => ({ tools: [{ name: TOOL, inputSchema: { type: 'object' } }] })
    stand.start = async options => {
      const resources = [stand.peers.resource]
      stand.client = await startBridge({ name: 'client', resources, state: stand.folder, ...options })
      return stand.client
    }
    scriptTool(stand)
  })
  afterEach(async () => {
    await stand.client.close()
    await stand.peers.close()
    await remove()
  })
  return stand
}

function scriptTool(stand: ScriptedBridge): void {
  stand.peers.twists.discovery = id => told(id, ABOUT)
  stand.peers.tools.script('/mcp/alice', async ({ method: verb, headers, body }) => {
    if (verb !== 'POST') return { status: 405 }
    const asked = JSON.parse(body.toString()) as { id: string; method: string; params: Params }
    const { id, method, params } = asked
    if (method === 'tools/list') return told(id, { ...CACHED, ...stand.listing() })
    if (method !== 'tools/call') return told(id, ABOUT)
    const signed = headers.authorization !== undefined
    if (signed) stand.sent.push(params)
    const answer = await stand.answers(params, signed)
    return answer === undefined ? undefined : told(id, answer)
  })
}

function publish({ authority, issuer, twists }: ScriptedPeers, per_operation: boolean): void {
  const terms_uri = `${issuer}/terms/alice/reading/v1`
  const of = { template_id: 'alice/reading/v1', terms_uri, proffered_by: issuer }
  const purpose = 'Keep an eye on the savings'
  const said = { purpose, scope: ['read'], expires_in: 3600, prohibited: ['training'] }
  authority.script('/terms/alice/reading/v1', {
    body: { ...of, ...said, ...(per_operation && { per_operation }) },
  })
  twists.perOperation = per_operation
}
