/**
 * Target: what gateways send to `/check`, as they should, as nobody should, and damaged. An allow needs a
 * call that is free, or a live grant with a signature over the method and the target that the gateway wrote,
 * wherever this way of asking has it write them.
 */
import * as fc from 'fast-check'
import { anyText } from '../any-text.ts'
import { CAP, hold } from '../door.ts'
import { holdApiDue, holdDue } from '../due.ts'
import { readMessages, valuesOf, type HttpMessage } from '../http-message.ts'
import { WAYS, type HttpFuzzDoor, type Reply, type Way } from '../http-door.ts'
import { API_APPROVED, APPROVED } from '../known-grants.ts'
import { headersOf, type SentCall } from '../signed-call.ts'
import type { FuzzTarget } from '../target.ts'

type HttpCall = Omit<SentCall, 'raw'> & { method: string; path: string }

interface HttpInput {
  way: Way
  /** What the client signed and sent to the gateway. */
  call: HttpCall
  /** What the single-use grant of the API is for. */
  approved: keyof typeof API_APPROVED
  /** Further lines of the client's. */
  more: [name: string, value: string][]
  /** Stands before the target, or is the target where that is in a field. */
  prefix: string
  /** Whether the gateway writes its own fields in place of the client's, beside them, or not at all. */
  writes: 'over' | 'beside' | 'not'
  /** How many bytes of the body it shows. */
  shows: number
  /** What it says of the length of the body. */
  length: 'true' | 'none' | 'wrong'
  chunked: boolean
  host: boolean
  /** Bytes put in at places of the request, and how much of its end is missing. */
  damage: [at: number, byte: number][]
  cut: number
  down: boolean
}

const rpc = (method: string, params?: object): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) })

const often = <T>(usual: T, weight: number, ...others: T[]): fc.Arbitrary<T> =>
  fc.oneof(
    { weight, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...(others as [T])) },
  )

const POST = { method: 'POST', path: '/mcp/alice' }
const plainCalls = fc.constantFrom(
  { ...POST, body: rpc('tools/call', { name: 'portfolio_read' }), grant: 'standing' },
  { ...POST, body: rpc('tools/call', { name: 'place_trade', arguments: APPROVED }), grant: 'single' },
  { ...POST, body: rpc('ping') },
  { ...POST, body: rpc('resources/read', { uri: 'x:y' }), grant: 'standing' },
  { method: 'GET', path: '/api/alice/accounts/7', body: '', grant: 'standing' },
  { method: 'GET', path: '/api/alice/accounts/7', body: '', grant: 'standing' },
  { method: 'POST', path: '/api/alice/orders', body: JSON.stringify(APPROVED), grant: 'single' },
  { method: 'DELETE', path: '/api/alice/orders/7', body: '', grant: 'single' },
) as fc.Arbitrary<Pick<HttpCall, 'method' | 'path' | 'body' | 'grant'>>

const changes = fc.oneof(
  { weight: 5, arbitrary: fc.constant<Partial<HttpCall>>({}) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Partial<HttpCall>>(
      { method: 'PUT' },
      { method: 'DELETE' },
      { method: 'CONNECT' },
      { method: 'post' },
      { method: '' },
      { path: '/mcp/bea' },
      { path: '/mcp//alice' },
      { path: '/mcp/alice;x' },
      { path: '/mcp/../mcp/alice' },
      { path: '/api/alice/accounts/%37' },
      { path: '/api/alice/orders/8' },
      { path: '/api/alice/Orders' },
      { path: '/api/alice/accounts/a%2fb' },
      { path: '*' },
      { path: 'http://x/mcp/alice' },
      { body: '[]' },
      { body: rpc('tools/call', { name: 'nothing' }) },
      { body: '{"symbol":"VTI","qty":2,"qty":3}' },
      { body: 'x'.repeat(CAP) },
      { body: 'x'.repeat(CAP + 1) },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.record<Partial<HttpCall>>(
      { method: anyText(6), path: anyText(20).map(text => `/${text}`), body: anyText(40) },
      { requiredKeys: [] },
    ),
  },
)

const names = fc.constantFrom(
  'X-Original-Method',
  'x-original-uri',
  'X-Original-Length',
  'x-usher-length',
  'x-usher-peer',
  'x_original_method',
  'X-Forwarded-Method',
  'x-forwarded-uri',
  'X-UMA-Owner',
  'x_uma.agent',
  'authorization',
  'content-type',
  'content-encoding',
  'content-length',
  'transfer-encoding',
  'x-envoy-auth-partial-body',
  'x-http-method-override',
  'mcp-method',
  'expect',
  'connection',
  'upgrade',
  'origin',
  'bad name',
)
const values = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      'GET',
      'POST',
      '/mcp/alice',
      '/api/alice/accounts/7',
      '0',
      '2',
      'true',
      'gzip',
      'chunked',
      '100-continue',
      'close',
      'upgrade, close',
      'websocket',
      'alice',
      'PoP a',
      'application/json',
      '',
    ),
  },
  { weight: 1, arbitrary: anyText(20) },
)

const signings = fc.oneof(
  { weight: 6, arbitrary: fc.constant<SentCall['signing']>({}) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<SentCall['signing']>(
      undefined,
      { path: '/api/alice/accounts/7' },
      { method: 'GET' },
      { authority: 'evil.example' },
      { created: -61 },
      { byStranger: true },
    ),
  },
)

const calls: fc.Arbitrary<HttpCall> = fc
  .tuple(
    plainCalls,
    changes,
    fc.record({
      query: often<string | undefined>(undefined, 8, '', 'a=b', 'a=%zz'),
      signing: signings,
      digest: fc.boolean(),
    }),
    often<HttpCall['grant'] | undefined>(
      undefined,
      3,
      'none',
      'standing',
      'single',
      'revoked',
      'spent',
      'foreign',
    ),
  )
  .map(([plain, change, rest, grant]) => {
    const { query, ...others } = rest
    const usual = { ...plain, grant: grant ?? plain.grant ?? 'none' }
    return { ...usual, ...change, ...others, ...(query === undefined ? {} : { query }) }
  })

const inputs: fc.Arbitrary<HttpInput> = fc.record({
  way: fc.constantFrom<Way>('envoy', 'envoy', 'bare', 'forward', 'forward'),
  call: calls,
  approved: fc.constantFrom<HttpInput['approved']>('order', 'cancel'),
  more: fc.oneof(
    { weight: 2, arbitrary: fc.constant<HttpInput['more']>([]) },
    { weight: 1, arbitrary: fc.array(fc.tuple(names, values), { minLength: 1, maxLength: 3 }) },
  ),
  prefix: often(
    '/check',
    12,
    '',
    '/Check',
    '/check/check',
    '/check/',
    '//check',
    '/checks',
    '/health',
    '/check?',
  ),
  writes: often<HttpInput['writes']>('over', 12, 'beside', 'not'),
  shows: often(2 * CAP, 12, 0, 1, 20, CAP, CAP - 1),
  length: often<HttpInput['length']>('true', 10, 'none', 'wrong'),
  chunked: fc.boolean(),
  host: often(true, 9, false),
  damage: fc.oneof(
    { weight: 12, arbitrary: fc.constant<HttpInput['damage']>([]) },
    { weight: 1, arbitrary: fc.array(fc.tuple(fc.nat(1_500), fc.nat(255)), { minLength: 1, maxLength: 3 }) },
  ),
  cut: fc.oneof({ weight: 15, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(60) }),
  down: often(false, 9, true),
})

const CHECK = '/check'

/** What the gateway sends. */
function bytesOf(input: HttpInput, lines: [string, string][]): Buffer {
  const { way, call, prefix, writes, shows, chunked, host } = input
  const own = fieldsOf(input)
  const taken = new Set(own.map(([name]) => name))
  const sent = [...lines, ...input.more].filter(
    ([name]) => writes !== 'over' || !taken.has(name.toLowerCase()),
  )
  if (writes !== 'not') sent.push(...own)
  const forward = way === 'forward'
  const body = Buffer.from(forward ? '' : call.body).subarray(0, shows)
  if (body.length > 0)
    sent.push(chunked ? ['transfer-encoding', 'chunked'] : ['content-length', String(body.length)])
  if (host) sent.push(['host', 'usher'])
  const start = forward ? `GET ${prefix}` : `${call.method} ${prefix}${targetOf(call)}`
  const head = [`${start} HTTP/1.1`, ...sent.map(([name, value]) => `${name}: ${value}`), '', ''].join('\r\n')
  const half = body.length >> 1
  const chunk = (part: Buffer): string =>
    part.length === 0 ? '' : `${part.length.toString(16)}\r\n${part.toString('latin1')}\r\n`
  const framed =
    chunked && body.length > 0
      ? `${chunk(body.subarray(0, half))}${chunk(body.subarray(half))}0\r\n\r\n`
      : body.toString('latin1')
  return Buffer.concat([Buffer.from(head), Buffer.from(framed, 'latin1')])
}

/** The fields that the gateway writes itself. */
function fieldsOf({ way, call, length }: HttpInput): [string, string][] {
  const fields: [string, string][] = []
  if (way === 'forward') fields.push(['x-original-method', call.method], ['x-original-uri', targetOf(call)])
  const name = lengthField(way)
  const said = Buffer.byteLength(call.body) + (length === 'wrong' ? 1 : 0)
  if (name !== undefined && length !== 'none') fields.push([name, String(said)])
  if (way !== 'bare') fields.push([WAYS[way].gateway.peer, '203.0.113.9'])
  return fields
}

const targetOf = ({ path, query }: HttpCall): string => (query === undefined ? path : `${path}?${query}`)
const lengthField = (way: Way): string | undefined => (way === 'bare' ? undefined : WAYS[way].gateway.length)

/** Method and target of the call as the gateway wrote them down, by a plain reading. */
function askedAbout(message: HttpMessage, way: Way): { method: string; target: string } {
  const [method = '', target = ''] = message.start.split(' ')
  if (way !== 'forward') {
    hold(target.startsWith(`${CHECK}/`), 'an allow is asked for at /check', target)
    return { method, target: target.slice(CHECK.length) }
  }
  hold(target === CHECK || target === `${CHECK}?`, 'an allow is asked for at /check', target)
  const [methods, uris] = [valuesOf(message, 'x-original-method'), valuesOf(message, 'x-original-uri')]
  hold(methods.length === 1 && uris.length === 1, 'method and target were written once', [methods, uris])
  return { method: methods[0]!, target: uris[0]! }
}

/** That the whole body was shown, as far as anybody can tell. */
function holdWhole(message: HttpMessage, way: Way, method: string): void {
  const { body } = message
  const name = lengthField(way)
  const [text = ''] = name === undefined ? [] : valuesOf(message, name)
  const said = text === '' ? undefined : text
  hold(said === undefined ? body.length < CAP : Number(said) === body.length, 'the body is whole', [
    said,
    body.length,
  ])
  hold(
    said !== undefined || body.length > 0 || !['POST', 'PUT', 'PATCH'].includes(method),
    'no body was hidden',
    method,
  )
  const marks = valuesOf(message, 'x-envoy-auth-partial-body')
  hold(
    marks.every(mark => mark.toLowerCase() === 'false'),
    'no body was cut',
    marks,
  )
}

/** That nothing of a client's passes for ours. */
function holdIdentity(message: HttpMessage, { lines }: Reply): void {
  const removed = new Set(
    valuesOf({ lines }, 'x-envoy-auth-headers-to-remove').flatMap(value => value.split(',')),
  )
  const set = new Set(lines.map(([name]) => name))
  for (const [name] of message.lines) {
    if (!/^x[^a-z0-9]uma[^a-z0-9]/.test(name)) continue
    hold(removed.has(name) || set.has(name), 'a client’s own identity field goes no further', name)
  }
}

/** The target over the doors. */
export function httpChecks(door: HttpFuzzDoor): FuzzTarget<HttpInput> {
  const check = async (input: HttpInput): Promise<string> => {
    const { way, call, damage, cut, down } = input
    for (const grants of Object.values(door.grants)) grants.renew()
    door.grants.api.renew(API_APPROVED[input.approved])
    for (const grants of Object.values(door.grants)) grants.down = down
    const grants = call.path.startsWith('/api/') ? door.grants.api : door.grants.mcp
    const bytes = bytesOf(input, Object.entries(headersOf({ ...call, raw: true }, grants)))
    for (const [at, byte] of damage) bytes[at % bytes.length] = byte
    const sent = bytes.subarray(0, Math.max(0, bytes.length - cut))
    const { replies, allowed } = await door.ask(way, sent)
    const messages = readMessages(sent)
    hold(replies.length >= Math.min(1, messages.length), 'a whole request is answered', replies.length)
    const allows = replies.filter(({ status }) => status === 200)
    hold(allowed === allows.length, 'what was let through is what was told so', [allowed, allows.length])
    for (const [index, reply] of replies.entries()) {
      const askedAt = messages[index]?.start.split(' ')[1]
      hold(reply.status !== 304 || askedAt === '/health', 'only health is told by 304', askedAt)
      if (allows.includes(reply)) justified(messages[index], reply, input)
      hold(!down || reply.word !== 'insufficient_authorization', 'an outage is no challenge', reply.start)
    }
    const spent = [...door.grants.mcp.spent, ...door.grants.api.spent]
    hold(allows.length > 0 || spent.length === 0, 'a denied call spends nothing', spent)
    const [first] = replies
    if (first === undefined) return 'cut'
    return first.status === 200 ? 'allow' : String(first.status)
  }

  /** That an allow was due for what arrived. */
  function justified(message: HttpMessage | undefined, reply: Reply, { way, call }: HttpInput): void {
    hold(message !== undefined, 'an allow is for a well-formed request', reply.start)
    const { method, target } = askedAbout(message, way)
    holdWhole(message, way, method)
    holdIdentity(message, reply)
    const [path = '', query] = target.split('?', 2)
    const arrived = { method, body: message.body, credentials: valuesOf(message, 'authorization') }
    if (path.startsWith('/api/')) holdApiDue({ ...arrived, path, query }, door.grants.api)
    else {
      hold(path === '/mcp/alice', 'an allow is for a configured path', path)
      if (!holdDue(arrived, door.grants.mcp)) return
    }
    const { signing } = call
    hold(signing !== undefined && signing.byStranger !== true, 'the agent signed', signing)
    hold(signing.authority === undefined && signing.created === undefined, 'for here and now', signing)
    const signed = [signing.method ?? call.method, signing.path ?? call.path, signing.query ?? call.query]
    hold(signed.join(' ') === [method, path, query].join(' '), 'just this method and target', [
      signed,
      method,
      target,
    ])
  }

  return {
    name: 'http-check',
    inputs,
    check,
    shares: { allow: 0.03, '400': 0.05, '401': 0.02, '403': 0.01, '404': 0.01, '424': 0.005, '503': 0.005 },
  }
}
