/**
 * contract, "Authorized call", for a plain HTTP API: a table from method and path to tool, with exact
 * parameters.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { apiReader } from '../../src/enforcement/request/api.ts'
import type { ApiOperation } from '../../src/enforcement/request/api-table.ts'
import type { Call, CallBody } from '../../src/enforcement/call.ts'
import { readHeaderLines } from '../../src/enforcement/request/header-lines.ts'
import { readMcp } from '../../src/enforcement/request/mcp.ts'
import { splitTarget } from '../../src/enforcement/request/request-target.ts'
import { s256, s256Json } from '../../src/wire/encoding.ts'
import { encodeQuery, expandPath } from '../../src/wire/resources/http-operation.ts'
import { refusalOf } from '../support/refusals.ts'
import { callOf, PUBLIC_URL } from './calls.ts'

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

  test('has no body parameter if it has no body, and one of null if it is JSON null', () => {
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
    'a=1;_method=DELETE',
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
