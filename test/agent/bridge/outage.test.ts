/**
 * contract, "Errors" (an outage is never told as a denial) and "Single-use grant", for a resource that fails
 * in the very moment in which an approved call is sent: a provably unspent grant is kept; if nobody can know,
 * that is said, and the call is never sent again.
 */
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { basename, dirname, join } from 'node:path'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { holdIn } from '../../../src/agent/bridge/negotiation/holds.ts'
import { bridgeFolder, filesIn, startBridge, type BridgedClient } from '../../support/bridge.ts'
import type { Received, Reply } from '../../support/scripted-http.ts'
import { startScriptedPeers, type ScriptedPeers } from '../../support/scripted-resource.ts'

const TRADE = { symbol: 'VTI', qty: 1 }
let peers: ScriptedPeers
let folder: Awaited<ReturnType<typeof bridgeFolder>>
let started: BridgedClient
/** How the resource answers the approved call, by how often it came. */
let onSend: (nth: number) => Reply | undefined

const isSigned = ({ headers }: Received): boolean => headers.authorization !== undefined
const sent = (): Received[] => peers.tools.to('/mcp/alice').filter(isSigned)

const clientOptions = (): Parameters<typeof startBridge>[0] => ({
  kind: '2.x 2026-07-28',
  name: 'client',
  resources: [peers.resource],
  state: folder.folder,
  capabilities: { elicitation: { form: {} } },
})

beforeEach(async () => {
  peers = await startScriptedPeers()
  folder = await bridgeFolder()
  onSend = () => undefined
  peers.twists.perOperation = true
  // The server below is of an older revision, and says so itself.
  peers.twists.discovery = () => undefined
  const terms_uri = `${peers.issuer}/terms/alice/reading/v1`
  peers.authority.script('/terms/alice/reading/v1', {
    body: {
      template_id: 'alice/reading/v1',
      terms_uri,
      proffered_by: peers.issuer,
      purpose: 'Keep an eye on the savings',
      scope: ['read'],
      expires_in: 3600,
      prohibited: ['training'],
      per_operation: true,
    },
  })
  peers.tools.script('/mcp/alice', received => {
    if (isSigned(received)) return onSend(sent().length)
    return speakMcp(received)
  })
  started = await startBridge(clientOptions())
})
afterEach(async () => {
  await started.close().catch(() => undefined)
  await peers.close().catch(() => undefined)
  await folder.remove()
})

/** Whatever is no call is answered by the official SDK. */
function speakMcp({ method, body }: Received): Reply | undefined {
  if (method !== 'POST') return { status: 405 }
  const message = JSON.parse(body.toString()) as { method: string }
  if (message.method === 'tools/call') return undefined
  return {
    write: async (response, request) => {
      const server = new McpServer({ name: 'tools', version: '1' })
      const inputSchema = { symbol: z.string(), qty: z.number() }
      server.registerTool('place_trade', { inputSchema }, () => ({ content: [] }))
      const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
      await server.connect(transport)
      await transport.handleRequest(request, response, message)
    },
  }
}

const unavailable = (more: object = {}): Reply => ({
  status: 503,
  headers: { 'retry-after': '0' },
  body: { error: 'temporarily_unavailable', error_description: 'The authority is away.', ...more },
})

const asked = (): number[] => [peers.agreements.length, started.elicited.length]

describe('An outage in the moment in which an approved call is sent', () => {
  it('is told as an outage with when to try again, and the approval is kept: the repeat is not asked about again', async () => {
    onSend = () => unavailable({ grant_unspent: true })
    const answer = await started.call('place_trade', TRADE)
    expect(answer).toMatchObject({ isError: true, reason: 'temporarily_unavailable' })
    expect(answer.family).toMatch(/^fam_/)
    expect(answer.meta).toMatchObject({ 'usher/terminal': false, 'usher/retry_after': 0 })
    expect(answer.text).toContain('It is an outage, not a decision. The call was not made')
    expect(sent()).toHaveLength(4)
    onSend = () => undefined
    expect((await started.call('place_trade', TRADE)).text).toContain('"qty":1')
    expect(asked()).toEqual([1, 1])
    expect(peers.grants).toHaveLength(1)
    expect(new Set(sent().map(({ headers }) => headers.authorization)).size).toBe(1)
  })

  it('keeps the approval for the bridge that comes after the one that was killed, and she is not asked again', async () => {
    onSend = () => unavailable({ grant_unspent: true })
    const answer = await started.call('place_trade', TRADE)
    expect(answer).toMatchObject({ isError: true, reason: 'temporarily_unavailable' })
    await started.kill()
    onSend = () => undefined
    started = await startBridge(clientOptions())
    expect((await started.call('place_trade', TRADE)).text).toContain('"qty":1')
    expect([peers.agreements.length, peers.grants.length, started.elicited.length]).toEqual([1, 1, 0])
    expect(new Set(sent().map(({ headers }) => headers.authorization)).size).toBe(1)
  })

  it('that is over soon is waited for, where the enforcement point says that the grant is unspent', async () => {
    onSend = nth => (nth === 1 ? unavailable({ grant_unspent: true }) : undefined)
    expect((await started.call('place_trade', TRADE)).text).toContain('"qty":1')
    expect(sent()).toHaveLength(2)
    expect(asked()).toEqual([1, 1])
  })

  it.each([
    ['503 that does not say whether the grant is spent', unavailable()],
    ['503 that says something else of it', unavailable({ grant_unspent: 'perhaps' })],
    ['the page of a proxy', { status: 503, headers: { 'content-type': 'text/plain' }, body: 'no upstream' }],
    ['a connection that is cut', { write: (_response, { socket }) => void socket.destroy() }],
  ] satisfies [string, Reply][])(
    'leaves what nobody can say unknown, and is never sent again: %s',
    async (_what, reply) => {
      onSend = () => reply
      const answer = await started.call('place_trade', TRADE)
      expect(answer).toMatchObject({ isError: true, reason: 'outcome_unknown' })
      expect(answer.meta).toMatchObject({ 'usher/terminal': true })
      expect(answer.family).toMatch(/^fam_/)
      expect(sent()).toHaveLength(1)
      onSend = () => undefined
      // A repeated call is another one, under another grant.
      await started.call('place_trade', TRADE)
      const [first, ...others] = sent().map(({ headers }) => headers.authorization)
      expect(others).not.toContain(first)
      expect(peers.agreements).toHaveLength(2)
    },
  )

  it('is no time in which the client is told that nothing was done: she approved, and the call was sent', async () => {
    await started.close()
    peers.twists.owner = { polls: 1, kind: 'operation', interval: 1 }
    started = await startBridge({ ...clientOptions(), args: ['--hold', '3'] })
    const came = Promise.withResolvers<void>()
    onSend = () => ({
      write: async response => {
        await came.promise
        const result = { content: [{ type: 'text', text: 'Bought' }] }
        const { id } = JSON.parse(sent()[0]!.body.toString()) as { id: number }
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      },
    })
    const heard: (string | undefined)[] = []
    const answer = await started.call('place_trade', TRADE, {
      onprogress: ({ message }) => void heard.push(message),
    })
    expect(sent()).toHaveLength(1)
    expect(answer).toMatchObject({ isError: false, reason: 'approved' })
    expect(answer.family).toMatch(/^fam_/)
    expect(answer.text).toBe(
      'The owner (alice) approved this very call: it was sent, and no answer has come yet, so it may have run. ' +
        'Call place_trade again with the same arguments later: it joins this call, and makes no second one.',
    )
    expect(heard.join('\n')).toContain('Nothing was done yet. The owner (alice) decides')
    expect(heard.at(-1)).toBe(answer.text)
    const repeat = started.call('place_trade', TRADE)
    came.resolve()
    expect((await repeat).text).toBe('Bought')
    expect(sent()).toHaveLength(1)
    expect(asked()[0]).toBe(1)
  })

  it('keeps the approval where the resource cannot be reached', async () => {
    const { port } = new URL(peers.resource)
    let again: Server | undefined
    // The resource is gone once the owner has approved.
    const { authority, tools } = peers
    authority.script('/token', async ({ form }) => {
      if (form.has('claim_token')) await tools.close()
      return undefined
    })
    try {
      const answer = await started.call('place_trade', TRADE)
      expect(answer).toMatchObject({ isError: true, reason: 'unreachable' })
      expect(answer.meta).toMatchObject({ 'usher/terminal': false, 'usher/retry_after': 60 })
      expect(answer.text).toContain('what was approved stays approved')
      const [kept] = (await filesIn(folder.folder)).filter(({ path }) => path.includes('/families/'))
      expect(JSON.parse(kept!.text)).toMatchObject({ phase: { name: 'granted' } })
      let calls = 0
      again = createServer((request, response) => {
        calls += request.headers.authorization === undefined ? 0 : 1
        const chunks: Buffer[] = []
        request
          .on('data', chunk => chunks.push(chunk as Buffer))
          .on('end', () => {
            const { id } = JSON.parse(Buffer.concat(chunks).toString() || '{}') as { id?: number }
            const result = { content: [{ type: 'text', text: 'Bought' }] }
            response.writeHead(200, { 'content-type': 'application/json' })
            response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
          })
      })
      await new Promise<void>(resolve => again!.listen(Number(port), '127.0.0.1', resolve))
      expect((await started.call('place_trade', TRADE)).text).toBe('Bought')
      expect(calls).toBe(1)
      expect(asked()).toEqual([1, 1])
    } finally {
      again?.closeAllConnections()
      again?.close()
    }
  })
})

describe('An outage that the bridge waits out', () => {
  const CONFIGURATION = '/.well-known/agents-configuration'

  it.each<[string, string, () => string]>([
    [
      'a document',
      CONFIGURATION,
      () =>
        `outage of the authority's metadata at ${peers.issuer}${CONFIGURATION}: it is asked for again in 0 s`,
    ],
    ['a request', '/token', () => 'a resource or its authority is in an outage: it is asked again in 0 s'],
  ])('is told at standard error, and the call is made: %s', async (_what, path, line) => {
    peers.authority.script(path, (_received, nth) => (nth === 1 ? unavailable() : undefined))
    expect((await started.call('place_trade', TRADE)).text).toContain('"qty":1')
    await expect.poll(started.said).toContain(line())
  })
})

describe('A call that comes while its bridge takes back the request that an earlier one left', () => {
  it('waits until that is over, and is negotiated anew', async () => {
    peers.twists.owner = { polls: 1000, kind: 'operation', interval: 1 }
    started.call('place_trade', TRADE).catch(() => undefined)
    const waiting = async (): Promise<{ path: string; text: string } | undefined> =>
      (await filesIn(folder.folder)).find(
        file => file.path.includes('/families/') && file.text.includes('"waiting"'),
      )
    await expect.poll(waiting).toBeDefined()
    await started.kill()
    const { path, text } = (await waiting())!
    await writeFile(path, JSON.stringify({ ...(JSON.parse(text) as object), left: 1 }))
    delete peers.twists.owner
    const [declined, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    peers.authority.script('/token', async ({ form }) => {
      if (form.get('decline') !== 'true') return undefined
      declined.resolve()
      await mayEnd.promise
      return undefined
    })
    started = await startBridge(clientOptions())
    await started.tools()
    await declined.promise
    const answer = started.call('place_trade', TRADE)
    // So often, another window gives up in the time of a call that would.
    const held = join(dirname(dirname(path)), 'held')
    for (let window = 1; window <= 8; window++)
      expect(await holdIn(held, basename(path, '.json'), 'offered')).toBeUndefined()
    mayEnd.resolve()
    expect((await answer).text).toContain('"qty":1')
    expect(peers.agreements).toHaveLength(2)
  })
})
