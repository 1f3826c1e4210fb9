/**
 * The header fields and the body state of an MCP request. contract, "Authentication"; MCP 2026-07-28,
 * Streamable HTTP.
 */
import { describe, expect, test } from 'vitest'
import type { Call } from '../../src/enforcement/call.ts'
import { denialOf } from '../../src/enforcement/denial.ts'
import { readMcp } from '../../src/enforcement/request/mcp.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { message, NOTHING_OPEN, opening, post, read, toolCall, TRADE } from '../support/mcp-calls.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

describe('the body', () => {
  test('a truncated one is refused 413 with the setting to change', () => {
    const call: Call = { ...post(''), body: { state: 'truncated', setting: 'Raise max_request_bytes.' } }
    expect(refusalOf(() => readMcp(call, NOTHING_OPEN))).toMatchObject({
      code: 'request_body_too_large',
      status: 413,
      detail: 'Raise max_request_bytes.',
    })
  })

  test('an absent one is refused 400 naming with_request_body', () => {
    expect(refusalOf(() => readMcp({ ...post(''), body: { state: 'absent' } }, NOTHING_OPEN))).toMatchObject({
      code: 'request_body_missing',
      status: 400,
      detail: expect.stringContaining('with_request_body'),
    })
  })

  test.each([
    'text/plain',
    'application/json; charset=utf-16',
    'application/jsonx',
    'application/x-www-form-urlencoded',
    '',
    'application/json, text/plain',
  ])('of the type %j is refused 415', type => {
    expect(refusalOf(() => read(toolCall(TRADE), { 'content-type': type }))).toMatchObject({
      code: 'unsupported_media_type',
      status: 415,
    })
  })

  test.each([
    'application/json',
    'Application/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
  ])('of the type %j is read', type => {
    expect(read(toolCall(TRADE), { 'content-type': type }).kind).toBe('tool')
  })

  test('with two types is refused', () => {
    expect(
      refusalOf(() => read(toolCall(TRADE), { 'content-type': ['application/json', 'application/json'] }))
        .code,
    ).toBe('invalid_request')
  })
})

describe('the Origin of a browser', () => {
  test.each([
    'https://evil.example',
    'null',
    '',
    'https://tools.example.com/',
    'https://tools.example.com:443',
    'http://tools.example.com',
    'https://TOOLS.example.com',
    'https://tools.example.com.evil.example',
  ])('%j is refused 403 invalid_origin, whatever is asked', origin => {
    expect(refusalOf(() => read(message({ method: 'ping' }), { origin }))).toMatchObject({
      code: 'invalid_origin',
      status: 403,
    })
  })

  test('an allowed one, and none, are let on', () => {
    expect(read(message({ method: 'ping' }), { origin: 'https://tools.example.com' }).kind).toBe('pass')
    expect(read(message({ method: 'ping' })).kind).toBe('pass')
  })

  test('two are refused', () => {
    const origins = ['https://tools.example.com', 'https://evil.example']
    expect(refusalOf(() => read(message({ method: 'ping' }), { origin: origins })).code).toBe(
      'invalid_request',
    )
  })
})

describe('the mirrors Mcp-Method and Mcp-Name', () => {
  const sentinel = (text: string | Buffer): string => `=?base64?${Buffer.from(text).toString('base64')}?=`
  const mirrored = (name: string, method = 'tools/call') => ({ 'mcp-method': method, 'mcp-name': name })

  test.each<[string, string, Record<string, string>]>([
    ['both say what the body says', toolCall(TRADE), mirrored('place_trade')],
    ['the name in base64', toolCall(TRADE), mirrored(sentinel('place_trade'))],
    ['the method in base64', toolCall(TRADE), mirrored('place_trade', sentinel('tools/call'))],
    ['white space around', toolCall(TRADE), mirrored(' place_trade\t')],
    ['only one of them', toolCall(TRADE), { 'mcp-method': 'tools/call' }],
    ['Mcp-Param-* say what an argument says', toolCall(TRADE), { 'mcp-param-qty': '2' }],
    [
      'a resource by its uri',
      message({ method: 'resources/read', params: { uri: 'file:///a' } }),
      mirrored('file:///a', 'resources/read'),
    ],
    [
      'a notification',
      message({ id: undefined, method: 'notifications/cancelled' }),
      { 'mcp-method': 'notifications/cancelled' },
    ],
  ])('agree: %s', (_title, body, headers) => {
    expect(refusalOrValue(() => read(body, headers, opening('resources/read')))).toHaveProperty('value')
  })

  const DISAGREEING: [string, string, Record<string, string | string[]>][] = [
    ['another tool', toolCall(TRADE), mirrored('portfolio_read')],
    ['another tool in base64', toolCall(TRADE), mirrored(sentinel('portfolio_read'))],
    ['another method', toolCall(TRADE), mirrored('place_trade', 'tools/list')],
    ['the method of a call over a ping', message({ method: 'ping' }), { 'mcp-method': 'tools/call' }],
    ['a tool over a ping', message({ method: 'ping' }), { 'mcp-name': 'place_trade' }],
    ['a tool named as its uri', toolCall({ ...TRADE, uri: 'x' }), mirrored('x')],
    ['other case', toolCall(TRADE), mirrored('Place_Trade')],
    ['an empty name', toolCall(TRADE), mirrored('')],
    ['two lines, both right', toolCall(TRADE), { 'mcp-name': ['place_trade', 'place_trade'] }],
    ['two joined by a proxy', toolCall(TRADE), mirrored('place_trade,portfolio_read')],
    ['base64 without padding', toolCall(TRADE), mirrored('=?base64?cGxhY2VfdHJhZGU?=')],
    ['base64 with junk', toolCall(TRADE), mirrored('=?base64?cGxhY2Vf dHJhZGU=?=')],
    ['base64 of no UTF-8', toolCall({ name: '\u{FFFD}' }), mirrored(sentinel(Buffer.of(0xff)))],
    ['a method over a response', message({ result: {} }), { 'mcp-method': 'tools/call' }],
  ]
  test.each(DISAGREEING)('disagree, 400 header_body_mismatch: %s', (_title, body, headers) => {
    expect(refusalOf(() => read(body, headers))).toMatchObject({ code: 'header_body_mismatch', status: 400 })
  })

  test.each<[string, string, Record<string, string>]>([
    ['by its header', toolCall(TRADE), { 'mcp-protocol-version': '2026-07-28' }],
    ['by a later header', toolCall(TRADE), { 'mcp-protocol-version': '2027-01-01' }],
    [
      'by its _meta',
      toolCall({ ...TRADE, _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' } }),
      {},
    ],
  ])('a caller that speaks MCP 2026-07-28 %s is answered as that revision asks', (_title, body, headers) => {
    const denial = denialOf(refusalOf(() => read(body, { ...headers, 'mcp-name': 'x' })))
    expect(denial.status).toBe(400)
    expect(denial.body).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: { code: -32020, message: expect.any(String), data: { error: 'header_body_mismatch' } },
    })
  })

  test.each(['2025-11-25', 'latest', '9'])(
    'a caller that speaks %s is answered with the coded body',
    version => {
      const denial = denialOf(
        refusalOf(() => read(toolCall(TRADE), { 'mcp-protocol-version': version, 'mcp-name': 'x' })),
      )
      expect(denial.body).toMatchObject({ error: 'header_body_mismatch' })
    },
  )
})

interface McpVectors {
  value_encoding: { value: string; header: string }[]
  tools_call_request: { params: { name: string; arguments: JsonObject } }
  error_codes: { HeaderMismatch: number }
}

describeVectors<McpVectors>('mcp-headers.json', 'the header values of the specification', data => {
  test.each(data.value_encoding)('$header mirrors $value', ({ value, header }) => {
    expect(read(toolCall({ name: value }), { 'mcp-name': header })).toMatchObject({ tool: value })
    expect(refusalOf(() => read(toolCall({ name: `${value}x` }), { 'mcp-name': header })).code).toBe(
      'header_body_mismatch',
    )
  })

  test('its example call is read', () => {
    const { name, arguments: params } = data.tools_call_request.params
    expect(
      read(JSON.stringify(data.tools_call_request), { 'mcp-method': 'tools/call', 'mcp-name': name }),
    ).toMatchObject({ tool: name, params })
  })

  test('its error code is ours', () => {
    const refusal = refusalOf(() =>
      read(toolCall(TRADE), { 'mcp-protocol-version': '2026-07-28', 'mcp-name': 'x' }),
    )
    expect(denialOf(refusal).body).toMatchObject({ error: { code: data.error_codes.HeaderMismatch } })
  })
})
