import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCheckServer, type CheckServer } from '../../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../../src/enforcement/telemetry/health.ts'
import { s256Json } from '../../../src/wire/encoding.ts'
import { checkBytes, connect, denialIn, type CheckClient } from '../../support/check-client.ts'
import { sendCall, singleUseGrant, standingGrant, standProtected } from '../../support/embedded.ts'
import { inputsOfLayer } from '../../support/layer.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../../support/scripted-authority.ts'
import { callOf, newKey, nowSeconds, startCore, type CallParts, type Core } from '../calls.ts'

const agent = newKey()
const thief = newKey()
const TRADE = { symbol: 'VTI', qty: 2 }
let authority: ScriptedAuthority
let stand: Awaited<ReturnType<typeof standProtected>>
let core: Core
let grpc: CheckServer
let client: CheckClient
let executed: unknown[]

beforeAll(async () => {
  authority = await startScriptedAuthority()
  executed = []
  stand = await standProtected(authority.issuer, (_request, response, value) => {
    executed.push(value)
    response.end('done')
  })
  core = startCore(authority.issuer)
  grpc = await startCheckServer({
    address: '127.0.0.1:0',
    health: createHealth(),
    bodyBytesMax: 1_048_576,
    deadlineMarginMs: 50,
    decide: core.decide,
  })
  client = connect(grpc.address)
})
afterAll(async () => {
  client.close()
  await grpc.stop(100)
  await core.close()
  await stand.close()
  await authority.close()
})

/** What a caller is answered: `allow`, or status, word, and every header that is not of the transport. */
type Told = 'allow' | { status: number; error: unknown; challenged: boolean }

async function overGrpc(parts: CallParts): Promise<Told> {
  const { method, path, query, headers, body } = callOf(parts)
  const bytes = body.state === 'complete' ? body.bytes : Buffer.alloc(0)
  const lines = [...headers].flatMap(([key, values]) => values.map(value => ({ key, raw_value: value })))
  const answer = await client.check(
    checkBytes({
      method,
      path: query === undefined ? path : `${path}?${query}`,
      header_map: {
        headers: [...lines, { key: 'content-length', raw_value: `${bytes.length}` }].map(
          ({ key, raw_value }) => ({ key, raw_value: Buffer.from(raw_value) }),
        ),
      },
      raw_body: bytes,
    }),
  )
  if (answer.ok_response !== undefined && answer.ok_response !== null) return 'allow'
  const { status, error } = denialIn(answer)
  const names = (answer.denied_response?.headers ?? []).map(({ header }) => header?.key)
  return { status: Number(status), error, challenged: names.includes('www-authenticate') }
}

async function embedded(parts: CallParts): Promise<Told> {
  const { status, headers, body } = await sendCall(stand.port, parts)
  // Only a denial is a JSON-RPC error here: the handler answers in another form.
  if (status === 200 && !body.includes('"jsonrpc"')) return 'allow'
  const { error } = JSON.parse(body) as { error?: unknown }
  return { status, error, challenged: headers['www-authenticate'] !== undefined }
}

const grant = fc.constantFrom('none', 'standing', 'single', 'ended', 'unknown', 'junk,token')
const body = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(undefined) },
  fc.constantFrom(
    '',
    '[]',
    '{}',
    'null',
    '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    '{"jsonrpc":"2.0","id":1,"method":"resources/read"}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","name":"x"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{},"params":{"name":"place_trade"}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","arguments":{"symbol":"VTI","qty":2.0}}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","arguments":{"qty":2,"symbol":"VTI"}}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","arguments":{"symbol":"V\\u0054I","qty":2}}}',
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place_trade","arguments":{"symbol":"VTI","qty":2}}}{}',
    '{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"place_trade","arguments":{"symbol":"VTI","qty":2}}}',
    '\u{feff}{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  ),
)
const callParts = fc.record({
  grant,
  body,
  method: fc.oneof({ weight: 6, arbitrary: fc.constant('POST') }, fc.constantFrom('GET', 'DELETE', 'PUT')),
  path: fc.oneof(
    { weight: 6, arbitrary: fc.constant('/mcp/alice') },
    fc.constantFrom('/mcp/bea', '/mcp/alice/', '/mcp//alice', '/mcp/%61lice', '/mcp/alice;a'),
  ),
  query: fc.option(fc.constantFrom('a=b', ''), { nil: undefined, freq: 6 }),
  tool: fc.constantFrom('portfolio_read', 'place_trade', 'unknown'),
  args: fc.constantFrom(undefined, TRADE, { ...TRADE, qty: 3 }, {}),
  signer: fc.constantFrom(agent, agent, agent, thief, undefined),
  // Far from the bounds: the doors judge one after the other, and a second may pass between them.
  created: fc.constantFrom(0, 0, 0, -30, -90, 90),
  digest: fc.boolean(),
  headers: fc.constantFrom<Record<string, string[]>>(
    {},
    {},
    { origin: ['https://evil.example'] },
    { origin: ['https://tools.example.com'] },
    { 'content-encoding': ['gzip'] },
    { 'content-type': ['text/plain'] },
    { 'mcp-name': ['other'] },
    { 'mcp-protocol-version': ['2026-07-28'] },
    { 'x-uma-agent': ['mallory'] },
  ),
})

type Parts = typeof callParts extends fc.Arbitrary<infer T> ? T : never

/** Of each kind of answer one that is sure to occur: chance may leave a kind out of 250. */
const LET_PASS: Parts = {
  grant: 'standing',
  body: undefined,
  method: 'POST',
  path: '/mcp/alice',
  query: undefined,
  tool: 'portfolio_read',
  args: {},
  signer: agent,
  created: 0,
  digest: true,
  headers: {},
}

const KINDS: Partial<Parts>[] = [
  {},
  { grant: 'none' },
  { created: -90 },
  { signer: thief },
  { grant: 'ended' },
]

/** The same call twice, each with a grant of its own: a single-use grant serves one of them. */
function twin(parts: Parts): CallParts {
  const { grant, created, signer, body, query, ...rest } = parts
  const operation = { tool: 'place_trade', params_s256: s256Json(TRADE) }
  const token = {
    none: () => undefined,
    standing: () => standingGrant(authority, agent),
    single: () => singleUseGrant(authority, agent, operation),
    ended: () => {
      const token = standingGrant(authority, agent)
      authority.end(token, 'connection_revoked')
      return token
    },
    unknown: () => 'never.issued.here',
    'junk,token': () => 'junk,token',
  }[grant]()
  return {
    ...rest,
    digest: rest.digest && body !== '',
    created: nowSeconds() + created,
    ...(body === undefined ? {} : { body: body === '' ? { state: 'absent' as const } : body }),
    ...(query === undefined ? {} : { query }),
    ...(token === undefined ? {} : { token, ...(signer === undefined ? {} : { signer }) }),
  }
}

describe('For the same call', () => {
  test('the embedded door gives the same decision as the gRPC door', async () => {
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(callParts, async parts => {
        const [inside, gateway] = [await embedded(twin(parts)), await overGrpc(twin(parts))]
        seen.add(inside === 'allow' ? 'allow' : `${inside.status} ${String(inside.error)}`)
        expect(inside).toEqual(gateway)
      }),
      { numRuns: inputsOfLayer(250), examples: KINDS.map(changes => [{ ...LET_PASS, ...changes }]) },
    )
    // The property is about something only if all kinds of answers occur.
    for (const kind of ['allow', '401 insufficient_authorization', '401 invalid_token', '403 access_revoked'])
      expect([...seen]).toContain(kind)
  })

  test('what is executed under a single-use grant is what was approved, however it is written', async () => {
    await fc.assert(
      fc.asyncProperty(body.filter(Boolean), async text => {
        executed.length = 0
        const operation = { tool: 'place_trade', params_s256: s256Json(TRADE) }
        const token = singleUseGrant(authority, agent, operation)
        await sendCall(stand.port, { body: text as string, token, signer: agent })
        for (const value of executed as { method: string; params?: unknown }[]) {
          if (value.method === 'tools/call')
            expect(value.params).toEqual({ name: 'place_trade', arguments: TRADE })
        }
      }),
      { numRuns: 60 },
    )
  })
})
