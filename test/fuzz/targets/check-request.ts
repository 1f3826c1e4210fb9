/**
 * Target: whole CheckRequests, as proxies send them, as nobody should, damaged, and plain noise. An allow
 * needs a request that is free, or a live grant of the agent with a signature over what arrived.
 */
import * as fc from 'fast-check'
import { codec, official, ours } from '../../support/envoy-protos.ts'
import { anyText } from '../any-text.ts'
import { hold, outcomeOf, type FuzzDoor } from '../door.ts'
import { holdDue } from '../due.ts'
import { APPROVED } from '../known-grants.ts'
import { checkOf, headersOf, type SentCall } from '../signed-call.ts'
import type { FuzzTarget } from '../target.ts'

interface CheckInput {
  call: SentCall
  /** In place of the call: bytes in Base64. */
  noise?: string
  /** Bytes put in at places of the message, and how much of its end is missing. */
  damage: [at: number, byte: number][]
  cut: number
  down: boolean
}

const NAME = 'envoy.service.auth.v3.CheckRequest'

/**
 * By the official messages; by ours where damage in a field that we do not define keeps those from being
 * read.
 */
function factsOf(bytes: Buffer): Facts {
  try {
    return codec(official, NAME).deserialize(bytes)
  } catch {
    return codec(ours, NAME).deserialize(bytes)
  }
}

interface Http {
  method?: string
  path?: string
  headers?: Record<string, string>
  body?: string
  raw_body?: Buffer
  header_map?: { headers?: { key?: string; value?: string; raw_value?: Buffer }[] }
}

interface Facts {
  attributes?: { request?: { http?: Http } }
}

const rpc = (method: unknown, params?: unknown, id: unknown = 1) =>
  JSON.stringify({ jsonrpc: '2.0', id, method, ...(params === undefined ? {} : { params }) })

const bodies: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.constant(rpc('tools/call', { name: 'portfolio_read' })) },
  { weight: 4, arbitrary: fc.constant(rpc('tools/call', { name: 'place_trade', arguments: APPROVED })) },
  { weight: 2, arbitrary: fc.constant(rpc('ping')) },
  {
    weight: 3,
    arbitrary: fc
      .tuple(
        fc.constantFrom(
          'tools/call',
          'tools/list',
          'resources/read',
          'Tools/call',
          'notifications/x',
          'ping',
        ),
        fc.constantFrom('portfolio_read', 'place_trade', 'undescribed', 'nothing', '__proto__'),
        fc.jsonValue({ maxDepth: 2 }),
      )
      .map(([method, name, args]) => rpc(method, { name, arguments: args })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      '[]',
      '{',
      `[${rpc('ping')}]`,
      'null',
      '{"jsonrpc":"2.0","id":1,"result":{}}',
    ),
  },
  { weight: 1, arbitrary: anyText(60) },
)

const fieldNames = fc.constantFrom(
  'content-length',
  'content-type',
  'content-encoding',
  'x-envoy-auth-partial-body',
  'x-uma-owner',
  'authorization',
  'origin',
  'mcp-method',
  'mcp-name',
  'signature',
  ':path',
  'host',
  '__proto__',
)
const fieldValues = fc.oneof(
  fc.constantFrom('true', 'false', '5', '62', 'gzip', 'application/json', 'PoP a', 'ping', 'a, b', ''),
  anyText(20),
)

const calls: fc.Arbitrary<SentCall> = fc.record(
  {
    method: fc.oneof(
      { weight: 12, arbitrary: fc.constant('POST') },
      { weight: 1, arbitrary: fc.constantFrom('GET', 'DELETE', 'post', '') },
    ),
    path: fc.oneof(
      { weight: 14, arbitrary: fc.constant('/mcp/alice') },
      {
        weight: 1,
        arbitrary: fc.constantFrom('/mcp/bea', '/mcp/alice/', '/mcp//alice', '/mcp/alice;x', '*', ''),
      },
    ),
    query: fc.oneof(
      { weight: 5, arbitrary: fc.constant(undefined as unknown as string) },
      { weight: 1, arbitrary: fc.constantFrom('', 'a=b', 'a=%zz') },
    ),
    body: bodies,
    grant: fc.constantFrom(
      'none',
      'standing',
      'standing',
      'single',
      'single',
      'revoked',
      'spent',
      'foreign',
      'unknown',
    ),
    signing: fc.oneof(
      { weight: 5, arbitrary: fc.constant({}) },
      { weight: 1, arbitrary: fc.constant(undefined) },
      {
        weight: 1,
        arbitrary: fc.constantFrom<SentCall['signing']>(
          { path: '/mcp/bea' },
          { method: 'GET' },
          { authority: 'evil.example' },
          { created: -61 },
          { byStranger: true },
        ),
      },
    ),
    digest: fc.boolean(),
    headers: fc.oneof(
      { weight: 4, arbitrary: fc.constant({}) },
      { weight: 2, arbitrary: fc.dictionary(fieldNames, fieldValues, { maxKeys: 2, noNullPrototype: true }) },
    ),
    raw: fc.boolean(),
    context: fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom<Record<string, string>>({}, { owner: 'alice' }) },
      { weight: 1, arbitrary: fc.constantFrom<Record<string, string>>({ owner: 'bea' }, { owner: '' }) },
    ),
    size: fc.oneof(
      { weight: 9, arbitrary: fc.constant(undefined as unknown as number) },
      { weight: 1, arbitrary: fc.constantFrom(-1, 0, 3) },
    ),
  },
  { requiredKeys: ['body', 'grant', 'raw'] },
)

const inputs: fc.Arbitrary<CheckInput> = fc.record(
  {
    call: calls,
    noise: fc.oneof(
      { weight: 19, arbitrary: fc.constant(undefined as unknown as string) },
      {
        weight: 1,
        arbitrary: fc.uint8Array({ maxLength: 300 }).map(bytes => Buffer.from(bytes).toString('base64')),
      },
    ),
    damage: fc.oneof(
      { weight: 3, arbitrary: fc.constant<[number, number][]>([]) },
      {
        weight: 1,
        arbitrary: fc.array(fc.tuple(fc.nat(2_000), fc.nat(255)), { minLength: 1, maxLength: 3 }),
      },
    ),
    cut: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(40) }),
    down: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  },
  { requiredKeys: ['call', 'damage', 'cut', 'down'] },
)

/** The values of Authorization, wherever they stand. */
function credentialsOf(http: Http): string[] {
  const lines = [
    ...Object.entries(http.headers ?? {}),
    ...(http.header_map?.headers ?? []).map(({ key = '', value, raw_value }): [string, string] => [
      key,
      value || String(raw_value ?? ''),
    ]),
  ]
  const values = new Set(
    lines.filter(([name]) => name.toLowerCase() === 'authorization').map(([, value]) => value),
  )
  return [...values]
}

/** The target over a door. */
export function checkRequests(door: FuzzDoor): FuzzTarget<CheckInput> {
  const { grants } = door
  const check = async ({ call, noise, damage, cut, down }: CheckInput): Promise<string> => {
    grants.renew()
    grants.down = down
    let bytes = noise === undefined ? checkOf(call, headersOf(call, grants)) : Buffer.from(noise, 'base64')
    for (const [at, byte] of damage) if (bytes.length > 0) bytes[at % bytes.length] = byte
    bytes = bytes.subarray(0, Math.max(0, bytes.length - cut))
    const answer = await door.ask(bytes)
    if (answer.ok_response) justified(bytes)
    else hold(grants.spent.length === 0, 'a denied call spends nothing')
    const word = answer.status!.message
    hold(!down || word !== 'insufficient_authorization', 'an outage is no challenge', word)
    return outcomeOf(answer)
  }

  /** That an allow was due, by the official messages and a plain reading of the body. */
  function justified(bytes: Buffer): void {
    const http = factsOf(bytes).attributes?.request?.http ?? {}
    const body = http.raw_body?.length ? http.raw_body : Buffer.from(http.body ?? '')
    hold(/^\/mcp\/alice(\?.*)?$/.test(http.path ?? ''), 'an allow is for a configured path', http.path)
    holdDue({ method: http.method, body, credentials: credentialsOf(http) }, grants)
  }

  return {
    name: 'check-request',
    inputs,
    check,
    shares: { allow: 0.02, '400': 0.02, '401': 0.02, '403': 0.02, '503': 0.005 },
  }
}
