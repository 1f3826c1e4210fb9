/**
 * contract, "Resource server enforcement point", `/check{path}`: what the HTTP door reads and answers, over
 * real sockets.
 */
import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { Outcome } from '../../src/enforcement/call.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { ALLOW } from '../support/check-door.ts'
import type { HttpAnswer, HttpCheck } from '../support/http-check-client.ts'
import { BODY_BYTES_MAX, stand } from '../support/http-check-stand.ts'
import { until } from '../support/until.ts'

/** What a server answers to a text, byte for byte, until it ends the connection. */
const spoken = (address: string, text: string): Promise<string> =>
  new Promise(resolve => {
    const socket = connect(Number(address.split(':')[1]), '127.0.0.1', () => socket.write(text))
    let heard = ''
    socket.on('data', data => (heard += data.toString())).on('close', () => resolve(heard))
  })
const errorIn = ({ status, body }: HttpAnswer): unknown => [
  status,
  (JSON.parse(body || '{}') as { error?: string }).error,
]
const deny = (refusal: Refusal) => async (): Promise<Outcome> => {
  throw refusal
}

describe('A check as Envoy asks it', () => {
  test('is about the method as it is and the target behind /check, every header line as it came', async () => {
    const { client, calls } = await stand()
    const lines: HttpCheck['lines'] = [
      ['X-Dup', '1'],
      ['X-Dup', '2'],
      ['Accept', 'Ã©'],
    ]
    await client.check({ method: 'DELETE', target: '/check/mcp/alice?a=%20b&a', lines })
    expect(calls[0]).toMatchObject({ method: 'DELETE', path: '/mcp/alice', query: 'a=%20b&a', context: {} })
    expect([...calls[0]!.headers]).toEqual([
      ['x-dup', ['1', '2']],
      ['accept', ['é']],
    ])
    expect(calls[0]!.body).toEqual({ state: 'absent' })
  })

  test.each([
    '/',
    '/check',
    '/check?x=1',
    '/checks/mcp/alice',
    '/Check/mcp/alice',
    '/mcp/alice',
    '//check/mcp/alice',
  ])('at %s is 404 unjudged', async target => {
    const { client, calls, unjudged } = await stand()
    expect(errorIn(await client.check({ target }))).toEqual([404, 'not_found'])
    expect([calls, unjudged]).toEqual([[], ['not_found']])
  })

  test.each([
    '/check//mcp/alice',
    '/check/mcp/../alice',
    '/check/mcp/%2e%2e/x',
    '/check/..;/x',
    '/check/a%2fb',
    '/check/a#b',
  ])('with the target %s is 400 unjudged', async target => {
    const { client, calls } = await stand()
    expect(errorIn(await client.check({ target }))).toEqual([400, 'invalid_request'])
    expect(calls).toEqual([])
  })

  test('with an absolute target, or what is no HTTP, is never let through', async () => {
    const { address, calls } = await stand()
    const say = (text: string) => spoken(address, text)
    const host = 'Host: x\r\nConnection: close\r\n\r\n'
    expect(await say(`GET http://x/check/mcp/alice HTTP/1.1\r\n${host}`)).toMatch(/^HTTP\/1\.1 404 /)
    expect(await say(`get /check/mcp/alice HTTP/1.1\r\n${host}`)).toMatch(/^HTTP\/1\.1 400 /)
    expect(
      await say(
        'POST /check/a HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      ),
    ).toMatch(/^HTTP\/1\.1 400 /)
    expect(calls).toEqual([])
  })

  test.each([
    ['CONNECT', 'CONNECT /check/mcp/alice HTTP/1.1\r\nHost: x\r\n\r\n', 400],
    ['an expectation that nobody knows', 'GET /check/a HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\n', 200],
    ['no Host', 'GET /check/a HTTP/1.1\r\n', 200],
    ['an upgrade', 'GET /check/a HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n', 200],
  ])(
    'with %s has a coded answer, never a cut connection that might be let pass',
    async (_what, text, status) => {
      const { address } = await stand()
      const whole = text.endsWith('\r\n\r\n') ? text : `${text}Connection: close\r\n\r\n`
      const [head, body] = (await spoken(address, whole)).split('\r\n\r\n')
      expect(head).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
      if (status !== 200) expect(JSON.parse(body ?? '')).toMatchObject({ error: 'invalid_request' })
    },
  )

  test('does not believe header fields by which other gateways would say method and target', async () => {
    const { client, calls } = await stand()
    const lines: HttpCheck['lines'] = [
      ['X-Forwarded-Method', 'DELETE'],
      ['X-Forwarded-Uri', '/mcp/bea'],
      ['X-Original-Method', 'DELETE'],
    ]
    await client.check({ target: '/check/mcp/alice', lines })
    expect(calls[0]).toMatchObject({ method: 'GET', path: '/mcp/alice' })
  })

  test('has the body as bytes, whole or not at all', async () => {
    const { client, calls } = await stand()
    const post = (body: Buffer, lines: HttpCheck['lines'] = []) =>
      client.check({ method: 'POST', target: '/check/a', body, lines })
    await post(Buffer.from([0x61, 0xff, 0x21]))
    await post(Buffer.alloc(BODY_BYTES_MAX - 1, 'x'))
    // Envoy cuts at exactly the cap, and gives the length of what is left.
    await post(Buffer.alloc(BODY_BYTES_MAX, 'x'))
    await post(Buffer.alloc(BODY_BYTES_MAX + 1, 'x'))
    await post(Buffer.from('x'), [['x-envoy-auth-partial-body', 'true']])
    expect(calls.map(({ body }) => body.state)).toEqual([
      'complete',
      'complete',
      'truncated',
      'truncated',
      'truncated',
    ])
    expect(calls[0]!.body).toMatchObject({ bytes: Buffer.from([0x61, 0xff, 0x21]), lossyText: false })
  })

  test.each([[['gzip, chunked']], [['x-private', 'chunked']], [['chunked', 'chunked']]])(
    'with a body coded otherwise than in chunks (%j) is 400 unjudged',
    async codings => {
      const { address, calls } = await stand()
      const lines = codings.map(coding => `Transfer-Encoding: ${coding}\r\n`).join('')
      const head = `POST /check/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n`
      expect(await spoken(address, `${head}1\r\nx\r\n0\r\n\r\n`)).toMatch(/^HTTP\/1\.1 400 /)
      expect(calls).toEqual([])
    },
  )

  test('does not take its own content-length for that of the call', async () => {
    const { client, calls } = await stand()
    await client.check({ method: 'POST', target: '/check/a', body: Buffer.alloc(0) })
    expect(calls[0]!.headers.has('content-length')).toBe(false)
  })

  test('has the length of the call if the gateway is configured to say it', async () => {
    const { client, calls } = await stand({ gateway: { length: 'x-length' } })
    const post = (length: string, body: string) =>
      client.check({
        method: 'POST',
        target: '/check/a',
        body: Buffer.from(body),
        lines: [['X-Length', length]],
      })
    await post('0', '')
    await post('3', 'abc')
    await post('4', 'abc')
    expect(
      calls.map(({ headers, body }) => [headers.get('content-length'), headers.has('x-length'), body.state]),
    ).toEqual([
      [['0'], false, 'absent'],
      [['3'], false, 'complete'],
      [['4'], false, 'truncated'],
    ])
    expect(errorIn(await post('x', 'abc'))).toEqual([400, 'invalid_request'])
    // Some gateways cannot leave a field out.
    await post('', 'abc')
    expect(calls.at(-1)!.headers.has('content-length')).toBe(false)
  })

  test('counts as coming from the client that the gateway names, if it is configured so', async () => {
    const { client, calls } = await stand({ gateway: { peer: 'x-peer' } })
    const from = (value: string) => client.check({ target: '/check/a', lines: [['X-Peer', value]] })
    await from('203.0.113.7')
    await from('6.6.6.6, 203.0.113.8')
    await client.check({ target: '/check/a' })
    expect(calls.map(({ peer }) => peer)).toEqual(['203.0.113.7', '203.0.113.8', 'unknown'])
    const plain = await stand()
    await plain.client.check({ target: '/check/a', lines: [['X-Peer', '6.6.6.6']] })
    expect(plain.calls[0]!.peer).toBe('127.0.0.1')
  })
})

describe('A check by forward-auth', () => {
  const gateway = { original: { method: 'x-original-method', uri: 'x-original-uri' } }
  const about = (method: string, uri: string, lines: HttpCheck['lines'] = []): HttpCheck => ({
    target: '/check',
    lines: [['X-Original-Method', method], ['X-Original-URI', uri], ...lines],
  })

  test('is about the method and the target in the configured header fields, and the core never sees those', async () => {
    const { client, calls } = await stand({ gateway })
    await client.check(about('DELETE', '/api/alice/orders/7?a=b', [['X-Forwarded-Uri', '/x']]))
    expect(calls[0]).toMatchObject({ method: 'DELETE', path: '/api/alice/orders/7', query: 'a=b' })
    expect([...calls[0]!.headers.keys()]).toEqual(['x-forwarded-uri'])
  })

  test.each<[string, HttpCheck]>([
    ['no method', { target: '/check', lines: [['X-Original-URI', '/a']] }],
    ['no target', { target: '/check', lines: [['X-Original-Method', 'GET']] }],
    ['an empty method', about('', '/a')],
    ['a method that is none', about('GET /b', '/a')],
    ['two targets', about('GET', '/a', [['X-Original-URI', '/b']])],
    ['two methods', about('GET', '/a', [['x-original-method', 'GET']])],
    ['a whole URL', about('GET', 'https://tools.example.com/a')],
    ['a target with dot segments', about('GET', '/a/../b')],
    ['a target with a parameter', about('GET', '/a;b')],
    ['a field that some take for the one with the target', about('GET', '/a', [['X_Original_URI', '/b']])],
    ['identity fields of a client', about('GET', '/a', [['X-UMA-Owner', 'mallory']])],
    ['identity fields spelt otherwise', about('GET', '/a', [['x_uma.agent', 'mallory']])],
  ])('with %s is 400 unjudged', async (_what, check) => {
    const { client, calls } = await stand({ gateway })
    expect(errorIn(await client.check(check))).toEqual([400, 'invalid_request'])
    expect(calls).toEqual([])
  })

  test('is asked with an empty query, too, which is not that of the call', async () => {
    const { client, calls } = await stand({ gateway })
    await client.check({ ...about('GET', '/a'), target: '/check?' })
    expect(calls.map(({ path, query }) => [path, query])).toEqual([['/a', undefined]])
  })

  test.each(['/check/a', '/check?x', '/a'])('is not asked at %s', async target => {
    const { client, calls } = await stand({ gateway })
    expect(errorIn(await client.check({ ...about('GET', '/a'), target }))).toEqual([404, 'not_found'])
    expect(calls).toEqual([])
  })
})

describe('What is answered', () => {
  test('an allow is 200, with the fields to set, and those to take off in x-envoy-auth-headers-to-remove', async () => {
    const { client } = await stand({
      decide: async () => ({
        ...ALLOW,
        headers: { 'X-UMA-Owner': 'alice', 'x-uma-tool': '' },
        remove: ['Authorization'],
      }),
    })
    const { status, headers, body } = await client.check({
      target: '/check/a',
      lines: [['x_uma-other', 'forged']],
    })
    expect([status, body, headers['x-uma-owner'], headers['x-uma-tool']]).toEqual([
      200,
      '',
      ['alice'],
      undefined,
    ])
    const removed = headers['x-envoy-auth-headers-to-remove']![0]!.split(',')
    expect(removed).toEqual(
      expect.arrayContaining(['authorization', 'x_uma-other', 'x-uma-tool', 'x_uma_owner']),
    )
    expect(removed).not.toContain('x-uma-owner')
  })

  test('a denial has the status, header fields and body of the refusal', async () => {
    const refusal = new Refusal('temporarily_unavailable', 'Läter.', {
      status: 429,
      headers: { 'Retry-After': '7' },
    })
    const { client } = await stand({ decide: deny(refusal), bodyHeader: 'x-refusal' })
    const { status, headers, body } = await client.check({ target: '/check/a' })
    expect(status).toBe(429)
    expect(headers).toMatchObject({
      'retry-after': ['7'],
      'content-type': ['application/json'],
      'cache-control': ['no-store'],
      'x-refusal': ['{"error":"temporarily_unavailable","error_description":"L\\u00e4ter."}'],
    })
    expect(JSON.parse(body)).toEqual(JSON.parse(headers['x-refusal']![0]!))
  })

  test.each([503, 424] as const)('our own outage is %i, as configured, and never 200', async outageStatus => {
    const { client, faults } = await stand({
      outageStatus,
      decide: async () => Promise.reject(new Error('a secret')),
    })
    const answer = await client.check({ target: '/check/a' })
    expect(errorIn(answer)).toEqual([outageStatus, 'temporarily_unavailable'])
    expect(answer.body).not.toContain('secret')
    expect(faults).toHaveLength(1)
  })

  test('what cannot be written is an outage', async () => {
    const { client, faults } = await stand({
      decide: async () => ({ ...ALLOW, headers: { 'x-uma-owner': 'ä' } }),
    })
    expect((await client.check({ target: '/check/a' })).status).toBe(503)
    expect(faults).toHaveLength(1)
  })

  test('an undecided call is 503 before the deadline', async () => {
    const { client } = await stand({ deadlineMs: 300, decide: () => new Promise(() => {}) })
    expect((await client.check({ target: '/check/a' })).status).toBe(503)
  })

  test('a caller that goes away is seen', async () => {
    const { promise, resolve } = Promise.withResolvers<Outcome>()
    const { client, calls } = await stand({ decide: () => promise })
    const { cancel, done } = client.start({ target: '/check/a' })
    const refused = expect(done).rejects.toThrow()
    await until(() => calls.length === 1)
    expect(calls[0]!.isCancelled()).toBe(false)
    cancel()
    await refused
    await until(() => calls[0]!.isCancelled())
    resolve(ALLOW)
  })
})
