/**
 * What an MCP request asks for. contract, "Authorized call"; MCP 2025-03-26 to 2026-07-28, Streamable HTTP.
 */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Call, CallBody } from '../../src/enforcement/call.ts'
import type { CallRequest } from '../../src/enforcement/request/call-request.ts'
import { readMcp } from '../../src/enforcement/request/mcp.ts'
import { methodRules } from '../../src/enforcement/request/mcp-methods.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import { REFUSALS } from '../../src/wire/refusal.ts'
import { message, NOTHING_OPEN, opening, post, read, toolCall, TRADE } from '../support/mcp-calls.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'

describe('a tools/call is read as its tool and its parameters', () => {
  test.each<[string, unknown, JsonObject, string]>([
    ['with arguments', TRADE, TRADE.arguments, 's256:T6xGGcoR3hDoRSt3TxuyHPcUh8qQTJBgCSnp0toH0B8'],
    [
      'without arguments its parameters are {}',
      { name: 'place_trade' },
      {},
      's256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o',
    ],
    [
      'with empty arguments',
      { name: 'place_trade', arguments: {} },
      {},
      's256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o',
    ],
    [
      'beyond ASCII',
      { name: 'place_trade', arguments: { note: 'é', qty: 2 } },
      { note: 'é', qty: 2 },
      's256:wWnnAElmxHz-uZkkoNqLgdNIsNXOrBhGE8ZlibT1FIo',
    ],
  ])('%s', (_title, params, parameters, hash) => {
    expect(read(toolCall(params))).toEqual({
      kind: 'tool',
      tool: 'place_trade',
      params: parameters,
      params_s256: hash,
    })
  })

  test('other members of its params change nothing', () => {
    const params = { ...TRADE, _meta: { progressToken: 1 }, task: { ttl: 60 } }
    expect(read(toolCall(params))).toEqual(read(toolCall(TRADE)))
  })

  test('sent as a notification it is a call all the same', () => {
    expect(read(toolCall(TRADE, { id: undefined })).kind).toBe('tool')
  })

  test('the order of members and the spelling of its JSON do not change the hash', () => {
    const spelt =
      '{"params":{"arguments":{"qty":2.0,"symbol":"\\u0056TI"},"name":"place_trade"},"method":"tools/call","id":"x","jsonrpc":"2.0"}'
    expect(read(spelt)).toEqual(read(toolCall(TRADE)))
  })

  test('an own member __proto__ is a parameter like any other', () => {
    const text =
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"__proto__":{"qty":1}}}}'
    const request = read(text) as Extract<CallRequest, { kind: 'tool' }>
    expect(Object.keys(request.params)).toEqual(['__proto__'])
    expect(request.params_s256).not.toBe(s256Json({}))
  })

  test.each(['9007199254740993', '1e400', '0.1000000000000000055511151231257827', '12345678901234567890'])(
    'the number %s is named, so that a single-use call can be refused for it',
    literal => {
      const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":${literal}}}}`
      const outcome = refusalOrValue(() => read(text))
      // A number beyond every double is no JSON for us at all.
      if ('refusal' in outcome) expect(outcome.refusal.code).toBe('invalid_request')
      else expect(outcome.value).toMatchObject({ kind: 'tool', inexactNumber: literal })
    },
  )

  test.each(['1', '1.50', '1e3', '-0', '9007199254740992'])('the number %s is none to name', literal => {
    const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":${literal}}}}`
    expect(read(text)).not.toHaveProperty('inexactNumber')
  })
})

describe('what cannot be read in one way only is refused 400 invalid_request', () => {
  const DEEP = `${'['.repeat(70)}${']'.repeat(70)}`
  test.each<[string, string | Buffer]>([
    ['a batch', `[${toolCall(TRADE)}]`],
    ['an empty batch', '[]'],
    ['a batch of pings', `[${message({ method: 'ping' })}]`],
    ['a string', '"tools/call"'],
    ['null', 'null'],
    ['no JSON', 'tools/call'],
    ['a cut body', toolCall(TRADE).slice(0, -1)],
    ['a second message after the first', `${message({ method: 'ping' })}${toolCall(TRADE)}`],
    ['a second message on a line of its own', `${message({ method: 'ping' })}\n${toolCall(TRADE)}`],
    ['a byte order mark', `\u{FEFF}${toolCall(TRADE)}`],
    [
      'bytes that are no UTF-8',
      Buffer.concat([
        Buffer.from('{"jsonrpc":"2.0","id":"'),
        Buffer.of(0xff),
        Buffer.from('","method":"ping"}'),
      ]),
    ],
    ['UTF-16', Buffer.from(toolCall(TRADE), 'utf16le')],
    [
      'half a surrogate pair',
      toolCall({ name: 't', arguments: {} }).replace('{}', String.raw`{"a":"\ud800"}`),
    ],
    [
      'nesting over 64',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":${DEEP}}}}`,
    ],
    ['method twice', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"t"}}'],
    [
      'method twice, once escaped',
      String.raw`{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call","params":{"name":"t"}}`,
    ],
    ['name twice', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}'],
    [
      'arguments twice',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{"b":1}}}',
    ],
    [
      'a parameter twice',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1,"b":2}}}',
    ],
    ['__proto__ twice', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"__proto__":1,"__proto__":2}}'],
    ['Method beside method', '{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}'],
    ['Method in place of method', '{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"a"}}'],
    ['PARAMS beside params', message({ method: 'ping', params: {}, PARAMS: TRADE })],
    ['paramſ, which folds to params', message({ method: 'ping', ['param\u{17F}']: TRADE })],
    ['Name beside name', toolCall({ name: 'a', Name: 'b' })],
    ['Name in place of name', toolCall({ Name: 'b' })],
    ['argumentS beside arguments', toolCall({ name: 'a', arguments: {}, argumentS: { b: 1 } })],
    ['argumentſ in place of arguments', toolCall({ name: 'a', ['argument\u{17F}']: { b: 1 } })],
    ['Arguments at the top', message({ method: 'ping', Arguments: {} })],
    ['Method in params', toolCall({ name: 'a', Method: 'x' })],
    ['no jsonrpc', message({ method: 'ping', jsonrpc: undefined })],
    ['jsonrpc 1.0', message({ method: 'ping', jsonrpc: '1.0' })],
    ['jsonrpc as a number', message({ method: 'ping', jsonrpc: 2 })],
    ['neither a method nor a result', message({})],
    ['a method and a result', message({ method: 'tools/call', params: TRADE, result: {} })],
    ['a method and an error', message({ method: 'ping', error: {} })],
    ['a method that is a number', message({ method: 1 })],
    ['a method that is null', message({ method: null })],
    ['a method that is an array', message({ method: ['tools/call'] })],
    ['an id that is null', message({ method: 'ping', id: null })],
    ['an id that is an object', message({ method: 'ping', id: {} })],
    ['an id that is true', message({ method: 'ping', id: true })],
    ['params that are an array', toolCall(['place_trade'])],
    ['params that are null', toolCall(null)],
    ['params that are a string', toolCall('place_trade')],
    ['a tools/call without params', message({ method: 'tools/call' })],
    ['a tools/call without a name', toolCall({ arguments: {} })],
    ['a tools/call with an empty name', toolCall({ name: '' })],
    ['a tools/call whose name is a number', toolCall({ name: 1 })],
    ['a tools/call whose name is an array', toolCall({ name: ['place_trade'] })],
    ['arguments that are null', toolCall({ name: 'a', arguments: null })],
    ['arguments that are an array', toolCall({ name: 'a', arguments: [] })],
    ['arguments that are a string', toolCall({ name: 'a', arguments: '{}' })],
    ['arguments that are false', toolCall({ name: 'a', arguments: false })],
  ])('%s', (_title, body) => {
    const refusal = refusalOf(() => read(body, {}, opening('GET', 'DELETE', 'resources/*')))
    expect({ code: refusal.code, status: refusal.status }).toEqual({ code: 'invalid_request', status: 400 })
    expect(refusal.detail).toMatch(/\.$/)
  })
})

describe('which methods need what', () => {
  test.each([
    'initialize',
    'ping',
    'tools/list',
    'server/discover',
    'notifications/initialized',
    'notifications/cancelled',
  ])('%s passes', method => {
    expect(read(message({ method }))).toEqual({ kind: 'pass', method })
  })

  test.each([
    ['a result', { result: {} }],
    ['an error', { error: { code: -1, message: 'x' } }],
    ['an error without an id to answer', { id: null, error: { code: -1, message: 'x' } }],
  ])('a JSON-RPC response (%s) passes', (_title, members) => {
    expect(read(message(members))).toEqual({ kind: 'pass', method: 'response' })
  })

  const OTHERS = [
    'prompts/get',
    'prompts/list',
    'resources/read',
    'resources/list',
    'completion/complete',
    'logging/setLevel',
    'subscriptions/listen',
    'tasks/result',
  ]
  const LOOKALIKES = [
    'Tools/Call',
    'tools/call ',
    'tools/Call',
    'tools//call',
    'tools/call/',
    'notifications',
    'notifications/',
    'PING',
    'initialize\0',
    '',
    'GET',
    '__proto__',
    'constructor',
  ]
  test.each([...OTHERS, ...LOOKALIKES])('%j is refused 403 unknown_method unless opened', method => {
    expect(refusalOf(() => read(message({ method })))).toMatchObject({ code: 'unknown_method', status: 403 })
  })

  test.each(OTHERS)('%s, opened by name, needs a live grant', method => {
    expect(read(message({ method }), {}, opening(method))).toEqual({ kind: 'open', method })
  })

  test('a family is opened by its star, and a name that only begins alike is not', () => {
    const settings = opening('resources/*')
    expect(read(message({ method: 'resources/read' }), {}, settings).kind).toBe('open')
    expect(
      read(message({ method: 'resources/templates/list' }), {}, opening('resources/templates/*')).kind,
    ).toBe('open')
    for (const method of [
      'resources',
      'resources/',
      'resourcesX',
      'resources/templates/list',
      'resource/read',
    ]) {
      expect(refusalOf(() => read(message({ method }), {}, settings)).code).toBe('unknown_method')
    }
  })

  test('opening the HTTP method GET opens no JSON-RPC method of that name', () => {
    expect(refusalOf(() => read(message({ method: 'GET' }), {}, opening('GET'))).code).toBe('unknown_method')
  })

  test('GET passes without a grant if the configuration calls the stream of a session free, and nothing else does', () => {
    const free = { ...NOTHING_OPEN, isStreamFree: true }
    const bodyless = (method: string): Call => ({ ...post(''), method, body: { state: 'absent' } })
    expect(readMcp(bodyless('GET'), free)).toMatchObject({ kind: 'pass', method: 'GET' })
    expect(
      refusalOf(() => readMcp({ ...bodyless('GET'), ...post(toolCall(TRADE)), method: 'GET' }, free)).code,
    ).toBe('invalid_request')
    expect(refusalOf(() => readMcp(bodyless('DELETE'), free))).toMatchObject({
      code: 'method_not_allowed',
      headers: { allow: 'POST, GET' },
    })
    const methods = methodRules({ GET: 'free' })
    expect(refusalOf(() => read(message({ method: 'GET' }), {}, { ...free, methods })).code).toBe(
      'unknown_method',
    )
    expect(read(toolCall(TRADE), {}, free).kind).toBe('tool')
  })

  test('opening tools/call or its family does not spare a call its permission', () => {
    expect(read(toolCall(TRADE), {}, opening('tools/*', 'tools/call')).kind).toBe('tool')
  })

  test.each(['GET', 'DELETE', 'HEAD', 'PUT', 'PATCH', 'OPTIONS', 'post', 'TRACE', 'CONNECT'])(
    'HTTP %s is refused 405 naming what is allowed',
    method => {
      const call = { ...post(toolCall(TRADE)), method, body: { state: 'absent' } as CallBody }
      expect(refusalOf(() => readMcp(call, opening('POST', 'PUT', 'HEAD', 'post')))).toMatchObject({
        code: 'method_not_allowed',
        status: 405,
        headers: { allow: 'POST' },
      })
    },
  )

  test('GET and DELETE, once switched on, need a live grant', () => {
    const bodyless = (method: string): Call => ({ ...post(''), method, body: { state: 'absent' } })
    expect(readMcp(bodyless('GET'), opening('GET'))).toEqual({ kind: 'open', method: 'GET' })
    expect(readMcp(bodyless('DELETE'), opening('GET', 'DELETE'))).toEqual({ kind: 'open', method: 'DELETE' })
    expect(refusalOf(() => readMcp(bodyless('DELETE'), opening('GET'))).headers).toEqual({
      allow: 'POST, GET',
    })
    expect(refusalOf(() => readMcp({ ...post(toolCall(TRADE)), method: 'GET' }, opening('GET'))).code).toBe(
      'invalid_request',
    )
  })
})

describe('whatever bytes arrive, they are read or refused with a code of the table', () => {
  const keys = fc.constantFrom(
    'jsonrpc',
    'id',
    'method',
    'params',
    'name',
    'arguments',
    'Method',
    'NAME',
    'result',
    '_meta',
    '__proto__',
  )
  const { message: nearly } = fc.letrec<{ message: unknown; value: unknown }>(tie => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom<unknown>(
        '2.0',
        'tools/call',
        'ping',
        'resources/read',
        'place_trade',
        1,
        null,
        true,
        {},
        [],
      ),
      fc.dictionary(keys, tie('value'), { maxKeys: 4 }),
      fc.array(tie('value'), { maxLength: 3 }),
    ),
    message: fc
      .dictionary(keys, tie('value'), { maxKeys: 5 })
      .map(members => ({ jsonrpc: '2.0', method: 'tools/call', ...members })),
  }))
  const calls = fc
    .tuple(fc.string(), fc.option(fc.dictionary(fc.string(), fc.jsonValue()), { nil: undefined }))
    .map(([name, args]) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name, arguments: args },
    }))
  const texts = fc.oneof(nearly, calls, fc.jsonValue()).map(value => Buffer.from(JSON.stringify(value)))
  const damaged = fc.tuple(texts, fc.nat(), fc.integer({ min: 0, max: 255 })).map(([bytes, at, byte]) => {
    const copy = Buffer.from(bytes)
    copy[at % copy.length] = byte
    return copy
  })
  const noise = fc.uint8Array({ maxLength: 100 }).map(array => Buffer.from(array))

  test('and what is read as a call names what any JSON parser finds', () => {
    let read = 0
    fc.assert(
      fc.property(fc.oneof(texts, damaged, noise), bytes => {
        const outcome = refusalOrValue(() => readMcp(post(bytes), opening('resources/*')))
        if ('refusal' in outcome) {
          const { code, status } = outcome.refusal
          expect(REFUSALS[code].status).toBe(status)
          expect(status).toBeLessThan(500)
          return
        }
        read++
        const parsed = JSON.parse(bytes.toString('utf8')) as {
          method?: string
          params: { name: string; arguments?: JsonObject }
        }
        const { value } = outcome
        expect(value.kind === 'tool').toBe(parsed.method === 'tools/call')
        if (value.kind !== 'tool') return
        expect(value.tool).toBe(parsed.params.name)
        expect(value.params).toEqual(parsed.params.arguments ?? {})
        expect(value.params_s256).toBe(s256Json(value.params))
      }),
      { numRuns: 10_000 },
    )
    expect(read).toBeGreaterThan(1_000)
  })

  test('and only a body that JSON and case folding read alike is let through', () => {
    const folded = (key: string): string => key.toUpperCase().toLowerCase()
    fc.assert(
      fc.property(texts, bytes => {
        if ('refusal' in refusalOrValue(() => readMcp(post(bytes), NOTHING_OPEN))) return
        const parsed = JSON.parse(bytes.toString('utf8')) as Record<string, object | undefined>
        for (const object of [parsed, parsed['params'] ?? {}]) {
          const deciding = Object.keys(object).filter(key =>
            ['method', 'params', 'name', 'arguments'].includes(folded(key)),
          )
          expect(deciding.every(key => key === folded(key))).toBe(true)
        }
      }),
      { numRuns: 4_000 },
    )
  })
})
