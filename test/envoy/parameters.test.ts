/**
 * Parameters approved are parameters executed: whatever bytes an agent sends with a single-use grant, through
 * a real Envoy, the tool executes exactly what was approved, or nothing. contract, "Authorized call", order
 * 4, and "Authentication" (a truncated body).
 */
import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { envoyConfig } from '../../src/dev/stack/envoy-config.ts'
import { startToolServer, type ToolServer } from '../../src/dev/stack/tool-server.ts'
import type { Call } from '../../src/enforcement/call.ts'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { Json } from '../../src/wire/json.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL } from '../enforcement/calls.ts'
import { envoy } from '../support/envoy.ts'
import { askProxy, checkCluster, startProxy, type Proxy } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { startedOnce } from '../support/started.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { until } from '../support/until.ts'

/** Of the sidecar and, but for one listener, of Envoy. */
const CAP = 4_096

/** How Envoy can show a body. Each lets failures pass, so that only a denial stops a call. */
const BODIES = {
  bytes: { max_request_bytes: CAP, allow_partial_message: true, pack_as_bytes: true },
  text: { max_request_bytes: CAP, allow_partial_message: true },
  'bytes, whole ones only': { max_request_bytes: CAP, pack_as_bytes: true },
  'text, whole ones only': { max_request_bytes: CAP },
  'bytes up to a lower cap': { max_request_bytes: CAP / 2, allow_partial_message: true, pack_as_bytes: true },
  'bytes up to a higher cap': {
    max_request_bytes: 4 * CAP,
    allow_partial_message: true,
    pack_as_bytes: true,
  },
  'bytes by HTTP': { max_request_bytes: CAP, allow_partial_message: true, pack_as_bytes: true },
}
type Shown = keyof typeof BODIES
/** All but the one whose cap is below the sidecar's, which docs/attaching.md warns of. */
const SHOWN = (Object.keys(BODIES) as Shown[]).filter(shown => shown !== 'bytes up to a lower cap')

interface Attempt {
  /** One part with its length announced, or several without. */
  body: string | Buffer | Buffer[]
  headers?: Record<string, string>
  /** What the owner was asked about, and said yes to. */
  approved: Json
  digest?: boolean
}

const call = (args: string, name = 'place_trade') =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`
const PLAIN = '{"symbol":"VTI","qty":2}'
const APPROVED: Json = { symbol: 'VTI', qty: 2 }
const padded = (length: number, text = call(PLAIN)): Buffer =>
  Buffer.concat([Buffer.from(text), Buffer.alloc(length - Buffer.byteLength(text), 0x20)])

describeWith(await envoy(), 'parameters approved are parameters executed', found => {
  const agent = newKey()
  const directory = temporaryFolder('parameters')
  const authority = startedOnce(startScriptedAuthority)
  let tool: ToolServer
  let sidecar: Sidecar
  let proxy: Proxy

  beforeAll(async () => {
    tool = await startToolServer(0)
    const listen = { check: '127.0.0.1:0', http: '127.0.0.1:0', check_http: '127.0.0.1:0' }
    const check_http = { length_header: 'x-usher-length', peer_header: 'x-usher-peer', outage_status: 424 }
    const settings = { body_bytes_max: CAP, listen, check_http }
    sidecar = await startTestSidecar({ directory, authority, settings })
    const check = Number(sidecar.checkAddress.split(':').at(-1))
    const httpCheck = Number(sidecar.httpCheckAddress!.split(':').at(-1))
    // A check that ends here would pass: this test is not about slow machines.
    const timeout = '30s'
    const asks = {
      grpc: { grpc_service: { envoy_grpc: { cluster_name: checkCluster(check) }, timeout } },
      http: await shippedHttpService(httpCheck, timeout),
    }
    const listeners = Object.entries(BODIES).map(([name, with_request_body]) => {
      const byHttp = name === 'bytes by HTTP'
      const authorization = {
        failure_mode_allow: true,
        ...asks[byHttp ? 'http' : 'grpc'],
        with_request_body,
        encode_raw_headers: name.startsWith('bytes'),
      }
      return [name, { authorization, context: { owner: 'alice' }, check: byHttp ? httpCheck : check, byHttp }]
    })
    proxy = await startProxy({
      envoy: found,
      directory,
      tool: tool.port,
      listeners: Object.fromEntries(listeners),
    })
  })
  afterAll(async () => {
    await proxy?.stop()
    await sidecar?.close()
    await tool?.stop()
  })
  beforeEach(() => authority.reset())

  const grantFor = (approved: Json): string =>
    authority.issue({
      owner: 'alice',
      resource: `${PUBLIC_URL}/mcp/alice`,
      key: agent,
      permissions: [{ resource_id: 'alice/trades', resource_scopes: ['trade'], exp: nowSeconds() + 600 }],
      operation: { tool: 'place_trade', params_s256: s256Json(approved) },
      consequence: 'irreversible',
    })
  const headersOf = (signed: Call) => ({
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
    ...Object.fromEntries([...signed.headers].map(([name, [value]]) => [name, value])),
  })

  /** Sends it with a fresh single-use grant, and tells what was answered, executed and spent. */
  async function attempt(shown: Shown, { body, headers = {}, approved, digest = false }: Attempt) {
    const [arrived, executed] = [tool.record.arrivals.length, tool.record.executions.length]
    const spent = authority.count('/consume')
    const token = grantFor(approved)
    const parts = Array.isArray(body) ? body : [Buffer.from(body)]
    const bytes = Buffer.concat(parts)
    const signed = callOf({
      token,
      signer: agent,
      digest,
      body: { state: 'complete', bytes, lossyText: false },
    })
    const answer = await askProxy(proxy.port(shown), {
      headers: { ...headersOf(signed), ...headers },
      body: Array.isArray(body) ? parts : bytes,
    })
    return {
      answer,
      arrivals: tool.record.arrivals.slice(arrived),
      executions: tool.record.executions.slice(executed),
      spent: authority.count('/consume') - spent,
      bytes,
    }
  }

  /** Sends the first part of a body, and the last one when `send` is called. */
  function sendInParts(shown: Shown, first: Buffer) {
    const signed = callOf({ token: grantFor(APPROVED), signer: agent })
    const outgoing = request({
      host: '127.0.0.1',
      port: proxy.port(shown),
      method: 'POST',
      path: '/mcp/alice',
      headers: headersOf(signed),
    })
    const answered = new Promise<void>((resolve, reject) => {
      outgoing.once('error', reject)
      outgoing.once('response', response => void response.resume().once('end', () => resolve()))
    })
    outgoing.write(first)
    return { answered, send: (last: Buffer) => void outgoing.end(last) }
  }

  /** Exactly what was approved was executed, once, from exactly the bytes that were sent. */
  async function executes(shown: Shown, given: Attempt): Promise<void> {
    const { answer, arrivals, executions, spent, bytes } = await attempt(shown, given)
    expect({ status: answer.status, body: answer.body }).toMatchObject({ status: 200 })
    expect(executions.map(({ tool: name }) => name)).toEqual(['place_trade'])
    expect(s256Json(executions[0]!.arguments as Json)).toBe(s256Json(given.approved))
    expect(arrivals.map(({ body }) => body)).toEqual([bytes.toString()])
    expect(spent).toBe(1)
  }

  /** Nothing reached the tool, and the grant is unspent. */
  async function refuses(shown: Shown, given: Attempt, status?: number): Promise<void> {
    const { answer, arrivals, executions, spent } = await attempt(shown, given)
    expect({ status: answer.status, arrivals, executions, spent }).toEqual({
      status: status ?? expect.toSatisfy((code: number) => [400, 401, 403, 413, 415].includes(code)),
      arrivals: [],
      executions: [],
      spent: 0,
    })
  }

  describe.each(SHOWN)('if Envoy shows %s', shown => {
    test.each<[string, string]>([
      ['as they are', PLAIN],
      ['in another order, with blanks', '{ "qty" : 2.0 ,\n\t"symbol":"VTI" }'],
      ['with escapes', '{"\\u0073ymbol":"\\u0056TI","qty":2e0}'],
      ['with a name in another case beside its own', '{"symbol":"VTI","qty":2,"QTY":9}'],
    ])('parameters %s are executed', async (_title, args) => {
      await executes(shown, { body: call(args), approved: JSON.parse(args) as Json })
    })

    test('text beyond ASCII is executed as it is', async () => {
      const args = { symbol: 'VTI', qty: 2, note: 'na\u00efve \u{1F600} e\u0301 \u2028 \\/' }
      await executes(shown, { body: call(JSON.stringify(args)), approved: args })
      await executes(shown, { body: call(JSON.stringify(args)), approved: args, digest: true })
    })

    test('an exclamation mark is executed if nothing can have been lost', async () => {
      const args = { symbol: 'VTI', qty: 2, note: 'now!' }
      const given = { body: call(JSON.stringify(args)), approved: args }
      await executes(shown, { ...given, digest: true })
      if (shown.startsWith('bytes')) await executes(shown, given)
      else await refuses(shown, given, 400)
    })

    test('a body of exactly the cap is executed if its length is announced', async () => {
      await executes(shown, { body: padded(CAP), approved: APPROVED })
      await executes(shown, { body: [padded(CAP - 1)], approved: APPROVED })
    })

    /** For each reading that a server may have, the owner said yes to that one. */
    const TWO_READINGS: [string, string, Json[]][] = [
      ['a member twice', call('{"symbol":"VTI","qty":2,"qty":9}'), [APPROVED, { symbol: 'VTI', qty: 9 }]],
      [
        'arguments twice',
        call(PLAIN).replace('"arguments"', '"arguments":{"symbol":"VTI","qty":9},"arguments"'),
        [APPROVED, { symbol: 'VTI', qty: 9 }],
      ],
      [
        'arguments in two spellings',
        call(PLAIN).replace('"arguments"', '"Arguments":{"symbol":"VTI","qty":9},"arguments"'),
        [APPROVED, { symbol: 'VTI', qty: 9 }],
      ],
      [
        'params in two spellings',
        call(PLAIN).replace('"params"', '"PARAMS":{"name":"place_trade","arguments":{"qty":9}},"params"'),
        [APPROVED, { qty: 9 }],
      ],
      [
        'a name twice, once escaped',
        call('{"symbol":"VTI","qty":9,"q\\u0074y":2}'),
        [APPROVED, { symbol: 'VTI', qty: 9 }],
      ],
      [
        'a second document',
        `${call(PLAIN)}${call('{"symbol":"VTI","qty":9}')}`,
        [APPROVED, { symbol: 'VTI', qty: 9 }],
      ],
      [
        'a second document on a line of its own',
        `${call(PLAIN)}\n${call('{"qty":9}')}`,
        [APPROVED, { qty: 9 }],
      ],
      [
        'a batch',
        `[${call(PLAIN)},${call('{"symbol":"VTI","qty":9}')}]`,
        [APPROVED, { symbol: 'VTI', qty: 9 }],
      ],
      ['a batch of one', `[${call(PLAIN)}]`, [APPROVED]],
      ['a byte order mark', `\u{FEFF}${call(PLAIN)}`, [APPROVED]],
      ['a comment', `${call(PLAIN)}//`, [APPROVED]],
      ['a NUL at its end', `${call(PLAIN)}\0`, [APPROVED]],
      [
        'a number that a double changes',
        call('{"symbol":"VTI","qty":9007199254740993}'),
        [{ symbol: 'VTI', qty: 9007199254740992 }],
      ],
      ['a number beyond a double', call('{"symbol":"VTI","qty":1e400}'), [{ symbol: 'VTI', qty: 0 }]],
      ['a number below a double', call('{"symbol":"VTI","qty":1e-400}'), [{ symbol: 'VTI', qty: 0 }]],
      [
        'too many digits',
        call('{"symbol":"VTI","qty":0.1000000000000000055511151231257827}'),
        [{ symbol: 'VTI', qty: 0.1 }],
      ],
      ['half a surrogate pair', call('{"symbol":"\\ud800","qty":2}'), [{ symbol: '\u{FFFD}', qty: 2 }]],
      [
        '__proto__ as a second parameters object',
        call('{"symbol":"VTI","qty":2,"__proto__":{"qty":9}}'),
        [APPROVED],
      ],
      ['another tool', call(PLAIN, 'portfolio_read'), [APPROVED]],
      ['other parameters', call('{"symbol":"VTI","qty":3}'), [APPROVED]],
      ['no parameters', call(PLAIN).replace(/,"arguments".*$/, '}}'), [APPROVED]],
      ['arguments of null', call('null'), [{}, APPROVED]],
      ['arguments as a list', call(`[${PLAIN}]`), [APPROVED]],
      ['arguments as text', call(JSON.stringify(PLAIN)), [APPROVED]],
      [
        'nesting too deep',
        call(`{"symbol":"VTI","qty":2,"d":${'['.repeat(70)}${']'.repeat(70)}}`),
        [APPROVED],
      ],
    ]
    test.each(TWO_READINGS)(
      '%s is refused, whichever reading was approved',
      async (_title, body, readings) => {
        for (const approved of readings) {
          await refuses(shown, { body, approved })
          await refuses(shown, { body, approved, digest: true })
        }
      },
    )

    const json = Buffer.from(call(PLAIN))
    const OTHER_ENCODINGS: [string, Buffer, Record<string, string>, Json][] = [
      ['UTF-16', Buffer.from(call(PLAIN), 'utf16le'), {}, APPROVED],
      [
        'UTF-16 that says so',
        Buffer.from(call(PLAIN), 'utf16le'),
        { 'content-type': 'application/json; charset=utf-16le' },
        APPROVED,
      ],
      ['UTF-8 that says it is UTF-7', json, { 'content-type': 'application/json; charset=utf-7' }, APPROVED],
      ['another media type', json, { 'content-type': 'text/plain' }, APPROVED],
      ['gzip', gzipSync(json), { 'content-encoding': 'gzip' }, APPROVED],
      ['gzip that does not say so', gzipSync(json), {}, APPROVED],
      ['JSON that says it is gzip', json, { 'content-encoding': 'gzip' }, APPROVED],
      ['JSON that says it is deflate', json, { 'content-encoding': 'identity, deflate' }, APPROVED],
      [
        'a byte that is no UTF-8, approved as Envoy writes it',
        Buffer.from(call('{"symbol":"V\u00ff","qty":2}'), 'latin1'),
        {},
        { symbol: 'V!', qty: 2 },
      ],
      [
        'a byte that is no UTF-8, approved as others write it',
        Buffer.from(call('{"symbol":"V\u00ff","qty":2}'), 'latin1'),
        {},
        { symbol: 'V\u{FFFD}', qty: 2 },
      ],
      [
        'an overlong quote',
        Buffer.from(call('{"symbol":"VTI\u00c0\u00a2","qty":2}'), 'latin1'),
        {},
        { symbol: 'VTI"', qty: 2 },
      ],
    ]
    test.each(OTHER_ENCODINGS)('%s is refused', async (_title, body, headers, approved) => {
      await refuses(shown, { body, headers, approved })
    })

    const more = Buffer.from(call('{"symbol":"VTI","qty":9}'))
    const TOO_LONG: [string, Buffer | Buffer[]][] = [
      ['one byte above the cap', padded(CAP + 1)],
      ['above the cap, of no announced length', [padded(CAP), Buffer.from(' ')]],
      ['a whole call up to the cap, and another after it', [padded(CAP), more]],
      ['the same, announced', Buffer.concat([padded(CAP), more])],
      ['exactly the cap, of no announced length', [padded(CAP)]],
    ]
    test.each(TOO_LONG)('a body of %s is refused', async (_title, body) => {
      await refuses(shown, { body, approved: APPROVED }, 413)
    })
  })

  test('with a lower cap at Envoy than here the end of a body can reach the tool unseen: so they must be equal', async () => {
    const before = tool.record.arrivals.length
    const [seen, unseen] = [padded(CAP / 2), Buffer.from(call('{"symbol":"VTI","qty":9}'))]
    const { answered, send } = sendInParts('bytes up to a lower cap', seen)
    // Envoy's buffer is full, and it says that the body is whole.
    await until(() => authority.count('/consume') === 1)
    send(unseen)
    await answered
    expect(tool.record.arrivals.slice(before).map(({ body }) => body.length)).toEqual([
      seen.length + unseen.length,
    ])
  })
})

/** What envoy/envoy-http.yaml shows of a call, and how, for the check listener at this port. */
async function shippedHttpService(port: number, timeout: string): Promise<Record<string, unknown>> {
  const text = await envoyConfig({ envoy: 1, checks: [port], documents: [1], tool: 1 }, undefined, {
    byHttp: true,
  })
  const found = (node: unknown): Record<string, unknown> | undefined => {
    if (typeof node !== 'object' || node === null) return undefined
    return 'http_service' in node ? node : Object.values(node).map(found).find(Boolean)
  }
  const { http_service, allowed_headers } = found(parse(text))!
  const uri = `http://127.0.0.1:${port}`
  const server_uri = { uri, cluster: checkCluster(port), timeout }
  return { http_service: { ...(http_service as object), server_uri }, allowed_headers }
}
