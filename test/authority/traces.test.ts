/**
 * One trace from the caller's `traceparent` through the sidecar to the authority, as a receiver of OTLP gets
 * it, and the metrics of both. contract, "Authorized call"; docs/operating.md.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { callOf, PUBLIC_URL, type CallParts } from '../enforcement/calls.ts'
import { CLIENT_ID, type TestAuthority } from '../support/authority.ts'
import { startEnforcedAuthority } from '../support/enforced-authority.ts'
import { checkBytes, connect, denialIn, type CheckClient } from '../support/check-client.ts'
import { receivedSpans } from '../support/received-spans.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { testAgent, type TestAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

const PARAMS = { symbol: 'VTI', qty: 2 }
const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'

let receiver: ScriptedServer
let authority: TestAuthority
let sidecar: Sidecar
let envoy: CheckClient
let agent: TestAgent
const folder = temporaryFolder('traces')

beforeAll(async () => {
  receiver = await startScriptedServer(() => ({ body: { partialSuccess: {} } }))
  const otel = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.origin, OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b' }
  authority = await startEnforcedAuthority(otel)
  writeFileSync(join(folder, 'keys.json'), JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const tools = [
    { tool: 'portfolio_read', resource_id: 'alice/portfolio', scopes: ['read'] },
    { tool: 'place_trade', resource_id: 'alice/trades', scopes: ['trade'] },
  ]
  const owner = {
    owner: 'alice',
    authority: authority.issuer,
    client_id: CLIENT_ID,
    client_secret: authority.alice.clientSecret,
    tools,
  }
  const settings = {
    public_url: PUBLIC_URL,
    listen: { check: '127.0.0.1:0', http: '127.0.0.1:0' },
    keys_file: join(folder, 'keys.json'),
    realm: 'tools',
    deadline_ms: 10_000,
    owners: [owner],
  }
  writeFileSync(join(folder, 'sidecar.yaml'), stringify(settings))
  const config = readSidecarConfig(join(folder, 'sidecar.yaml'), { UMA_DEV_LOOPBACK: 'true', ...otel })
  sidecar = await startSidecar(config, { logger: createLogger({ name: 'test', level: 'silent' }) })
  envoy = connect(sidecar.checkAddress)
  agent = testAgent(authority)
})
afterAll(async () => {
  envoy?.close()
  await sidecar?.close()
  await authority?.close()
  await receiver?.close()
})

const check = (parts: CallParts, headers: Record<string, string> = {}) => {
  const call = callOf(parts)
  const lines = [...call.headers].map(([name, values]) => [name, values[0]!] as const)
  return envoy.check(
    checkBytes({
      path: call.path,
      headers: { ...Object.fromEntries(lines), ...headers },
      raw_body: call.body.state === 'complete' ? call.body.bytes : Buffer.alloc(0),
    }),
  )
}

/** Every span received so far, of one trace. */
const spans = (traceId: string) => receivedSpans(receiver, traceId)

describe('A call that is traced', () => {
  let rpt: string

  test('is one trace, from whoever called through the sidecar and each of its steps to the authority', async () => {
    ;({ rpt } = await agent.granted('place_trade', { operation: { tool: 'place_trade', params: PARAMS } }))
    const traceparent = `00-${TRACE}-${CALLER}-01`
    const parts = { tool: 'place_trade', args: PARAMS, token: rpt, signer: agent.key }
    expect((await check(parts, { traceparent })).status).toEqual({ code: 0 })
    const wanted = ['check', 'introspect', 'consume', 'POST /introspect', 'POST /consume']
    const named = (name: string, service: string) =>
      spans(TRACE).find(span => span.name === name && span.service === service)
    await until(() => wanted.every(name => named(name, 'usher-sidecar')))
    await until(() => named('POST /consume', 'usher-authority') !== undefined)
    const whole = named('check', 'usher-sidecar')!
    expect(whole.parentSpanId).toBe(CALLER)
    expect(whole.attributes).toMatchObject({
      'usher.decision': 'allow',
      'usher.reason': 'granted',
      'usher.owner': 'alice',
      'usher.tool': 'place_trade',
      'usher.family': expect.stringMatching(/^fam_/),
    })
    for (const step of ['introspect', 'consume']) {
      const own = named(step, 'usher-sidecar')!
      const sent = named(`POST /${step}`, 'usher-sidecar')!
      const received = named(`POST /${step}`, 'usher-authority')!
      expect(own.parentSpanId).toBe(whole.spanId)
      expect(sent.parentSpanId).toBe(own.spanId)
      expect(received.parentSpanId).toBe(sent.spanId)
      expect(received.attributes).toMatchObject({
        'http.route': `/${step}`,
        'http.response.status_code': 200,
      })
    }
  })

  test('that is not sampled by its caller leaves no span', async () => {
    const unsampled = '1af7651916cd43dd8448eb211c80319c'
    expect(denialIn(await check({}, { traceparent: `00-${unsampled}-${CALLER}-00` }))).toMatchObject({
      status: 401,
    })
    const sampled = '2af7651916cd43dd8448eb211c80319c'
    await check({}, { traceparent: `00-${sampled}-${CALLER}-01` })
    await until(() => spans(sampled).some(({ name }) => name === 'check'))
    expect(spans(unsampled)).toEqual([])
  })

  test.each([
    'garbage',
    `00-${'0'.repeat(32)}-${CALLER}-01`,
    `ff-${TRACE}-${CALLER}-01`,
    `00-${TRACE}-${CALLER}`,
  ])('begins a trace of its own where the caller says %s', async traceparent => {
    const before = spans(TRACE).length
    expect(denialIn(await check({}, { traceparent }))).toMatchObject({ status: 401 })
    expect(spans(TRACE).length).toBe(before)
  })

  test('says no token, no ticket and no parameter to the receiver, who is shown the configured headers', () => {
    const sent = receiver.received.map(({ body }) => body.toString()).join('')
    expect(sent).toContain('usher.family')
    expect(sent).not.toContain(rpt)
    expect(sent).not.toMatch(/eyJ|~tkt_|VTI|Bearer|PoP /)
    expect(receiver.received.every(({ headers }) => headers['x-key'] === 'a b')).toBe(true)
  })
})

test('the authority’s own numbers are at a listener of their own, and say nothing of owners', async () => {
  const read = async (url: string) => (await fetch(`${url}/metrics`)).status
  expect(await read(authority.publicUrl)).toBe(404)
  expect(await read(authority.ownerUrl)).toBe(404)
  const text = await (await fetch(`${authority.metricsUrl}/metrics`)).text()
  expect(text).toMatch(
    /usher_http_request_seconds_count\{method="POST",route="\/introspect",status="200"\} [1-9]/,
  )
  expect(text).toMatch(/usher_database_connections\{pool="calls",state="used"\} \d/)
  expect(text).toMatch(/usher_build_info\{party="authority",version="[^"]+",node="v\d/)
  expect(text).toMatch(/process_resident_memory_bytes \d/)
  expect(text).not.toContain('alice')
})

test('an export that the collector refuses is counted, at the sidecar as here, and holds up no request', async () => {
  const failedAt = async (url: string) => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(/^usher_trace_exports_failed_total(?:\{.*\})? (\d+)$/m.exec(text)?.[1])
  }
  const processes = [authority.metricsUrl, `http://${sidecar.httpAddress}`]
  for (const url of processes) expect(await failedAt(url)).toBe(0)
  receiver.script('/v1/traces', { status: 400, body: {} })
  const sampled = '3af7651916cd43dd8448eb211c80319c'
  expect(denialIn(await check({}, { traceparent: `00-${sampled}-${CALLER}-01` }))).toMatchObject({
    status: 401,
  })
  expect((await authority.request('GET', '/jwks')).status).toBe(200)
  for (const url of processes) await until(async () => (await failedAt(url)) >= 1)
  receiver.script('/v1/traces', () => undefined)
})
