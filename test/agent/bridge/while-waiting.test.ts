/**
 * contract, "Permission ticket" and "Errors": what becomes of a request that waits for the owner when her
 * authority cannot be had, and of calls of a tool that needs no grant any more. The authority and the
 * resource are scripted.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { bridgeFolder, filesIn, startBridge, type BridgedClient } from '../../support/bridge.ts'
import { rowsOfLayer } from '../../support/layer.ts'
import type { Reply } from '../../support/scripted-http.ts'
import { startScriptedPeers, type ScriptedPeers } from '../../support/scripted-resource.ts'

let peers: ScriptedPeers
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let client: BridgedClient | undefined
interface Asked {
  id: string
  method: string
  params: { arguments: object }
}
/** What the tool answers a call without a grant; undefined: it is challenged. */
let answers: (call: { arguments: object }) => string | undefined

beforeEach(async () => {
  peers = await startScriptedPeers()
  folder = await bridgeFolder()
  answers = () => undefined
  peers.twists.discovery = id => told(id, ABOUT)
  peers.tools.script('/mcp/alice', ({ method: verb, headers, body }) => {
    if (headers.authorization !== undefined) return undefined
    if (verb !== 'POST') return { status: 405 }
    const { id, method, params } = JSON.parse(body.toString()) as Asked
    if (method === 'tools/list')
      return told(id, { ...CACHED, tools: [{ name: TOOL, inputSchema: { type: 'object' } }] })
    if (method !== 'tools/call') return told(id, ABOUT)
    const text = answers(params)
    return text === undefined ? undefined : told(id, { content: [{ type: 'text', text }] })
  })
})
afterEach(async () => {
  await client?.close()
  await peers.close()
  await folder.remove()
})

const TOOL = 'place_trade'
const CACHED = { ttlMs: 60_000, cacheScope: 'private' }
const ABOUT = {
  ...CACHED,
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
  serverInfo: { name: 't', version: '1' },
}
const told = (id: string, result: object): Reply => ({
  body: { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } },
})

/** The terms of each call, or of all of them. */
function terms(per_operation: boolean): void {
  const terms_uri = `${peers.issuer}/terms/alice/reading/v1`
  const of = { template_id: 'alice/reading/v1', terms_uri, proffered_by: peers.issuer }
  const purpose = 'Keep an eye on the savings'
  const said = { purpose, scope: ['read'], expires_in: 3600, prohibited: ['training'] }
  peers.authority.script('/terms/alice/reading/v1', {
    body: { ...of, ...said, ...(per_operation && { per_operation }) },
  })
  peers.twists.perOperation = per_operation
}
async function started(args: string[], more: object = {}): Promise<BridgedClient> {
  const { resource } = peers
  const at = { kind: '1.x 2025-11-25', name: 'client', resources: [resource], state: folder.folder } as const
  client = await startBridge({ ...at, capabilities: { elicitation: { form: {} } }, args, ...more })
  return client
}
/** The phases of the requests that are kept. */
async function kept(): Promise<string[]> {
  const files = (await filesIn(folder.folder)).filter(({ path }) => path.includes('/families/'))
  return files.map(({ text }) => (JSON.parse(text) as { phase: { name: string } }).phase.name)
}
const polled = (): number => peers.tokenForms().length

describe('A request that waits for the owner', () => {
  beforeEach(() => {
    terms(true)
    peers.twists.owner = { polls: 1_000, kind: 'operation', interval: 1 }
  })
  /** A call that waits, whose polls are answered by `reply` from then on. */
  const interrupted = async (reply: Reply, ...args: string[]) => {
    let isDown = false
    peers.authority.script('/token', () => (isDown ? reply : undefined))
    const { call } = await started(['--hold', '20', ...args])
    const answer = call(TOOL, { qty: 1 })
    await expect.poll(polled).toBeGreaterThan(2)
    isDown = true
    const said = await answer
    isDown = false
    return { said, call }
  }
  const page = (status: number): Reply => ({
    status,
    headers: { 'content-type': 'text/html', 'retry-after': '0' },
    body: '<h1>Not now</h1>',
  })

  it.each(rowsOfLayer([404, 408, 425, 429, 500, 503, 520], status => status === 429 || status === 500))(
    'is kept where a page with status %i comes in the place of an answer, which is told as an outage',
    async status => {
      const { said, call } = await interrupted(page(status))
      expect(said).toMatchObject({ isError: true, reason: 'temporarily_unavailable' })
      expect(said.text).not.toContain('Calling it again changes nothing')
      expect(await kept()).toEqual(['waiting'])
      delete peers.twists.owner
      expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
      // It went on where it was: nobody was asked anew.
      expect(peers.agreements).toHaveLength(1)
    },
  )

  it.each<[string, Reply]>([
    ['a page that says nothing of an outage', { ...page(0), status: 403 }],
    ['JSON that is no answer', { body: [] }],
  ])('is kept where %s comes in the place of an answer', async (_what, reply) => {
    const { said, call } = await interrupted(reply)
    expect(said).toMatchObject({ isError: true, reason: 'answer_malformed' })
    expect(await kept()).toEqual(['waiting'])
    delete peers.twists.owner
    expect((await call(TOOL, { qty: 1 })).isError).toBe(false)
    expect(peers.agreements).toHaveLength(1)
  })

  it('and whose caller was told of an outage is declined after --linger, if nobody comes back', async () => {
    const before = () => peers.tokenForms().filter(({ decline }) => decline === 'true')
    await interrupted(page(503), '--linger', '1')
    await expect.poll(kept).toEqual([])
    expect(before()).toHaveLength(1)
  })
})

describe('Calls of a tool that needs no grant by the time that the terms are accepted', () => {
  it('each have the answer to their own call, and each is made once', async () => {
    terms(false)
    const made: object[] = []
    peers.authority.script('/token', ({ form }) => {
      if (!form.has('claim_token')) return undefined
      // Nobody is asked for a grant any more, and the ticket has expired while a person read the terms.
      answers = call => {
        made.push(call.arguments)
        return `made ${JSON.stringify(call.arguments)}`
      }
      return { status: 400, body: { error: 'invalid_grant', error_description: 'expired' } }
    })
    const read = Promise.withResolvers<'accept'>()
    const { call, elicited } = await started(['--hold', '20'], { word: () => read.promise })
    const calls = [1, 2, 3].map(qty => call(TOOL, { qty }))
    // All three were challenged before anybody said yes.
    await expect.poll(() => challenged()).toBe(3)
    await expect.poll(() => elicited.length).toBe(1)
    read.resolve('accept')
    expect((await Promise.all(calls)).map(({ text }) => text)).toEqual(
      [1, 2, 3].map(qty => `made {"qty":${qty}}`),
    )
    expect(made.toSorted((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)))).toEqual(
      [1, 2, 3].map(qty => ({ qty })),
    )
  })
})

/** How many calls came without a grant. */
const challenged = (): number =>
  peers.tools.to('/mcp/alice').filter(({ body }) => body.toString().includes('"tools/call"')).length
