/** contract, "Authorized call", seen from an agent that calls a plain HTTP API. */
import { describe, expect, it } from 'vitest'
import { memoryStore, type Agent, type CallOptions } from '../../src/agent/index.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import { startedForEach } from '../support/started.ts'
import { agentWith } from './agents.ts'

const peers = startedForEach(startScriptedPeers)

const GET = { method: 'GET', path: '/accounts/{account}' }
const call = (agent: Agent, options: Partial<CallOptions> = {}) =>
  agent.call({
    resource: peers.resource,
    tool: 'api_call',
    http: GET,
    arguments: { path: { account: '7' } },
    ...options,
  })
const told = (result: unknown) => (result as { body: JsonObject }).body
const failing = (options: Partial<CallOptions>) =>
  call(agentWith(), options).then(
    () => expect.fail('expected a failure'),
    (error: unknown) => error,
  )

describe('A call of a plain API', () => {
  it('goes below the resource, on its origin; the metadata is that of the resource', async () => {
    const { result, grant } = await call(agentWith(), {
      arguments: { path: { account: 'savings é' }, query: { month: ['1', '2'], q: 'a b+c' } },
    })
    expect(result).toMatchObject({ status: 200, content_type: 'application/json' })
    expect(told(result)).toMatchObject({
      method: 'GET',
      path: '/mcp/alice/accounts/savings%20%C3%A9',
      query: 'month=1&month=2&q=a%20b%2Bc',
      body: '',
      jti: grant!.jti,
    })
    expect(peers.tools.to('/.well-known/oauth-protected-resource/mcp/alice')).toHaveLength(1)
  })

  it('signs for exactly its path, query and body if the owner is asked each time', async () => {
    peers.twists.perOperation = true
    const http = { method: 'POST', path: '/orders' }
    const { result } = await call(agentWith(), { http, arguments: { body: { qty: 2 } } })
    const params = { path: {}, query: {}, body: { qty: 2 } }
    expect(peers.agreements[0]!.claims.operation).toEqual({ tool: 'api_call', params })
    expect(told(result)).toMatchObject({
      body: '{"qty":2}',
      type: 'application/json',
      operation: { tool: 'api_call', params_s256: s256Json(params) },
    })
  })

  it('may carry other bytes than JSON, which count by their hash', async () => {
    peers.twists.perOperation = true
    const bytes = Buffer.from('symbol=VTI')
    const http = { method: 'POST', path: '/orders', content: { type: 'text/csv', bytes } }
    const { result } = await call(agentWith(), { http, arguments: {} })
    expect(told(result)).toMatchObject({ body: 'symbol=VTI', type: 'text/csv' })
    expect(peers.agreements[0]!.claims.operation).toMatchObject({
      params: { body: { content_type: 'text/csv', s256: s256(bytes) } },
    })
  })

  it.each(['POST', 'PUT', 'PATCH'])('by %s without a body says so', async method => {
    await call(agentWith(), { http: { method, path: '/orders' }, arguments: {} })
    for (const { headers } of peers.tools.to('/mcp/alice/orders')) {
      expect(headers['content-length']).toBe('0')
    }
  })

  it('may be made as the resource itself publishes it', async () => {
    const http = [{ method: 'GET', path: '/accounts' }, GET]
    peers.twists.resourceMetadata = plain => ({
      ...plain,
      tool_surfaces: [{ tool: 'api_call', resource_scopes: ['read'], http }],
    })
    const { result } = await call(agentWith(), { http: 'published' })
    expect(told(result)).toMatchObject({ method: 'GET', path: '/mcp/alice/accounts/7' })
    expect(await failing({ http: 'published', arguments: { path: { other: '1' } } })).toMatchObject({
      code: 'request_invalid',
      detail: 'Name one of the ways in which api_call is called: GET /accounts, GET /accounts/{account}.',
    })
    expect(await failing({ http: 'published', tool: 'other' })).toMatchObject({
      code: 'request_invalid',
      detail: 'The resource does not say how other is called.',
    })
  })

  it.each<[string, Partial<CallOptions>]>([
    ['an unknown member', { arguments: { path: { account: '7' }, params: {} } }],
    ['a path of numbers', { arguments: { path: { account: 7 } } }],
    ['a query of numbers', { arguments: { path: { account: '7' }, query: { n: [1] } } }],
    ['a missing path parameter', { arguments: {} }],
    ['a path parameter with a slash', { arguments: { path: { account: 'a/b' } } }],
    ['a path parameter of dots', { arguments: { path: { account: '..' } } }],
    [
      'body and content',
      { http: { ...GET, content: { type: 'a/b', bytes: Buffer.from('x') } }, arguments: { body: 1 } },
    ],
  ])('with %s is not sent', async (_what, options) => {
    expect(await failing(options)).toMatchObject({ code: 'request_invalid', local: true })
    expect(peers.tools.received).toEqual([])
  })
})

describe('What an API answers', () => {
  const after = async (reply: { status?: number; headers?: Record<string, string>; body?: unknown }) => {
    const store = memoryStore()
    const agent = agentWith({ store })
    await call(agent)
    peers.tools.script('/mcp/alice/accounts/7', reply)
    const outcome = await call(agent).then(
      ({ result }) => ({ result }),
      (error: unknown) => ({ error }),
    )
    return { ...outcome, kept: (await store.grants(peers.resource)).length }
  }

  it.each<[string, Parameters<typeof after>[0], unknown]>([
    [
      'text',
      { headers: { 'content-type': 'text/plain' }, body: 'a' },
      { status: 200, content_type: 'text/plain', body: 'a' },
    ],
    ['nothing', { status: 204, body: '' }, { status: 204, body: null }],
    [
      'an error of its own',
      { status: 404, body: { message: 'no such account' } },
      { status: 404, body: { message: 'no such account' } },
    ],
    ['bytes', { headers: { 'content-type': 'image/png' }, body: Buffer.from([0xff]) }, { body: '_w' }],
  ])('is its own answer: %s', async (_what, reply, result) => {
    expect(await after(reply)).toMatchObject({ result, kept: 1 })
  })

  it('that is a refusal ends the call and the grant', async () => {
    const body = { error: 'access_revoked', error_description: 'It is over.' }
    expect(await after({ status: 403, body })).toMatchObject({
      error: { code: 'access_revoked', status: 403 },
      kept: 0,
    })
  })
})
