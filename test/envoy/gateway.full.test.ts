/**
 * What Envoy, in our configuration, and the sidecar do with requests together: who may learn what, what is
 * refused before the authority is asked, and that a missing answer is never a permission. contract, "Resource
 * server enforcement point" and "Errors".
 */
import { readFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, test } from 'vitest'
import { callByHand } from '../../src/dev/story/raw-call.ts'
import { ownerEvent, firstEvent } from '../../src/dev/story/scene.ts'
import { createOwnerClient } from '../../src/owner/index.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../support/until.ts'

interface Sent {
  method?: string
  path: string
  headers?: Record<string, string>
  body?: string
}

/** Whether a line of a log is JSON with these members. */
function says(line: string, members: Record<string, unknown>): boolean {
  if (!line.startsWith('{')) return false
  const entry = JSON.parse(line) as Record<string, unknown>
  return Object.entries(members).every(([name, value]) => entry[name] === value)
}

describeWith(await envoy(), 'Envoy and the sidecar', found => {
  const scene = startedOnce(() => startScene({ envoy: found, sidecars: 2, authorities: 2 }))

  beforeAll(async () => {
    // The agent is known from here on.
    const call = scene.startCall('portfolio_read')
    const { family } = await firstEvent(call, 'waiting')
    await scene.owner.decide(family, 'approved')
    await call.result
    scene.memory.standing = (await firstEvent(call, 'granted')).grant
  })

  /** Sends a request as it is: `fetch` would normalize its path. */
  async function send({ method = 'POST', path, headers = {}, body }: Sent) {
    const { port } = new URL(scene.stack.publicUrl)
    const sent = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false })
    const response = await new Promise<import('node:http').IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).once('error', reject)
      sent.end(body)
    })
    return { status: response.statusCode, headers: response.headers, body: await text(response) }
  }

  const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const rpc = (method: string, params: object = {}) =>
    JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const arrivals = () => scene.stack.toolServer.record.arrivals

  describe('what reaches the tool', () => {
    test('whatever a client says with x-uma-* is taken off, even if no grant is needed', async () => {
      const before = arrivals().length
      // The last two become x-uma-… where a server hands fields on as variables.
      const dotted = { 'x.uma.owner': 'mallory', 'x-uma.tool': 'place_trade' }
      const forged = { 'x-uma-owner': 'mallory', 'X-UMA-Agent': 'jkt:mallory', 'x-uma-new': 'x', ...dotted }
      const { status } = await send({
        path: '/mcp/alice',
        headers: { ...json, ...forged },
        body: rpc('ping'),
      })
      expect(status).toBe(200)
      const names = Object.keys(arrivals()[before]!.headers)
      expect(names.filter(name => /^x.uma./.test(name))).toEqual([])
    })

    test('the tool is told of the caller what the grant says, not what the caller says', async () => {
      const { access_token: token } = scene.memory.standing!
      const answer = await callByHand(
        { resource: scene.stack.resource, tool: 'portfolio_read' },
        { token, key: scene.agentKey, headers: { 'x-uma-owner': 'mallory', 'x-uma-agent': 'jkt:mallory' } },
      )
      expect(answer.status).toBe(200)
      const { headers } = arrivals().at(-1)!
      expect(headers).toMatchObject({
        'x-uma-owner': 'alice',
        'x-uma-agent': scene.handle,
        'x-uma-tool': 'portfolio_read',
      })
      expect(headers).not.toHaveProperty('authorization')
    })

    test('the access log is told of the decision, and never of the credential', async () => {
      const { access_token: token } = scene.memory.standing!
      const read = { resource: scene.stack.resource, tool: 'portfolio_read' }
      expect((await callByHand(read, { token, key: scene.agentKey })).status).toBe(200)
      const family = arrivals().at(-1)!.headers['x-uma-family']
      const log = async () => readFile(join(scene.stack.directory, 'envoy.log'), 'utf8')
      const told = { decision: 'allow', reason: 'granted', family, handle: scene.handle }
      // Envoy gathers what it writes for some seconds.
      await until(async () => (await log()).split('\n').some(line => says(line, told)))
      expect(await log()).not.toContain(token.slice(0, 40))
    })

    test('the body arrives byte for byte', async () => {
      const body = '{"jsonrpc":"2.0",  "id":7,"method":"ping","params":{"é":"\\u00e9"}}'
      await send({ path: '/mcp/alice', headers: json, body })
      expect(arrivals().at(-1)!.body).toBe(body)
    })
  })

  describe('what is refused, and reaches no tool', () => {
    const call = rpc('tools/call', { name: 'portfolio_read' })
    test.each([
      [
        'a header whose name may be read in two ways',
        { path: '/mcp/alice', headers: { ...json, x_uma_owner: 'a' }, body: call },
        400,
      ],
      ['an escaped slash in the path', { path: '/mcp%2falice', headers: json, body: call }, 400],
      ['a path below the resource', { path: '/mcp/alice/more', headers: json, body: call }, 404],
      ['a path of nobody', { path: '/mcp/bea', headers: json, body: call }, 404],
      [
        'a path beside it that looks normal after dots are resolved',
        { path: '/mcp/alice/../bea', headers: json, body: call },
        404,
      ],
      [
        'a session of the transport (GET)',
        { method: 'GET', path: '/mcp/alice', headers: { accept: 'text/event-stream' } },
        405,
      ],
      ['the end of a session (DELETE)', { method: 'DELETE', path: '/mcp/alice' }, 405],
      ['a batch', { path: '/mcp/alice', headers: json, body: `[${call}]` }, 400],
      [
        'an unknown tool',
        { path: '/mcp/alice', headers: json, body: rpc('tools/call', { name: 'nothing' }) },
        403,
      ],
      // An MCP client reads the JSON-RPC error -32601 and goes on.
      ['an unknown method', { path: '/mcp/alice', headers: json, body: rpc('tools/install') }, 200, -32601],
      [
        'a member named twice',
        { path: '/mcp/alice', headers: json, body: call.replace('"id":1', '"id":1,"id":2') },
        400,
      ],
      ['no body', { path: '/mcp/alice', headers: json }, 400],
    ] satisfies [string, Sent, number, number?][])('%s', async (_, sent, status, ...codes) => {
      const before = arrivals().length
      const answer = await send(sent)
      expect({ status: answer.status, body: answer.body }).toMatchObject({ status })
      for (const code of codes) expect(JSON.parse(answer.body)).toMatchObject({ error: { code } })
      expect(answer.headers).not.toHaveProperty('www-authenticate')
      expect(arrivals().length).toBe(before)
    })

    test('a body beyond the cap, with the setting to change', async () => {
      const before = arrivals().length
      const answer = await send({
        path: '/mcp/alice',
        headers: json,
        body: rpc('tools/call', { name: 'portfolio_read', arguments: { filler: 'x'.repeat(1_200_000) } }),
      })
      expect(answer.status).toBe(413)
      expect(JSON.parse(answer.body)).toMatchObject({
        error: 'request_body_too_large',
        error_description: expect.stringContaining('max_request_bytes'),
      })
      expect(arrivals().length).toBe(before)
    })

    test('a large body below the cap is judged like any other', async () => {
      const body = rpc('tools/call', { name: 'portfolio_read', arguments: { filler: 'x'.repeat(1_000_000) } })
      expect((await send({ path: '/mcp/alice', headers: json, body })).status).toBe(401)
    })
  })

  test('the public documents are served without anybody being asked', async () => {
    for (const path of [
      '/jwks',
      '/.well-known/oauth-protected-resource/mcp/alice',
      '/.well-known/oauth-protected-resource',
    ])
      expect((await send({ method: 'GET', path })).status).toBe(200)
    const { status } = await send({ method: 'GET', path: '/owner-resources/alice' })
    expect(status).toBe(401)
  })

  describe('no answer is no permission', () => {
    const read = () => {
      const { access_token: token } = scene.memory.standing!
      return callByHand(
        { resource: scene.stack.resource, tool: 'portfolio_read' },
        { token, key: scene.agentKey },
      )
    }

    const sidecars = () => scene.stack.children.filter(({ name }) => name.startsWith('sidecar'))

    test('with one of two sidecars gone, calls go on', async () => {
      await sidecars()[0]!.stop()
      for (let n = 0; n < 10; n++) expect((await read()).status).toBe(200)
    })

    test('a revocation at one replica of the authority holds at once for calls that another one judges', async () => {
      const { household, issuer, authorities } = scene.stack
      const { ownerApi } = authorities[1]!
      await createOwnerClient({ api: ownerApi, issuer, key: household.ownerKey }).revoke(scene.handle)
      expect(await read()).toMatchObject({ status: 403, json: { error: 'access_revoked' } })
      // Her stream hangs at the first replica.
      await ownerEvent(scene, 'the event "connection_revoked"', ({ event }) => event === 'connection_revoked')
    })

    test('with both sidecars gone, Envoy answers 503, and no challenge', async () => {
      await sidecars()[1]!.stop()
      const before = arrivals().length
      const answer = await read()
      expect(answer.status).toBe(503)
      expect(answer.headers.get('www-authenticate')).toBeNull()
      expect(arrivals().length).toBe(before)
    })
  })
})

describeWith(await envoy(), 'the authority away', found => {
  const scene = startedOnce(() => startScene({ envoy: found }))

  test('the sidecar answers 503 temporarily_unavailable: neither a challenge nor a pass', async () => {
    const read = { resource: scene.stack.resource, tool: 'portfolio_read' }
    expect((await callByHand(read)).status).toBe(401)
    await scene.stack.children.find(({ name }) => name === 'authority')!.stop()
    const answer = await callByHand(read)
    expect(answer).toMatchObject({ status: 503, json: { error: 'temporarily_unavailable' } })
    const other = { token: 'not.a.token', key: scene.agentKey }
    expect(await callByHand(read, other)).toMatchObject({
      status: 503,
      json: { error: 'temporarily_unavailable' },
    })
    expect(scene.stack.toolServer.record.arrivals).toEqual([])
  })
})
