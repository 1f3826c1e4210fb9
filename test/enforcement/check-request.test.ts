/**
 * How a CheckRequest is read, asked by a real gRPC client that speaks the official messages. contract,
 * "Resource server enforcement point".
 */
import { describe, expect, test } from 'vitest'
import type { Call } from '../../src/enforcement/call.ts'
import { checkBytes, denialIn, type HttpFacts } from '../support/check-client.ts'
import { BODY_BYTES_MAX, standCheckDoor } from '../support/check-door.ts'

const door = standCheckDoor()

/** The call that a request was read as. */
async function read(http: HttpFacts, attributes: Record<string, unknown> = {}): Promise<Call> {
  await door.client.check(checkBytes(http, attributes))
  expect(door.calls).toHaveLength(1)
  expect(door.unjudged).toEqual([])
  return door.calls[0]!
}

async function denialFor(http: HttpFacts): Promise<Record<string, unknown>> {
  const reply = await door.client.check(checkBytes(http))
  expect(door.calls).toEqual([])
  const denial = denialIn(reply)
  expect(door.unjudged).toEqual([denial['error']])
  return denial
}

describe('a call is read from configured facts and the request alone', () => {
  test('it has a method, a path, a query, header lines, a body, the proxy route facts and a peer', async () => {
    const call = await read(
      {
        method: 'PUT',
        path: '/mcp/alice?a=b%20c',
        headers: { 'X-Request-Id': 'r1', traceparent: '00-1-2-01', ':path': '/other', ':authority': 'evil' },
        raw_body: Buffer.from('{"a":1}'),
      },
      {
        source: { address: { socket_address: { address: '10.1.2.3' } } },
        context_extensions: { owner: 'alice' },
      },
    )
    expect(call).toMatchObject({
      method: 'PUT',
      path: '/mcp/alice',
      query: 'a=b%20c',
      context: { owner: 'alice' },
      peer: '10.1.2.3',
      requestId: 'r1',
      traceparent: '00-1-2-01',
      body: { state: 'complete', bytes: Buffer.from('{"a":1}'), lossyText: false },
    })
    expect([...call.headers.keys()]).toEqual(['x-request-id', 'traceparent'])
  })

  test('the host and the scheme of the request appear nowhere in it', async () => {
    const call = await read({ host: 'evil.example', scheme: 'gopher', id: '17' })
    expect(JSON.stringify({ ...call, headers: [...call.headers] })).not.toMatch(/evil|gopher/)
  })

  test.each([
    [{ socket_address: { address: '2001:db8::1' } }, '2001:db8::1'],
    [{ pipe: { path: '/run/a.sock' } }, 'unix:/run/a.sock'],
    [{}, 'unknown'],
  ])('the peer of %j is %s', async (address, peer) => {
    expect(await read({}, { source: { address } })).toMatchObject({ peer })
  })

  test('a target without a query has none, one with an empty query has that', async () => {
    expect(await read({ path: '/mcp/alice' })).not.toHaveProperty('query')
    door.calls = []
    expect(await read({ path: '/mcp/alice?' })).toHaveProperty('query', '')
  })
})

describe('header fields', () => {
  const line = (key: string, text: string) => ({ key, raw_value: Buffer.from(text) })

  test('lines of header_map stay apart and in order, under lower-case names', async () => {
    const call = await read({ header_map: { headers: [line('X-A', '1'), line('b', '2'), line('x-a', '3')] } })
    expect([...call.headers]).toEqual([
      ['x-a', ['1', '3']],
      ['b', ['2']],
    ])
  })

  test('a value in header_map may stand in value or raw_value', async () => {
    const call = await read({
      header_map: {
        headers: [
          { key: 'a', value: 'x' },
          { key: 'b', value: 'y', raw_value: Buffer.from('y') },
        ],
      },
    })
    expect(Object.fromEntries(call.headers)).toEqual({ a: ['x'], b: ['y'] })
  })

  test('bytes that are no UTF-8 are kept one by one', async () => {
    const call = await read({ header_map: { headers: [{ key: 'a', raw_value: Buffer.of(0x61, 0xff) }] } })
    expect(call.headers.get('a')).toEqual(['a\u{FF}'])
  })

  test('headers and header_map that say the same are read from header_map', async () => {
    const call = await read({
      headers: { ':method': 'POST', a: '1,2', b: 'x' },
      header_map: { headers: [line('a', '1'), line('a', '2'), line('b', 'x')] },
    })
    expect(call.headers.get('a')).toEqual(['1', '2'])
  })

  test.each<[string, HttpFacts]>([
    ['a value that differs', { headers: { a: '1' }, header_map: { headers: [line('a', '2')] } }],
    ['a name only in headers', { headers: { a: '1', b: '2' }, header_map: { headers: [line('a', '1')] } }],
    [
      'a name only in header_map',
      { headers: { a: '1' }, header_map: { headers: [line('a', '1'), line('b', '2')] } },
    ],
    [
      'value and raw_value that differ',
      { header_map: { headers: [{ key: 'a', value: '1', raw_value: Buffer.from('2') }] } },
    ],
    ['a line break in a value', { headers: { a: '1\nb: 2' } }],
    ['a carriage return in a value', { header_map: { headers: [line('a', '1\rb')] } }],
    ['NUL in a value', { headers: { a: '1\0' } }],
    ['a space in a name', { headers: { 'a b': '1' } }],
    ['an empty name', { header_map: { headers: [line('', '1')] } }],
    [
      'two content-lengths',
      { header_map: { headers: [line('content-length', '1'), line('content-length', '1')] } },
    ],
    ['a joined content-length', { headers: { 'content-length': '1,1' } }],
    ['a negative content-length', { headers: { 'content-length': '-1' } }],
  ])('refused as invalid_request: %s', async (_title, http) => {
    expect(await denialFor(http)).toMatchObject({ status: 400, error: 'invalid_request' })
  })
})

describe('one credential in one Authorization header', () => {
  const twoLines = (...values: string[]): HttpFacts => ({
    header_map: { headers: values.map(value => ({ key: 'Authorization', value })) },
  })

  test.each<[string, HttpFacts]>([
    ['two lines', twoLines('PoP a', 'PoP b')],
    ['the same line twice', twoLines('PoP a', 'PoP a')],
    ['an empty line beside one', twoLines('', 'PoP a')],
    ['an empty line beside one of another scheme', twoLines('', 'Bearer a')],
    ['two joined by a proxy', { headers: { authorization: 'PoP a,PoP b' } }],
    ['another scheme first', { headers: { authorization: 'Bearer a, pop b' } }],
    ['another scheme last', { headers: { authorization: 'PoP a, Bearer b' } }],
    ['an empty part before', { headers: { authorization: ',PoP a' } }],
    ['an empty part after', { headers: { authorization: 'POP a,' } }],
    ['two of other schemes', { headers: { authorization: 'Basic a,Bearer b' } }],
  ])('refused: %s', async (_title, http) => {
    expect(await denialFor(http)).toMatchObject({ status: 400, error: 'invalid_request' })
  })

  test.each(['PoP abc', 'pop abc', 'Bearer abc', 'Digest username="a", realm="b"', '', 'nonsense'])(
    'read: %s',
    async authorization => {
      expect((await read({ headers: { authorization } })).headers.get('authorization')).toEqual([
        authorization,
      ])
    },
  )
})

describe('a target that a normalizing reader would change is refused', () => {
  test.each([
    '',
    'mcp/alice',
    '*',
    'https://evil.example/mcp/alice',
    '//evil.example/mcp',
    '/mcp//alice',
    '/mcp/./alice',
    '/mcp/../mcp/alice',
    '/mcp/alice/..',
    '/mcp/alice/.',
    '/mcp/%2e%2e/alice',
    '/mcp/.%2E/alice',
    '/mcp%2falice',
    '/mcp%2Falice',
    '/mcp%5calice',
    '/mcp\\alice',
    '/mcp/alice;x=1',
    '/mcp/alice#f',
    '/mcp/alice?a#f',
    '/mcp/a lice',
    '/mcp/al\tice',
    '/mcp/alicé',
    '/mcp/%zz',
    '/mcp/%',
    '/mcp/a%00',
    '/mcp/alice?a b',
    '/mcp/alice?é',
    '/mcp/alice?%',
    '/mcp/alice\n',
  ])('%j', async path => {
    expect(await denialFor({ path })).toMatchObject({ status: 400, error: 'invalid_request' })
  })

  test.each([
    '/',
    '/mcp/alice/',
    '/mcp/a..b',
    '/mcp/.well-known',
    '/a%20b',
    '/mcp/alice?x=/../%2f;y',
    '/mcp/alice?a=b?c',
    "/~!$&'()*+,=:@",
  ])('%j is judged', async path => {
    expect((await read({ path })).path).toBe(path.split('?')[0])
  })
})

describe('a body that is not whole is never taken for one', () => {
  const whole = Buffer.from('{"jsonrpc":"2.0"}')
  const length = (n: number) => ({ 'content-length': String(n) })
  const atCap = Buffer.alloc(BODY_BYTES_MAX, 0x20)

  test.each<[string, HttpFacts]>([
    [
      'the partial-body header says true',
      { headers: { 'x-envoy-auth-partial-body': 'true' }, raw_body: whole },
    ],
    ['it says so in capitals', { headers: { 'x-envoy-auth-partial-body': 'TRUE' }, raw_body: whole }],
    ['it says anything but false', { headers: { 'x-envoy-auth-partial-body': '1' }, raw_body: whole }],
    ['it is empty', { headers: { 'x-envoy-auth-partial-body': '' }, raw_body: whole }],
    ['it says false and true', { headers: { 'x-envoy-auth-partial-body': 'false,true' }, raw_body: whole }],
    ['fewer bytes than content-length came', { headers: length(18), raw_body: whole }],
    ['more bytes than content-length came', { headers: length(16), raw_body: whole }],
    ['it fills the cap and has no content-length', { raw_body: atCap }],
    [
      'it is longer than the cap',
      { headers: length(BODY_BYTES_MAX + 1), raw_body: Buffer.concat([atCap, atCap]) },
    ],
    ['agentgateway gives the size -1', { raw_body: whole, size: -1 }],
    ['agentgateway gives the size -1 and no body', { size: -1 }],
  ])('%s', async (_title, http) => {
    const { body } = await read(http)
    expect(body).toMatchObject({ state: 'truncated', setting: expect.stringContaining('max_request_bytes') })
  })

  test.each<[string, HttpFacts]>([
    ['with its content-length', { headers: length(whole.length), raw_body: whole }],
    ['without a content-length', { raw_body: whole, size: whole.length }],
    ['marked as not partial', { headers: { 'x-envoy-auth-partial-body': 'false' }, raw_body: whole }],
    ['as text', { body: whole.toString() }],
    ['as text and bytes alike', { body: whole.toString(), raw_body: whole }],
  ])('a whole body %s is complete', async (_title, http) => {
    expect((await read(http)).body).toEqual({ state: 'complete', bytes: whole, lossyText: false })
  })

  test('a body that fills the cap and announced just that is complete', async () => {
    const { body } = await read({ headers: length(BODY_BYTES_MAX), raw_body: atCap })
    expect(body.state).toBe('complete')
  })

  test.each<[string, HttpFacts]>([
    ['no body at all', {}],
    ['an empty body', { body: '', raw_body: Buffer.alloc(0) }],
    ['a content-length without the body', { headers: length(500) }],
  ])('%s is absent', async (_title, http) => {
    expect((await read(http)).body).toEqual({ state: 'absent' })
  })

  test('body and raw_body that differ are refused', async () => {
    expect(await denialFor({ body: '{}', raw_body: Buffer.from('{ }') })).toMatchObject({ status: 400 })
  })

  test.each([
    ['{"a":"!"}', undefined, true],
    ['{"a":"\u{FFFD}"}', undefined, true],
    ['{"a":"é"}', undefined, false],
    [undefined, '{"a":"!"}', false],
    [undefined, '{"a":"\u{FFFD}"}', false],
    ['{"a":"!"}', '{"a":"!"}', false],
  ])('text %j with bytes %j may have lost bytes: %s', async (text, raw, lossyText) => {
    const { body } = await read({
      ...(text === undefined ? {} : { body: text }),
      ...(raw === undefined ? {} : { raw_body: Buffer.from(raw) }),
    })
    expect(body).toMatchObject({ state: 'complete', lossyText })
  })

  test('text whose replaced bytes made it longer than announced names pack_as_bytes', async () => {
    const { body } = await read({ headers: length(7), body: '{"\u{FFFD}":1}' })
    expect(body).toMatchObject({ state: 'truncated', setting: expect.stringContaining('pack_as_bytes') })
  })

  test.each(['gzip', 'br', 'identity, gzip', 'GZIP', 'zstd', 'aws-chunked'])(
    'content-encoding %s is 415',
    async encoding => {
      expect(await denialFor({ headers: { 'content-encoding': encoding }, raw_body: whole })).toMatchObject({
        status: 415,
        error: 'unsupported_media_type',
      })
    },
  )

  test.each(['identity', 'Identity', ''])('content-encoding %j changes nothing', async encoding => {
    expect((await read({ headers: { 'content-encoding': encoding }, raw_body: whole })).body.state).toBe(
      'complete',
    )
  })
})
