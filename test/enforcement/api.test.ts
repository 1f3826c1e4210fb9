/** contract, "Authorized call", for a plain HTTP API: a table from method and path to tool, with exact parameters. */
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { apiReader } from '../../src/enforcement/api.ts'
import type { ApiOperation } from '../../src/enforcement/api-table.ts'
import type { Call, CallBody } from '../../src/enforcement/call.ts'
import { readHeaderLines } from '../../src/enforcement/header-lines.ts'
import { readMcp } from '../../src/enforcement/mcp.ts'
import { splitTarget } from '../../src/enforcement/request-target.ts'
import { routeTable, type Route } from '../../src/enforcement/routes.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import { encodeQuery, expandPath } from '../../src/wire/http-operation.ts'
import { refusalOf } from '../support/refusals.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../support/scripted-authority.ts'
import {
  callOf,
  newKey,
  nowSeconds,
  PUBLIC_URL,
  startCore,
  verdict,
  type CallParts,
  type Core,
} from './calls.ts'

const API: ApiOperation[] = [
  { method: 'GET', path: '', tool: 'index' },
  { method: 'GET', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'GET', path: '/accounts/mine', tool: 'undescribed' },
  { method: 'HEAD', path: '/accounts/{account}', tool: 'portfolio_read' },
  { method: 'POST', path: '/orders', tool: 'place_trade' },
  { method: 'DELETE', path: '/orders/{order}', tool: 'place_trade' },
  { method: 'GET', path: '/{any}/mine', tool: 'any' },
]
const read = apiReader({ base: '/api/alice', operations: API, allowedOrigins: new Set([PUBLIC_URL]) })

const ABSENT: CallBody = { state: 'absent' }
const whole = (text: string | Buffer): CallBody => ({
  state: 'complete',
  bytes: Buffer.from(text),
  lossyText: false,
})

/** A call as a door hands it over, target and header fields read as it reads them. */
function apiCall(line: string, body: CallBody = ABSENT, headers: Record<string, string> = {}): Call {
  const [method, target] = line.split(' ') as [string, string]
  return {
    method,
    ...splitTarget(`/api/alice${target}`),
    headers: readHeaderLines(Object.entries(headers)),
    body,
    context: {},
    peer: 'unknown',
    isCancelled: () => false,
  }
}
const json = { 'content-type': 'application/json' }
const found = (...call: Parameters<typeof apiCall>) => read(apiCall(...call))
const refused = (...call: Parameters<typeof apiCall>) => refusalOf(() => read(apiCall(...call)))

describe('A call of a plain API', () => {
  test('is the tool of its method and path, with path, query and body as its parameters', () => {
    const params = { path: { account: 'savings é' }, query: { month: ['2026-01', '2026-02'], q: ['a b'] } }
    expect(found('GET /accounts/savings%20%C3%A9?month=2026-01&q=a%20b&month=2026-02')).toEqual({
      kind: 'tool',
      tool: 'portfolio_read',
      params,
      params_s256: s256Json(params),
    })
    expect(found('POST /orders', whole('{"symbol":"VTI","qty":2}'), json)).toMatchObject({
      tool: 'place_trade',
      params: { path: {}, query: {}, body: { symbol: 'VTI', qty: 2 } },
    })
  })

  test('has no body parameter where it has no body, and one of null where it is JSON null', () => {
    expect(found('GET ?a=')).toMatchObject({ tool: 'index', params: { path: {}, query: { a: [''] } } })
    expect(found('DELETE /orders/7')).not.toHaveProperty('params.body')
    expect(found('POST /orders', whole('null'), json)).toHaveProperty('params.body', null)
  })

  test.each(['application/vnd.api+json', 'Application/JSON; charset="utf-8"'])('of type %s is JSON', type => {
    expect(found('POST /orders', whole('[1]'), { 'content-type': type })).toHaveProperty('params.body', [1])
  })

  test.each(['application/json; charset=utf-16', 'application/x-www-form-urlencoded', 'text/plain', ''])(
    'of type %j counts by the hash of its bytes',
    type => {
      const bytes = Buffer.from([0x7b, 0xff])
      const headers = type === '' ? {} : { 'content-type': type }
      expect(found('POST /orders', whole(bytes), headers)).toHaveProperty('params.body', {
        content_type: type,
        s256: s256(bytes),
      })
    },
  )

  test.each(['{"a":1,"a":2}', '{}{}', '\ufeff{}', '{', ''.padEnd(65, '[').padEnd(130, ']')])(
    'with the JSON body %j is 400',
    body => {
      expect(refused('POST /orders', whole(body), json).code).toBe('invalid_request')
    },
  )

  test('comes back as an agent that names tool and parameters formed it', () => {
    const text = fc.string({ unit: 'binary', minLength: 1 }).filter(one => !/^\.{1,2}$|[/\\\0]/.test(one))
    fc.assert(
      fc.property(text, fc.dictionary(text, fc.array(text, { minLength: 1 })), (account, query) => {
        fc.pre(!Object.hasOwn(query, '_method') && account.toLowerCase() !== 'mine')
        const search = encodeQuery(query)
        const target = expandPath('/accounts/{account}', { account }) + (search === '' ? '' : `?${search}`)
        expect(found(`GET ${target}`)).toMatchObject({
          tool: 'portfolio_read',
          params_s256: s256Json({ path: { account }, query: { ...query } }),
        })
      }),
    )
  })
})

describe('The table', () => {
  test.each([
    'GET /other',
    'GET /accounts',
    'GET /accounts/',
    'GET /accounts/1/2',
    'GET /',
    'GET /Accounts/1',
    'GET /%61ccounts/1',
    'POST /orders/',
  ])('%s is no tool: 403 unknown_tool', line => {
    expect(refused(line, whole('{}'), json)).toMatchObject({ code: 'unknown_tool', status: 403 })
  })

  test('a path with other methods is 405, naming them', () => {
    expect(refused('PUT /accounts/7', whole('{}'), json)).toMatchObject({
      code: 'method_not_allowed',
      headers: { allow: 'GET, HEAD' },
    })
    expect(refused('get /accounts/7').status).toBe(405)
  })

  test('a fixed text goes before a parameter, from the left', () => {
    expect(found('GET /accounts/mine')).toMatchObject({ tool: 'undescribed', params: { path: {} } })
    expect(found('GET /other/mine')).toMatchObject({ tool: 'any', params: { path: { any: 'other' } } })
  })

  test.each(['GET /accounts/Mine', 'GET /accounts/%6dine', 'GET /accounts/m%49ne'])(
    '%s, which a router that folds case or decodes first takes for another line, is 400',
    line => {
      expect(refused(line).code).toBe('invalid_request')
    },
  )

  test.each([
    'GET /accounts/..%2f1',
    'GET /accounts/../1',
    'GET //accounts/1',
    'GET /accounts/%2e%2e',
    'GET /accounts/1;x=2',
    'GET /..;/orders',
    'GET /accounts/a%5cb',
    'GET /accounts/%00',
    'GET /accounts/%ff',
    'GET /accounts/%zz',
    'GET ?a=%ff',
    'GET /accounts/1#x',
  ])('%s is 400', line => {
    expect(refusalOf(() => found(line)).code).toBe('invalid_request')
  })
})

describe('What could make the server execute another call', () => {
  test.each([
    'X-HTTP-Method-Override',
    'X-HTTP-Method',
    'X-Method-Override',
    'X-Original-URL',
    'X-Rewrite-URL',
    'X_HTTP_Method_Override',
    'X-HTTP_Method.Override',
  ])('the header %s is refused, in a call of MCP too', name => {
    expect(refused('GET /accounts/7', ABSENT, { [name]: 'DELETE' }).code).toBe('invalid_request')
    const mcpCall = callOf({ headers: { [name.toLowerCase()]: ['/mcp/bea'] } })
    const settings = { openMethods: new Set<string>(), allowedOrigins: new Set<string>() }
    expect(refusalOf(() => readMcp(mcpCall, settings)).code).toBe('invalid_request')
  })
  test.each([
    '_method=DELETE',
    '_METHOD=x',
    '%5fmethod=x',
    '.method=x',
    '%20[method=x',
    '_method[]=x',
    '_method%00x=1',
  ])('a method in the query %s is refused', query => {
    expect(refused(`GET /accounts/7?${query}`).code).toBe('invalid_request')
  })
  const form = 'application/x-www-form-urlencoded'
  const parts = 'multipart/form-data; boundary=x'
  const part = (line: string) => `--x\r\nContent-Disposition: form-data; ${line}\r\n\r\nDELETE\r\n--x--`
  test.each([
    [form, '_method=DELETE'],
    [form, 'a=1&%5Fme%74hod=DELETE&b=2'],
    [`${form}; charset=utf-8`, 'a=1;_method=DELETE'],
    ['', '_method=DELETE'],
    ['application/json', '{"_method":"DELETE"}'],
    ['application/vnd.api+json', '{"a":1,"_method":"DELETE"}'],
    [parts, part('name="_method"')],
    [parts, part('name=_method')],
    [parts, part('\r\n name = "\\_method"')],
    [parts, part("name*=utf-8''%5fmethod")],
  ])('a method in a body of type %j, %j, is refused', (type, body) => {
    const headers = type === '' ? {} : { 'content-type': type }
    expect(refused('POST /orders', whole(body), headers).code).toBe('invalid_request')
  })
  test.each([
    [form, 'method=DELETE&a=_method'],
    ['application/json', '{"a":{"_method":1}}'],
    ['text/plain', '_method=DELETE'],
    [parts, part('name="method"; filename="_method"')],
  ])('a body of type %j, %j, names none', (type, body) => {
    expect(found('POST /orders', whole(body), { 'content-type': type }).kind).toBe('tool')
  })
  test('a foreign Origin is 403 invalid_origin', () => {
    expect(refused('GET /accounts/7', ABSENT, { origin: 'https://evil.example' }).code).toBe('invalid_origin')
    expect(found('GET /accounts/7', ABSENT, { origin: PUBLIC_URL }).kind).toBe('tool')
  })
})

describe('A body that was not shown is not an empty one', () => {
  test.each<[string, Record<string, string>]>([
    ['POST /orders', {}],
    ['POST /orders', { 'content-length': '2' }],
    ['POST /orders', { 'transfer-encoding': 'chunked' }],
    ['GET /accounts/7', { 'content-length': '2' }],
    ['GET /accounts/7', { 'transfer-encoding': 'chunked' }],
    ['DELETE /orders/7', { 'content-length': '2' }],
  ])('%s with %j is 400 request_body_missing', (line, headers) => {
    expect(refused(line, ABSENT, headers)).toMatchObject({ code: 'request_body_missing', status: 400 })
  })
  test.each(['POST /orders', 'GET /accounts/7', 'DELETE /orders/7'])(
    '%s that announces none has none',
    line => {
      expect(found(line, ABSENT, { 'content-length': '0' }).kind).toBe('tool')
    },
  )
  test('a truncated one is 413 request_body_too_large', () => {
    const body: CallBody = { state: 'truncated', setting: 'Raise it.' }
    expect(refused('POST /orders', body)).toMatchObject({ code: 'request_body_too_large', status: 413 })
  })
})

describe('The route of a call', () => {
  const route = (path: string, owner: string, api?: ApiOperation[]) =>
    ({ path, owner, api }) as unknown as Route
  const table = routeTable([
    route('/api/alice', 'alice', API),
    route('/api/alice/v2', 'bea', API),
    route('/mcp/carl', 'carl'),
    route('/api/alice/mcp', 'dave'),
  ])
  const ownerAt = (path: string, context: Record<string, string> = {}) => table.find({ path, context }).owner

  test('is the API whose base it lies below, the longest of several, by whole segments', () => {
    expect(ownerAt('/api/alice')).toBe('alice')
    expect(ownerAt('/api/alice/')).toBe('alice')
    expect(ownerAt('/api/alice/x/y/z')).toBe('alice')
    expect(ownerAt('/api/alice/v2/x')).toBe('bea')
    expect(ownerAt('/api/alice/v20')).toBe('alice')
    expect(ownerAt('/api/alice/mcp')).toBe('dave')
    expect(ownerAt('/api/alice/mcp/x')).toBe('alice')
  })
  test.each(['/api/alicex', '/api', '/api/bob/x', '/mcp/carl/x', '/API/alice/x', '/'])(
    'is none for %s',
    path => {
      expect(refusalOf(() => ownerAt(path))).toMatchObject({ code: 'not_found', status: 404 })
    },
  )
  test.each([
    '/api/alice/%762/x',
    '/api/alice/V2',
    '/api/alice/V2/x',
    '/api/alice/%6dcp',
    '/api/alice/Mcp/',
    '/api/alice/mcp/',
  ])(
    'is none for %s, which is below another to a server that decodes, folds case or drops a last slash',
    path => {
      expect(refusalOf(() => ownerAt(path))).toMatchObject({ code: 'invalid_request', status: 400 })
    },
  )
  test('is never another owner than the proxy was configured with', () => {
    expect(ownerAt('/api/alice/x', { owner: 'alice' })).toBe('alice')
    expect(refusalOf(() => ownerAt('/api/alice/x', { owner: 'bea' })).code).toBe('not_found')
  })
  test('is looked for in bounded time, however many segments a path has', () => {
    const path = `/api/bob${'/x'.repeat(30_000)}`
    const before = performance.now()
    for (let n = 0; n < 100; n++) refusalOf(() => ownerAt(path))
    expect(performance.now() - before).toBeLessThan(1_000)
  })
})

describe('The decision about a call of a plain API', () => {
  let authority: ScriptedAuthority
  let core: Core
  const agent = newKey()
  beforeAll(async () => {
    authority = await startScriptedAuthority()
  })
  afterAll(() => authority.close())
  beforeEach(() => {
    authority.reset()
    core = startCore(authority.issuer, { api: API })
  })
  afterEach(() => core.close())

  const resource = `${PUBLIC_URL}/api/alice`
  const permission = (resource_id: string, scope: string) => [
    { resource_id, resource_scopes: [scope], exp: nowSeconds() + 600 },
  ]
  const standing = () =>
    authority.issue({
      owner: 'alice',
      resource,
      key: agent,
      permissions: permission('alice/portfolio', 'read'),
    })
  const once = (params: object) =>
    authority.issue({
      owner: 'alice',
      resource,
      key: agent,
      permissions: permission('alice/trades', 'trade'),
      operation: { tool: 'place_trade', params_s256: s256Json(params as never) },
    })
  const decide = (parts: CallParts) =>
    core.decide(callOf({ method: 'GET', path: '/api/alice/accounts/7', body: ABSENT, ...parts }))

  test('without a grant: a challenge for the resource at the base', async () => {
    const outcome = await decide({})
    expect(verdict(outcome)).toBe('401 insufficient_authorization')
    expect(outcome).toHaveProperty(
      'body.resource_metadata',
      `${PUBLIC_URL}/.well-known/oauth-protected-resource/api/alice`,
    )
    expect(outcome).toHaveProperty('body.authorization_remediation.authorization_details.0.locations', [
      resource,
    ])
  })

  test('with one: let through, and only for the path that was signed', async () => {
    expect(await decide({ token: standing(), signer: agent })).toMatchObject({
      kind: 'allow',
      headers: { 'x-uma-tool': 'portfolio_read' },
    })
    const moved = { token: standing(), signer: agent, signedPath: '/api/alice/accounts/8' }
    expect(verdict(await decide(moved))).toBe('401 invalid_token')
  })

  const order = { method: 'POST', path: '/api/alice/orders', query: 'dry=0' }
  const body = '{"qty":2,"symbol":"VTI"}'
  const params = { path: {}, query: { dry: ['0'] }, body: { symbol: 'VTI', qty: 2 } }

  test('a single-use grant is for exactly these parameters, and spent by them alone', async () => {
    const token = once(params)
    const call = { ...order, body, token, signer: agent }
    for (const other of [
      { ...call, body: '{"qty":3,"symbol":"VTI"}' },
      { ...call, query: 'dry=1' },
      { ...call, query: 'dry=0&dry=0' },
      { ...call, method: 'DELETE', path: '/api/alice/orders/7', body: ABSENT },
      { ...call, headers: { 'content-type': ['text/plain'] } },
    ]) {
      expect(verdict(await decide(other))).toBe('403 operation_mismatch')
    }
    expect(authority.count('/consume')).toBe(0)
    expect(verdict(await decide(call))).toBe('allow')
    expect(verdict(await decide(call))).toBe('401 insufficient_authorization')
  })

  test.each<[string, object, CallParts]>([
    ['a plus in the query', { ...params, query: { q: ['a b'] } }, { query: 'q=a+b' }],
    ['a semicolon in the query', { ...params, query: { q: ['a;b'] } }, { query: 'q=a;b' }],
    ['a name without a value', { ...params, query: { q: [''] } }, { query: 'q' }],
    [
      'a body like the digest of another',
      { ...params, body: { content_type: 'a/b', s256: 's256:x' } },
      { body: '{"content_type":"a/b","s256":"s256:x"}' },
    ],
    ['a number no double carries', { ...params, body: 9007199254740992 }, { body: '9007199254740993' }],
  ])(
    'of which two readers could make two, with %s, it is 400 and the grant unspent',
    async (_what, approved, call) => {
      const outcome = await decide({ ...order, body, token: once(approved), signer: agent, ...call })
      expect(verdict(outcome)).toBe('400 invalid_request')
      expect(authority.count('/consume')).toBe(0)
    },
  )
})
