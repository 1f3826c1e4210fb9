/**
 * What the ext_authz door answers, asked by a real gRPC client that speaks the official messages. contract,
 * "Errors".
 */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Allowed, Outcome } from '../../src/enforcement/call.ts'
import { answer } from '../../src/enforcement/doors/grpc/check-response.ts'
import { readMcp } from '../../src/enforcement/request/mcp.ts'
import { refuse } from '../../src/wire/refusal.ts'
import { checkBytes, deniedBody, denialIn, type HttpFacts } from '../support/check-client.ts'
import { ALLOW, standCheckDoor } from '../support/check-door.ts'
import { inputsOfLayer } from '../support/layer.ts'

const door = standCheckDoor()

describe('an allow', () => {
  const outcome = (parts: Partial<Allowed>) => async (): Promise<Outcome> => ({
    ...ALLOW,
    ...parts,
  })

  test('sets each header so that every proxy overwrites the client copy, and takes the credential off', async () => {
    door.decide = outcome({
      headers: { 'x-uma-owner': 'alice', 'X-UMA-Agent': 'jkt:x' },
      remove: ['Authorization'],
    })
    const reply = await door.client.check(checkBytes({ headers: { 'x-uma-owner': 'mallory' } }))
    expect(reply.status).toEqual({ code: 0 })
    expect(reply.denied_response).toBeUndefined()
    expect(reply.ok_response?.headers).toEqual([
      { header: { key: 'x-uma-owner', value: 'alice' }, append: { value: false }, append_action: 2 },
      { header: { key: 'x-uma-agent', value: 'jkt:x' }, append: { value: false }, append_action: 2 },
    ])
    expect(reply.ok_response?.headers_to_remove).toContain('authorization')
    expect(reply.ok_response?.headers_to_remove).not.toContain('x-uma-owner')
    expect(reply.ok_response?.headers_to_remove).not.toContain('x-uma-agent')
  })

  test('takes off every x-uma-* that the client sent, also spelt with _, and our own names even unseen', async () => {
    const forged = [
      'x-uma-owner',
      'x_uma_owner',
      'x-uma.agent',
      'x-uma_tool',
      'x_uma-anything',
      'x-uma-',
      'x-uma-admin',
    ]
    const reply = await door.client.check(
      checkBytes({ headers: Object.fromEntries([...forged, 'x-umami', 'x-um'].map(name => [name, 'v'])) }),
    )
    expect(reply.ok_response?.headers_to_remove).toEqual(
      expect.arrayContaining([...forged, 'x-uma-family', 'x_uma_contract']),
    )
    expect(reply.ok_response?.headers_to_remove).not.toContain('x-umami')
    expect(reply.ok_response?.headers_to_remove).not.toContain('x-um')
  })

  test('takes an empty identity header off instead of setting it, since proxies keep the client copy', async () => {
    door.decide = outcome({ headers: { 'x-uma-tool': '', 'x-uma-owner': 'alice' } })
    const reply = await door.client.check(checkBytes({ headers: { 'x-uma-tool': 'forged' } }))
    expect(reply.ok_response?.headers?.map(each => each.header?.key)).toEqual(['x-uma-owner'])
    expect(reply.ok_response?.headers_to_remove).toContain('x-uma-tool')
  })

  test('tells access logs what it was given', async () => {
    door.decide = outcome({ metadata: { decision: 'allow', family: 'fam_1' } })
    const { dynamic_metadata } = await door.client.check(checkBytes())
    expect(dynamic_metadata?.fields).toMatchObject({
      decision: { stringValue: 'allow' },
      family: { stringValue: 'fam_1' },
    })
  })

  test.each([
    ['a line break', 'a\r\nx-admin: 1'],
    ['a control character', 'a\u{1B}[2J'],
    ['a character beyond ASCII', 'b\u{E9}a'],
    ['too long a value', 'a'.repeat(16_385)],
  ])('with %s in an identity value is a denial instead', async (_title, value) => {
    door.decide = outcome({ headers: { 'x-uma-agent': value } })
    expect(denialIn(await door.client.check(checkBytes()))).toMatchObject({
      status: 503,
      error: 'temporarily_unavailable',
    })
    expect(door.faults).toHaveLength(1)
  })
})

describe('a denial', () => {
  test('carries its status, its headers and its JSON body', async () => {
    door.decide = async () => ({
      kind: 'deny',
      status: 401,
      headers: [['WWW-Authenticate', 'UMA realm="tools"']],
      body: { error: 'insufficient_authorization' },
      metadata: { decision: 'deny', reason: 'insufficient_authorization' },
    })
    const reply = await door.client.check(checkBytes())
    expect(reply.status).toEqual({ code: 16, message: 'insufficient_authorization' })
    expect(reply.denied_response?.status?.code).toBe(401)
    expect(reply.denied_response?.headers?.map(each => [each.header?.key, each.header?.value])).toEqual([
      ['www-authenticate', 'UMA realm="tools"'],
      ['content-type', 'application/json'],
      ['cache-control', 'no-store'],
    ])
    expect(deniedBody(reply)).toEqual({ error: 'insufficient_authorization' })
    expect(reply.dynamic_metadata?.fields).toMatchObject({
      reason: { stringValue: 'insufficient_authorization' },
    })
  })

  test.each([400, 401, 403, 404, 405, 413, 415, 429, 500, 503])(
    'of status %d is told as such and never as code 0',
    async status => {
      door.decide = async () => ({ kind: 'deny', status, headers: [], body: {}, metadata: {} })
      expect(denialIn(await door.client.check(checkBytes()))).toMatchObject({ status })
    },
  )

  test('a Refusal thrown while deciding keeps its status, word, sentence and headers', async () => {
    door.decide = async () =>
      refuse('temporarily_unavailable', 'Try again.', { status: 429, headers: { 'Retry-After': '1' } })
    const reply = await door.client.check(checkBytes())
    expect(denialIn(reply)).toEqual({
      status: 429,
      error: 'temporarily_unavailable',
      error_description: 'Try again.',
    })
    expect(reply.denied_response?.headers?.[0]?.header).toEqual({ key: 'retry-after', value: '1' })
    expect(door.faults).toEqual([])
  })

  const NOTHING_USABLE: [string, () => Promise<Outcome>][] = [
    ['an Error', async () => Promise.reject(new Error('the token was abc'))],
    ['a thrown string', async () => Promise.reject('oops')],
    [
      'a synchronous throw',
      () => {
        throw new TypeError('x')
      },
    ],
    ['undefined', async () => undefined as unknown as Outcome],
    ['an unknown kind', async () => ({ kind: 'maybe' }) as unknown as Outcome],
    [
      'a denial of status 200',
      async () => ({ kind: 'deny', status: 200, headers: [], body: {}, metadata: {} }),
    ],
    [
      'a denial of no status',
      async () => ({ kind: 'deny', headers: [], body: {}, metadata: {} }) as unknown as Outcome,
    ],
    [
      'a denial with a forged header line',
      async () => ({ kind: 'deny', status: 403, headers: [['a', 'b\nc: d']], body: {}, metadata: {} }),
    ],
    [
      'a body that is no JSON',
      async () => ({ kind: 'deny', status: 403, headers: [], body: { n: 1n }, metadata: {} }),
    ],
    ['an allow whose headers are missing', async () => ({ kind: 'allow' }) as unknown as Outcome],
  ]
  test.each(NOTHING_USABLE)(
    'our own fault (%s) is 503 as a denied response, and tells nothing',
    async (_title, broken) => {
      door.decide = broken
      expect(denialIn(await door.client.check(checkBytes()))).toEqual({
        status: 503,
        error: 'temporarily_unavailable',
      })
      expect(door.faults).toHaveLength(1)
    },
  )
})

describe('the choke point', () => {
  const denied = { status: { code: 403 }, headers: [], body: '' }
  const ok = { headers: [], headers_to_remove: [] }
  test.each([
    ['no status', {}],
    ['a status without a code', { status: {}, ok_response: ok }],
    ['code 0 with a denial', { status: { code: 0 }, denied_response: denied }],
    ['code 0 with nothing', { status: { code: 0 } }],
    ['a failing code with an allow', { status: { code: 7 }, ok_response: ok }],
    ['a failing code with nothing', { status: { code: 7 } }],
    ['both answers', { status: { code: 0 }, ok_response: ok, denied_response: denied }],
    ['a denial below 400', { status: { code: 7 }, denied_response: { ...denied, status: { code: 302 } } }],
  ])('lets out no response with %s', (_title, response) => {
    expect(() => answer(response as Parameters<typeof answer>[0])).toThrow()
  })
})

describe('whatever arrives, the answer has a status, and allows only what was allowed', () => {
  const anyText = fc.string({ unit: 'binary', maxLength: 30 })
  const names = fc.constantFrom(
    'authorization',
    'content-length',
    'x-envoy-auth-partial-body',
    'content-encoding',
    'x-uma-owner',
    ':path',
    '__proto__',
  )
  const http: fc.Arbitrary<HttpFacts> = fc.record(
    {
      method: fc.oneof(fc.constantFrom('POST', 'GET', ''), anyText),
      path: fc.oneof(
        fc.constantFrom('/mcp/alice', '/', ''),
        anyText.map(rest => `/${rest}`),
        fc.webPath(),
      ),
      headers: fc.dictionary(
        fc.oneof(names, anyText),
        fc.oneof(fc.constantFrom('PoP a', '5', 'true'), anyText),
      ),
      header_map: fc.record({
        headers: fc.array(
          fc.record(
            {
              key: fc.oneof(names, anyText),
              value: anyText,
              raw_value: fc.uint8Array({ maxLength: 20 }).map(array => Buffer.from(array)),
            },
            { requiredKeys: [] },
          ) as fc.Arbitrary<{ key?: string }>,
          { maxLength: 5 },
        ),
      }),
      size: fc.integer(),
      body: anyText,
      raw_body: fc.uint8Array({ maxLength: 40 }).map(array => Buffer.from(array)),
    },
    { requiredKeys: [] },
  )
  const messages = http.map(facts => checkBytes(facts))
  // Nothing to refuse before judging, but for what the body or one header field brings in.
  const likely = fc
    .tuple(
      fc.constantFrom('/mcp/alice', '/'),
      fc.dictionary(names, fc.constantFrom('PoP a', '1', 'false')),
      anyText,
    )
    .map(([path, headers, body]) => checkBytes({ path, headers, body }))
  const damaged = fc
    .tuple(fc.oneof(messages, likely), fc.nat(), fc.integer({ min: 0, max: 255 }))
    .map(([bytes, at, byte]) => {
      const copy = Buffer.from(bytes)
      if (copy.length > 0) copy[at % copy.length] = byte
      return copy.subarray(0, copy.length - (at % 3))
    })
  const noise = fc.uint8Array({ maxLength: 200 }).map(array => Buffer.from(array))
  const verdicts = fc.constantFrom<'allow' | 'deny' | 'throw'>('allow', 'deny', 'throw')

  test('over gRPC', { timeout: 60_000 }, async () => {
    let allows = 0
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(messages, { weight: 3, arbitrary: likely }, damaged, noise),
        verdicts,
        async (bytes, verdict) => {
          door.calls = []
          door.decide = async () => {
            if (verdict === 'throw') throw new Error('down')
            return verdict === 'allow'
              ? ALLOW
              : { kind: 'deny', status: 403, headers: [], body: {}, metadata: {} }
          }
          const reply = await door.client.check(bytes)
          expect(reply.status).toBeDefined()
          const allowed = door.calls.length === 1 && verdict === 'allow'
          allows += Number(allowed)
          expect(reply.status?.code === 0).toBe(allowed)
          expect(reply.ok_response !== undefined).toBe(allowed)
          if (!allowed) expect(reply.denied_response?.status?.code).toBeGreaterThanOrEqual(400)
        },
      ),
      { numRuns: inputsOfLayer(4000) },
    )
    expect(allows).toBeGreaterThan(20) // else the inputs never got past the reading
  })

  test('also as the body of an MCP call', { timeout: 60_000 }, async () => {
    const mcp = { openMethods: new Set<string>(), allowedOrigins: new Set<string>() }
    const jsonRpc = fc
      .record(
        {
          jsonrpc: fc.constantFrom('2.0', '2.0', '2.0', '1.0'),
          id: fc.constantFrom(1, 'a', null),
          method: fc.constantFrom('ping', 'ping', 'ping', 'tools/call', 'resources/read', 'Ping'),
          params: fc.oneof({ weight: 3, arbitrary: fc.constant({ name: 't' }) }, fc.jsonValue()),
        },
        { requiredKeys: ['jsonrpc', 'method'] },
      )
      .map(value => Buffer.from(JSON.stringify(value)))
    const bodies = fc.oneof(
      jsonRpc,
      noise,
      fc.json().map(text => Buffer.from(text)),
    )
    const seen = { allow: 0, deny: 0 }
    await fc.assert(
      fc.asyncProperty(bodies, async raw_body => {
        door.decide = async call => (readMcp(call, mcp).kind === 'pass' ? ALLOW : refuse('unknown_tool'))
        const reply = await door.client.check(checkBytes({ raw_body }))
        const passes = /"method":"ping"/.test(raw_body.toString()) && reply.status?.code === 0
        seen[passes ? 'allow' : 'deny']++
        if (passes) expect(reply.ok_response).toBeDefined()
        else expect(denialIn(reply)).toMatchObject({ error: expect.any(String) })
      }),
      { numRuns: inputsOfLayer(2000) },
    )
    // Some 160 pass. With inputs of which 35 did, one run in a hundred had 20 by chance alone.
    expect(Math.min(seen.allow, seen.deny)).toBeGreaterThan(20)
    expect(door.faults).toEqual([])
  })
})
