/**
 * MCP 2026-07-28 and 2025-11-25, Streamable HTTP, as far as a tool call needs it (contract, "Authorized
 * call").
 */
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { createAgent } from '../../src/agent/index.ts'
import { encodeHeaderValue } from '../../src/agent/transports/mcp.ts'
import { startScriptedPeers } from '../support/scripted-resource.ts'
import type { Received, Reply } from '../support/scripted-http.ts'
import { startedForEach } from '../support/started.ts'
import { describeVectors } from '../support/vectors.ts'
import { newKey } from '../support/wire-samples.ts'

describeVectors<{ value_encoding: { value: string; header: string }[] }>(
  'mcp-headers.json',
  'a header value is encoded as the specification shows',
  ({ value_encoding }) => {
    it.each(value_encoding)('$value', ({ value, header }) => {
      expect(encodeHeaderValue(value)).toBe(header)
    })
  },
)

const rpcError = (id: string, code: number, status: number, data?: object): Reply => ({
  status,
  body: { jsonrpc: '2.0', id, error: { code, message: 'No.', ...(data ? { data } : {}) } },
})

describe('a server of the 2025-11-25 revision', () => {
  const peers = startedForEach(startScriptedPeers)

  interface Message {
    id?: string
    method: string
    params?: { protocolVersion?: string; name?: string }
  }
  const message = ({ body }: Received) => JSON.parse(body.toString()) as Message
  const methods = () => peers.tools.to('/mcp/alice').map(one => message(one).method)

  /** Keeps sessions: a call outside the one it opened last is 404, as the revision has it. */
  function keepSessions(): { end: () => void } {
    let opened = 0
    let live = ''
    peers.tools.script('/mcp/alice', received => {
      const { id, method } = message(received)
      if (method === 'initialize') {
        live = `session-${++opened}`
        const result = {
          protocolVersion: '2025-06-18',
          capabilities: {},
          serverInfo: { name: 't', version: '1' },
        }
        return { headers: { 'mcp-session-id': live }, body: { jsonrpc: '2.0', id, result } } satisfies Reply
      }
      // The enforcement point before it challenges whatever comes without a grant.
      if (received.headers['mcp-session-id'] === undefined && received.headers.authorization === undefined)
        return undefined
      if (received.headers['mcp-session-id'] !== live) return { status: 404 }
      return method === 'notifications/initialized' ? { status: 202 } : undefined
    })
    return { end: () => (live = 'none') }
  }
  const agent = () => createAgent({ key: newKey(), allowLoopback: true, mcpVersion: '2025-11-25' })
  const call = { tool: 'portfolio_read' }

  it('is greeted before the first call, so that no grant is spent on a call without a session', async () => {
    keepSessions()
    await agent().call({ resource: peers.resource, ...call })
    expect(methods()).toEqual([
      'initialize',
      'notifications/initialized',
      'tools/call',
      'tools/list',
      'tools/call',
    ])
    const [greeting, initialized, ...calls] = peers.tools.to('/mcp/alice')
    expect(message(greeting!).params).toMatchObject({ protocolVersion: '2025-11-25' })
    for (const { headers } of [initialized!, ...calls]) {
      expect(headers).toMatchObject({ 'mcp-session-id': 'session-1', 'mcp-protocol-version': '2025-06-18' })
      expect(headers).not.toHaveProperty('mcp-method')
    }
    expect(calls.map(one => JSON.stringify(message(one)).includes('_meta'))).toEqual([false, false, false])
  })

  it.each([
    ['does not know the question', (id: string) => rpcError(id, -32_601, 200)],
    ['refuses the revision', (id: string) => rpcError(id, -32_000, 400)],
    ['names those that it speaks', (id: string) => rpcError(id, -32_004, 400, { supported: ['2025-11-25'] })],
    ['asks who calls', () => ({ status: 401 })],
    ['asks for a bearer', () => ({ status: 401, headers: { 'www-authenticate': 'Bearer realm="mcp"' } })],
    ['forbids it', (id: string) => rpcError(id, -32_000, 403)],
    ['fails at it', () => ({ status: 500, body: 'Traceback' })],
    ['fails at it in JSON-RPC', (id: string) => rpcError(id, -32_603, 500)],
    [
      'is answered by a proxy',
      () => ({ status: 502, body: '<html>', headers: { 'content-type': 'text/html' } }),
    ],
    [
      'errs to nobody',
      () => ({ body: { jsonrpc: '2.0', id: null, error: { code: -32_600, message: 'No session.' } } }),
    ],
    ['answers nobody', () => ({ body: { jsonrpc: '2.0', id: null, result: {} } })],
    ['shows a page', () => ({ body: '<p>MCP</p>', headers: { 'content-type': 'text/html' } })],
    ['takes it and says nothing', () => ({ status: 202 })],
    ['closes the connection on it', () => ({ write: (response: ServerResponse) => void response.destroy() })],
    [
      'breaks off its answer',
      () => ({
        write: (response: ServerResponse) => {
          response.writeHead(200, { 'content-type': 'application/json' })
          response.write('{"jsonrpc"', () => response.destroy())
        },
      }),
    ],
    ['answers something else', (id: string) => ({ body: { jsonrpc: '2.0', id, result: { tools: [] } } })],
  ])('is found out where it %s, before anything is negotiated', async (_what, discovery) => {
    keepSessions()
    peers.twists.discovery = discovery
    await createAgent({ key: newKey(), allowLoopback: true }).call({ resource: peers.resource, ...call })
    const asked = ['initialize', 'notifications/initialized', 'tools/list']
    expect(methods()).toEqual(['tools/call', ...asked, 'tools/call'])
    const [bare, greeting, , , granted] = peers.tools.to('/mcp/alice')
    expect(bare!.headers).toMatchObject({ 'mcp-protocol-version': '2026-07-28' })
    expect(granted!.headers).toMatchObject({ 'mcp-session-id': 'session-1' })
    expect(greeting!.at).toBeLessThan(peers.authority.to('/token')[0]!.at)
  })

  it.each<[string, Reply]>([
    ['a challenge', { status: 401, headers: { 'www-authenticate': 'UMA realm="r", ticket="t"' } }],
    ['a refusal', { status: 403, body: { error: 'invalid_origin' } }],
  ])('is not greeted if the enforcement point before it answers the question by %s', async (_what, reply) => {
    peers.twists.discovery = () => reply
    await createAgent({ key: newKey(), allowLoopback: true }).call({ resource: peers.resource, ...call })
    expect(methods()).toEqual(['tools/call', 'tools/call'])
  })

  it.each<[string, Reply]>([
    ['its enforcement point', { status: 503, body: { error: 'temporarily_unavailable' } }],
    ['its gateway', { status: 503, headers: { server: 'envoy' } }],
  ])('is asked again after an outage, which settles nothing: of %s', async (_whose, outage) => {
    keepSessions()
    let outages = 2
    peers.twists.discovery = id => (outages-- > 0 ? outage : rpcError(id, -32_000, 400))
    await createAgent({ key: newKey(), allowLoopback: true }).call({ resource: peers.resource, ...call })
    const { headers } = peers.tools.to('/mcp/alice').at(-1)!
    expect(headers).toMatchObject({ 'mcp-session-id': 'session-1', 'mcp-protocol-version': '2025-06-18' })
    expect(peers.agreements).toHaveLength(1)
  })

  it('that knows neither question is called like a server of 2026-07-28', async () => {
    peers.twists.discovery = id => rpcError(id, -32_601, 200)
    peers.tools.script('/mcp/alice', received =>
      message(received).method === 'initialize' ? rpcError(message(received).id!, -32_601, 200) : undefined,
    )
    await createAgent({ key: newKey(), allowLoopback: true }).call({ resource: peers.resource, ...call })
    expect(methods()).toEqual(['tools/call', 'initialize', 'tools/call'])
    expect(peers.tools.to('/mcp/alice').at(-1)!.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
    })
  })

  it('that refuses the request itself has spent the approval of one call, and the agent says so', async () => {
    peers.twists.perOperation = true
    peers.tools.script('/mcp/alice', received =>
      received.headers.authorization === undefined
        ? undefined
        : rpcError(message(received).id!, -32_600, 400),
    )
    const called = createAgent({ key: newKey(), allowLoopback: true }).call({
      resource: peers.resource,
      ...call,
    })
    await expect(called).rejects.toMatchObject({
      code: 'rpc_error',
      detail: expect.stringMatching(/the grant for this one call is spent all the same/),
    })
  })

  it('is greeted again once it has ended the session', async () => {
    const sessions = keepSessions()
    const one = agent()
    await one.call({ resource: peers.resource, ...call })
    sessions.end()
    await expect(one.call({ resource: peers.resource, ...call })).rejects.toMatchObject({
      status: 404,
      detail: expect.stringContaining('the gateway rewrite the path') as string,
    })
    await one.call({ resource: peers.resource, ...call })
    expect(methods().filter(method => method === 'initialize')).toHaveLength(2)
    expect(peers.agreements).toHaveLength(1)
  })

  it('may refuse the greeting, which ends the call', async () => {
    peers.tools.script('/mcp/alice', {
      status: 403,
      body: { error: 'invalid_origin', error_description: 'No.' },
    })
    await expect(agent().call({ resource: peers.resource, ...call })).rejects.toMatchObject({
      code: 'invalid_origin',
    })
  })
})
