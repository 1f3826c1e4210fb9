/**
 * contract, "Grant (RPT) liveness", for the calls that a foreign client makes with the `fetch` of the agent.
 */
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { describe, expect, it } from 'vitest'
import { memoryStore, type AgentStore } from '../../src/agent/index.ts'
import { challengeData } from '../../src/wire/negotiation/challenge.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { takeProof } from '../../src/wire/signatures/message-proof.ts'
import { challengeOf, startScriptedPeers } from '../support/scripted-resource.ts'
import type { Reply } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

const presented = () => peers.tools.to('/mcp/alice').flatMap(({ headers }) => headers['authorization'] ?? [])

/** A `fetch` whose agent holds a standing grant that it has used once. */
async function withGrant(): Promise<{ store: AgentStore; ask: (method: string) => Promise<Response> }> {
  const store = memoryStore()
  const fetching = agentWith({ store }).fetchFor(peers.resource)
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'portfolio_read' } }
  const ask = (method: string): Promise<Response> =>
    fetching(peers.resource, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(method === 'POST' ? { body: JSON.stringify(body) } : {}),
    })
  expect((await ask('POST')).status).toBe(200)
  expect(presented()).toHaveLength(1)
  return { store, ask }
}

/** From now on the resource answers every call with a grant in this way. */
function answerAuthorized(reply: Reply): void {
  peers.tools.script('/mcp/alice', ({ headers }) => (headers.authorization === undefined ? undefined : reply))
}

describe('a refusal is terminal for the token presented', () => {
  it.each([
    ['POST', 403, 'access_revoked'],
    ['POST', 401, 'invalid_token'],
    ['POST', 403, 'some_word_from_the_future'],
    ['GET', 403, 'access_revoked'],
    ['DELETE', 403, 'access_revoked'],
  ])(
    '%s: after %i %s the client has the answer, and the grant is never sent again',
    async (method, status, error) => {
      const { store, ask } = await withGrant()
      const refusal = { error, error_description: 'No more.' }
      answerAuthorized({ status, body: refusal })
      const refused = await ask(method)
      expect([refused.status, await refused.json()]).toEqual([status, refusal])
      expect(await store.grants(peers.resource)).toEqual([])
      const before = presented()
      expect(before).toHaveLength(2)
      await ask(method)
      expect(presented().slice(2)).not.toContain(before[0])
    },
  )

  it('even if it is a JSON-RPC error, as callers of MCP 2026-07-28 are told', async () => {
    const { store, ask } = await withGrant()
    const data = { error: 'access_revoked', status: 403 }
    const refusal = { jsonrpc: '2.0', id: null, error: { code: -32002, message: 'No more.', data } }
    answerAuthorized({ status: 403, body: refusal })
    const refused = await ask('POST')
    expect([refused.status, await refused.json()]).toEqual([403, refusal])
    expect(await store.grants(peers.resource)).toEqual([])
  })
})

describe('a grant is kept', () => {
  it('if a stream of the session is challenged, which may need more', async () => {
    const { store, ask } = await withGrant()
    answerAuthorized({ status: 401, body: { error: 'insufficient_authorization' } })
    expect((await ask('GET')).status).toBe(401)
    expect(await store.grants(peers.resource)).toHaveLength(1)
  })

  it.each<[string, Reply]>([
    ['temporarily_unavailable', { status: 503, body: { error: 'temporarily_unavailable' } }],
    [
      'a page of a proxy',
      { status: 503, headers: { 'content-type': 'text/plain' }, body: 'no healthy upstream' },
    ],
    [
      'an error of the tool',
      { status: 400, body: { jsonrpc: '2.0', id: 1, error: { code: -32602, message: 'x' } } },
    ],
  ])('after %s', async (_what, reply) => {
    const { store, ask } = await withGrant()
    answerAuthorized(reply)
    expect((await ask('POST')).status).toBe(reply.status)
    expect(await store.grants(peers.resource)).toHaveLength(1)
  })
})

describe('a request of another method than tools/call', () => {
  const prompt = { name: 'buy', arguments: { symbol: 'VTI' } }
  const post = (fetching: typeof fetch, method: string, params: object): Promise<Response> =>
    fetching(peers.resource, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
  const answerAll = (): void =>
    peers.tools.script('/mcp/alice', ({ headers }) =>
      headers.authorization === undefined ? undefined : { body: { jsonrpc: '2.0', id: 1, result: {} } },
    )

  it('negotiates for the tool that the challenge names, and is approved with its method and its parameters', async () => {
    peers.twists.perOperation = true
    peers.twists.challenge = () => challengeOf(peers, 'use_prompt')
    answerAll()
    const answer = await post(agentWith().fetchFor(peers.resource), 'prompts/get', {
      ...prompt,
      _meta: { a: 1 },
    })
    expect(answer.status).toBe(200)
    const params = { 'usher/method': 'prompts/get', ...prompt }
    expect(peers.agreements.at(-1)!.claims).toMatchObject({ operation: { tool: 'use_prompt', params } })
    expect(peers.grants.at(-1)!.operation).toEqual({ tool: 'use_prompt', params_s256: s256Json(params) })
  })

  it('is sent at once under a grant that the same request needed before', async () => {
    answerAll()
    const fetching = agentWith().fetchFor(peers.resource)
    for (let i = 0; i < 2; i++) expect((await post(fetching, 'prompts/get', prompt)).status).toBe(200)
    expect(peers.grants).toHaveLength(1)
    expect(new Set(presented()).size).toBe(1)
  })

  it.each(['initialize', 'tools/list', 'notifications/initialized'])('%s is sent as it is', async method => {
    peers.tools.script('/mcp/alice', { status: 202, body: {} })
    expect((await post(agentWith().fetchFor(peers.resource), method, {})).status).toBe(202)
    expect(presented()).toEqual([])
  })
})

it('over a transport without HTTP, a request of another method negotiates and carries its proof', async () => {
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  const sent: JsonObject[] = []
  theirs.onmessage = received => {
    const { message, proof } = takeProof(received as unknown as JsonObject)
    sent.push(message)
    const data = challengeData(challengeOf(peers, 'read_file'))
    const answer =
      Object.keys(proof).length === 0
        ? { error: { code: -32001, message: 'Negotiate.', data } }
        : { result: { contents: [] } }
    void theirs.send({ jsonrpc: '2.0', id: message.id as number, ...answer } as never)
  }
  const transport = agentWith().authorize(ours, peers.resource)
  const heard = new Promise(resolve => (transport.onmessage = resolve))
  await transport.start()
  const params = { uri: 'demo://1' }
  await transport.send({ jsonrpc: '2.0', id: 7, method: 'resources/read', params })
  expect(await heard).toEqual({ jsonrpc: '2.0', id: 7, result: { contents: [] } })
  expect(sent).toMatchObject([
    { id: 7, params },
    { method: 'resources/read', params },
  ])
  await transport.close()
})
