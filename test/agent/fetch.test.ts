/**
 * contract, "Grant (RPT) liveness", for the calls that a foreign client makes with the `fetch` of the agent.
 */
import { describe, expect, it } from 'vitest'
import { memoryStore, type AgentStore } from '../../src/agent/index.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
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

  it('also where it is a JSON-RPC error, as callers of MCP 2026-07-28 are told', async () => {
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
  it('where a stream of the session is challenged, which may need more', async () => {
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
