/**
 * contract, "What the service does" (one core): the gRPC door and the HTTP door give one answer to one call.
 */
import * as fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import { checkBytes, type Answer } from '../support/check-client.ts'
import type { HttpAnswer } from '../support/http-check-client.ts'
import { inputsOfLayer } from '../support/layer.ts'
import { startedOnce } from '../support/started.ts'
import { startBothDoors } from './both-doors.ts'
import { newKey, nowSeconds, PUBLIC_URL, toolCallBody } from './calls.ts'

const BODY_BYTES_MAX = 600
const agent = newKey()
const stranger = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
const API: ApiOperation[] = [
  { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'POST', path: '/orders', tool: 'place_trade' },
  { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
]

const doors = startedOnce(() =>
  startBothDoors({ api: API, bodyBytesMax: BODY_BYTES_MAX, deadlineMarginMs: 100 }),
)
// Tickets are random; here each challenge names the same.
beforeAll(() => doors.authority.script('/perm', { status: 201, body: { ticket: 'tag~tkt_same' } }))

/** One call as a caller sent it; a grant is named by kind, since each door must meet one of its own. */
interface Sent {
  method: string
  path: string
  query: string | undefined
  body: string
  grant: 'none' | 'standing' | 'once' | 'ended' | 'unknown' | 'no token' | 'two'
  signed: 'by agent' | 'by another' | 'elsewhere' | 'not'
  announced: boolean
  extra: [string, string][]
}

function grantOf({ grant, path }: Sent): string[] {
  const api = path.startsWith('/api/')
  const resource = `${PUBLIC_URL}${api ? '/api' : '/mcp'}/alice`
  const permission = (resource_id: string, scope: string) => [
    { resource_id, resource_scopes: [scope], exp: nowSeconds() + 600 },
  ]
  const standing = {
    owner: 'alice',
    resource,
    key: agent,
    permissions: permission('alice/portfolio', 'read'),
  }
  const params = api ? { path: {}, query: {}, body: TRADE } : TRADE
  switch (grant) {
    case 'none':
      return []
    case 'standing':
      return [doors.authority.issue(standing)]
    case 'once': {
      const operation = { tool: 'place_trade', params_s256: s256Json(params) }
      return [
        doors.authority.issue({ ...standing, permissions: permission('alice/trades', 'trade'), operation }),
      ]
    }
    case 'ended': {
      const token = doors.authority.issue(standing)
      doors.authority.end(token, 'connection_revoked')
      return [token]
    }
    case 'unknown':
      return ['nobody.issued.this']
    case 'no token':
      return ['not a token!']
    case 'two':
      return [doors.authority.issue(standing), 'other']
  }
}

function linesOf(sent: Sent): [string, string][] {
  const lines: [string, string][] = [...sent.extra]
  const body = Buffer.from(sent.body)
  const [token, ...others] = grantOf(sent)
  for (const each of [token, ...others]) if (each !== undefined) lines.push(['authorization', `PoP ${each}`])
  if (token === undefined || sent.signed === 'not') return lines
  const query = sent.query === undefined ? [] : ['@query']
  const signature = signRequest(
    {
      method: sent.method,
      scheme: 'https',
      authority: 'tools.example.com',
      query: sent.query,
      body,
      path: sent.signed === 'elsewhere' ? '/mcp/bea' : sent.path,
      headers: new Map([['authorization', [`PoP ${token}`]]]),
    },
    sent.signed === 'by another' ? stranger : agent,
    { components: ['@method', '@authority', '@path', ...query, 'authorization'], created: nowSeconds() },
  )
  return [...lines, ...Object.entries(signature)]
}

/** What both answers come to. Names of header fields to remove have no order. */
interface Common {
  status: number
  headers: Record<string, string[]>
  remove: string[]
  body: string
}

function ofGrpc({ ok_response, denied_response }: Answer): Common {
  const options = ok_response?.headers ?? denied_response?.headers ?? []
  const headers: Record<string, string[]> = {}
  for (const { header } of options) (headers[header!.key!] ??= []).push(header!.value ?? '')
  return {
    status: ok_response ? 200 : denied_response!.status!.code!,
    headers,
    remove: (ok_response?.headers_to_remove ?? []).toSorted(),
    body: denied_response?.body ?? '',
  }
}

function ofHttp({ status, headers: received, body }: HttpAnswer): Common {
  const { 'x-envoy-auth-headers-to-remove': remove, ...headers } = received
  // An allow by HTTP is itself an answer that must not be kept; nobody passes that on.
  if (status === 200) delete headers['cache-control']
  return { status, headers, body, remove: (remove?.[0]?.split(',') ?? []).toSorted() }
}

async function throughGrpc(sent: Sent): Promise<Common> {
  const body = Buffer.from(sent.body)
  const lines = linesOf(sent)
  if (sent.announced) lines.push(['content-length', String(body.length)])
  const shown = body.subarray(0, BODY_BYTES_MAX)
  const answer = await doors.grpc.check(
    checkBytes({
      method: sent.method,
      path: targetOf(sent),
      header_map: {
        headers: lines.map(([key, value]) => ({ key, raw_value: Buffer.from(value, 'latin1') })),
      },
      raw_body: shown,
    }),
  )
  return ofGrpc(answer)
}

async function throughHttp(sent: Sent): Promise<Common> {
  const body = Buffer.from(sent.body)
  const lines = linesOf(sent)
  if (sent.announced) lines.push(['x-length', String(body.length)])
  const shown = body.subarray(0, BODY_BYTES_MAX)
  const { method } = sent
  return ofHttp(await doors.http.check({ method, target: `/check${targetOf(sent)}`, lines, body: shown }))
}

const targetOf = ({ path, query }: Sent): string => (query === undefined ? path : `${path}?${query}`)

const mostly = <T>(usual: T, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(usual, ...others) },
  )

const order = { method: 'POST', path: '/api/alice/orders', query: undefined, body: JSON.stringify(TRADE) }
const base = fc.constantFrom(
  { method: 'POST', path: '/mcp/alice', query: undefined, body: toolCallBody('portfolio_read') },
  { method: 'POST', path: '/mcp/alice', query: undefined, body: toolCallBody('place_trade', TRADE) },
  { method: 'GET', path: '/api/alice/accounts/7', query: 'month=1', body: '' },
  order,
  { ...order, body: '' },
  { ...order, method: 'DELETE', path: '/api/alice/orders/7', body: '' },
)
const change = fc.oneof(
  { weight: 4, arbitrary: fc.constant({}) },
  {
    weight: 3,
    arbitrary: fc.constantFrom<Partial<Sent>>(
      { method: 'PUT' },
      { method: 'DELETE' },
      { path: '/mcp/bea' },
      { path: '/mcp/alice/x' },
      { path: '/mcp/../mcp/alice' },
      { path: '/api/alice/accounts/a%2fb' },
      { path: '/api//alice/accounts/1' },
      { path: '/api/alice/accounts/%37' },
      { path: '/api/alice/nothing' },
      { query: 'a=b+c;d' },
      { query: 'a=%ff' },
      { body: toolCallBody('no_such_tool') },
      { body: '[]' },
      { body: '{"a":1,"a":2}' },
      { body: '{"symbol":"VTI","qty":2.0}' },
      { body: 'x'.repeat(BODY_BYTES_MAX) },
      { body: 'x'.repeat(BODY_BYTES_MAX + 1) },
    ),
  },
)
const extra = fc.subarray<[string, string]>(
  [
    ['content-type', 'application/json'],
    ['X-UMA-Owner', 'mallory'],
    ['x_uma_tool', 'forged'],
    ['X-Dup', '1'],
    ['X-Dup', '2'],
    ['Accept', 'Ã©'],
    ['origin', 'https://evil.example'],
    ['content-encoding', 'gzip'],
    ['mcp-method', 'tools/list'],
    ['x-http-method-override', 'DELETE'],
    ['x-envoy-auth-partial-body', 'true'],
  ],
  { maxLength: 3 },
)
const call: fc.Arbitrary<Sent> = fc
  .tuple(
    base,
    change,
    fc.record({
      grant: mostly<Sent['grant']>('standing', 'none', 'once', 'once', 'ended', 'unknown', 'no token', 'two'),
      signed: mostly<Sent['signed']>('by agent', 'by another', 'elsewhere', 'not'),
      announced: fc.boolean(),
      extra: fc.oneof(fc.constant<[string, string][]>([['content-type', 'application/json']]), extra),
    }),
  )
  .map(([plain, changed, rest]) => ({ ...plain, ...changed, ...rest }))

test('the gRPC door and the HTTP door answer one call alike: status, header fields and body', async () => {
  const seen = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(call, async sent => {
      const [byGrpc, byHttp] = [await throughGrpc(sent), await throughHttp(sent)]
      expect(byHttp).toEqual(byGrpc)
      const { error } = JSON.parse(byGrpc.body || '{}') as { error?: string }
      const what = `${byGrpc.status} ${error ?? ''}`
      seen.set(what, (seen.get(what) ?? 0) + 1)
    }),
    { numRuns: inputsOfLayer(400) },
  )
  // The calls were not all refused for one reason.
  expect([...seen.keys()]).toEqual(
    expect.arrayContaining(['200 ', '401 insufficient_authorization', '400 invalid_request']),
  )
  expect(seen.size).toBeGreaterThan(6)
})
