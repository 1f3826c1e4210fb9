/**
 * What a real Envoy makes of our answers, with `failure_mode_allow: true`: whatever would be an error would
 * let the call pass. contract, "Errors" and "Authentication" (a truncated body fails closed).
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { freePorts } from '../../src/dev/stack/ports.ts'
import type { Call, Outcome } from '../../src/enforcement/call.ts'
import { sourceOf } from '../../src/enforcement/challenge-limit.ts'
import { startCheckServer, type CheckServer } from '../../src/enforcement/doors/grpc/check-server.ts'
import { createHealth } from '../../src/enforcement/telemetry/health.ts'
import { ALLOW, BODY_BYTES_MAX } from '../support/check-door.ts'
import { envoys } from '../support/envoy.ts'
import { askProxy, startProxy, type Proxy, type ProxyQuestion } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'

/**
 * How the two listeners differ: bytes and lines as they are and our cap, or text, joined lines and a cap far
 * above ours.
 */
const LISTENERS = {
  untouched: { pack_as_bytes: true, encode_raw_headers: true, max_request_bytes: BODY_BYTES_MAX },
  rewritten: { pack_as_bytes: false, encode_raw_headers: false, max_request_bytes: 8_388_608 },
}
type Listener = keyof typeof LISTENERS

/** The filter of a listener. Whatever would be an error lets the call pass. */
function authorizationOf(name: Listener): Record<string, unknown> {
  const { max_request_bytes, pack_as_bytes, encode_raw_headers } = LISTENERS[name]
  return {
    failure_mode_allow: true,
    with_request_body: { max_request_bytes, pack_as_bytes, allow_partial_message: true },
    encode_raw_headers,
  }
}

for (const { title, envoy: required } of await envoys()) {
  describeWith(required, `ext_authz through a real ${title} that lets failures pass`, envoy => {
    let directory: string
    let check: CheckServer
    let proxy: Proxy
    let tool: Server
    let decide: (call: Call) => Promise<Outcome>
    let calls: Call[] = []
    /** What reached the tool: its header lines, flat. */
    let reached: string[][] = []

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'usher-envoy-'))
      check = await startCheckServer({
        address: '127.0.0.1:0',
        health: createHealth(),
        bodyBytesMax: BODY_BYTES_MAX,
        deadlineMarginMs: 2_000, // of Envoy's 3 s: a shared machine may stand still for some time
        decide: async call => {
          calls.push(call)
          return decide(call)
        },
      })
      tool = createServer((incoming, response) => {
        reached.push(incoming.rawHeaders)
        incoming.resume().on('end', () => response.end('served'))
      })
      await new Promise<void>(resolve => tool.listen(0, '127.0.0.1', resolve))
      const [nobody] = await freePorts(1)
      const listener = (name: Listener) => ({
        authorization: authorizationOf(name),
        context: { owner: 'alice' },
        check: portOf(check.address),
      })
      proxy = await startProxy({
        envoy,
        directory,
        tool: (tool.address() as AddressInfo).port,
        listeners: {
          untouched: listener('untouched'),
          rewritten: listener('rewritten'),
          'at the edge': { ...listener('untouched'), isEdge: true },
          'nobody to ask, closed': {
            authorization: { failure_mode_allow: false, status_on_error: { code: 'ServiceUnavailable' } },
            check: nobody,
          },
          'nobody to ask, open': { authorization: { failure_mode_allow: true }, check: nobody },
        },
      })
    })

    beforeEach(() => {
      decide = async () => ALLOW
      calls = []
      reached = []
    })

    afterAll(async () => {
      await proxy.stop()
      tool.close()
      tool.closeAllConnections()
      await check.stop(100)
      await rm(directory, { recursive: true })
    })

    const ask = (listener: Listener, question?: ProxyQuestion) => askProxy(proxy.port(listener), question)

    describe.each(Object.keys(LISTENERS) as Listener[])('%s', listener => {
      test('an allow reaches the tool with our identity headers alone, and without the credential', async () => {
        decide = async () => ({
          ...ALLOW,
          headers: { 'x-uma-owner': 'alice', 'x-uma-tool': '' },
          remove: ['authorization'],
        })
        const forged = {
          'x-uma-owner': ['m', 'n'],
          x_uma_owner: 'm',
          'x-uma_tool': 'm',
          'X-Uma-Tool': 'm',
          'x-uma-admin': 'm',
        }
        expect(await ask(listener, { headers: { ...forged, authorization: 'PoP a' } })).toMatchObject({
          status: 200,
          body: 'served',
        })
        const lines = reached[0]!
        const named = lines.flatMap((name, at) =>
          at % 2 === 0 && /uma|authorization/i.test(name) ? [[name, lines[at + 1]]] : [],
        )
        expect(named).toEqual([['x-uma-owner', 'alice']])
      })

      test('the call has the route facts, the peer and the deadline of the proxy', async () => {
        const before = Date.now()
        await ask(listener, { path: '/mcp/alice?a=%20', headers: { 'x-request-id': 'r1' } })
        expect(calls[0]).toMatchObject({
          method: 'POST',
          path: '/mcp/alice',
          query: 'a=%20',
          context: { owner: 'alice' },
          peer: '127.0.0.1',
        })
        expect(calls[0]!.deadline!.at).toBeGreaterThan(before)
        expect(calls[0]!.body).toEqual({ state: 'complete', bytes: Buffer.from('{}'), lossyText: false })
      })

      test('two credentials are refused however the proxy shows them', async () => {
        expect((await ask(listener, { headers: { Authorization: ['PoP a', 'PoP b'] } })).status).toBe(400)
        expect(calls).toEqual([])
      })

      test.each<[string, () => Promise<Outcome>]>([
        ['a fault of ours', async () => Promise.reject(new Error('down'))],
        ['an answer that never comes', () => new Promise<Outcome>(() => {})],
        [
          'an answer that no proxy could carry',
          async () => ({ ...ALLOW, headers: { 'x-uma-owner': 'a\nb' } }),
        ],
      ])('%s is 503 at the caller, and the tool is not reached', async (_title, broken) => {
        decide = broken
        const reply = await ask(listener)
        expect(reply.status).toBe(503)
        expect(JSON.parse(reply.body)).toMatchObject({ error: 'temporarily_unavailable' })
        expect(reached).toEqual([])
      })

      test('a denial reaches the caller with its status, its challenge and its body', async () => {
        decide = async () => ({
          kind: 'deny',
          status: 401,
          headers: [['WWW-Authenticate', 'UMA realm="x"']],
          body: { error: 'a' },
          metadata: {},
        })
        const reply = await ask(listener)
        expect(reply).toMatchObject({ status: 401, body: '{"error":"a"}' })
        expect(reply.headers).toMatchObject({
          'www-authenticate': 'UMA realm="x"',
          'content-type': 'application/json',
        })
      })

      test('a denial that is a JSON-RPC answer of status 200 reaches the caller, and never the tool', async () => {
        decide = async () => ({
          kind: 'deny',
          status: 403,
          headers: [],
          body: { error: 'unknown_method', error_description: 'No such method.' },
          metadata: {},
          rpc: { id: 7, status: 200 },
        })
        const reply = await ask(listener)
        expect(reply.status).toBe(200)
        expect(JSON.parse(reply.body)).toMatchObject({ jsonrpc: '2.0', id: 7, error: { code: -32601 } })
        expect(reached).toEqual([])
      })

      test.each<[string, ProxyQuestion]>([
        ['longer than the cap', { body: Buffer.alloc(BODY_BYTES_MAX + 1, 0x20) }],
        [
          'longer than the cap, of no announced length',
          { body: [Buffer.alloc(BODY_BYTES_MAX, 0x20), Buffer.alloc(9, 0x20)] },
        ],
        ['filling the cap, of no announced length', { body: [Buffer.alloc(BODY_BYTES_MAX, 0x20)] }],
      ])('a body %s is never taken for whole', async (_title, question) => {
        await ask(listener, question)
        expect(calls.map(call => call.body.state)).toEqual(['truncated'])
      })

      test('a body of exactly the cap with its length announced is whole', async () => {
        await ask(listener, { body: Buffer.alloc(BODY_BYTES_MAX, 0x20) })
        expect(calls.map(call => call.body.state)).toEqual(['complete'])
      })
    })

    test('a body too long for our gRPC messages is 413, if an error would have let it pass', async () => {
      const reply = await ask('rewritten', { body: Buffer.alloc(5_000_000, 0x20) })
      expect(reply.status).toBe(413)
      expect(JSON.parse(reply.body)).toMatchObject({ error: 'request_body_too_large' })
      expect(reached).toEqual([])
    })

    test('bytes that are no UTF-8 come as they are with pack_as_bytes, and marked as possibly lost without', async () => {
      const body = Buffer.of(0x22, 0xff, 0x22)
      await ask('untouched', { body })
      await ask('rewritten', { body })
      expect(calls.map(call => call.body)).toEqual([
        { state: 'complete', bytes: body, lossyText: false },
        { state: 'complete', bytes: Buffer.from('"!"'), lossyText: true },
      ])
    })

    // envoy/envoy.yaml is set up so. Envoy adds the address of whoever called it to the field before it asks.
    test('the source of a call is what the outermost of trusted_hops proxies saw, and without hops the peer', async () => {
      const headers = { 'x-forwarded-for': 'evil, 203.0.113.2, 203.0.113.3' }
      expect(await askProxy(proxy.port('at the edge'), { headers, peer: '192.0.2.1' })).toMatchObject({
        status: 200,
      })
      const [call] = calls
      expect([0, 1, 2, 3].map(hops => sourceOf(call!, hops))).toEqual([
        '192.0.2.1',
        '203.0.113.3',
        '203.0.113.2',
        '192.0.2.1',
      ])
    })

    describe('with no sidecar to ask', () => {
      test('an Envoy that is closed on failures answers the status it is told to', async () => {
        const { status, headers } = await askProxy(proxy.port('nobody to ask, closed'))
        expect(status).toBe(503)
        expect(headers).not.toHaveProperty('www-authenticate')
        expect(reached).toEqual([])
      })

      test('an Envoy that is open on failures lets the call pass unjudged: so it must be closed', async () => {
        const forged = { 'x-uma-owner': 'mallory', authorization: 'PoP a' }
        expect(await askProxy(proxy.port('nobody to ask, open'), { headers: forged })).toMatchObject({
          status: 200,
          body: 'served',
        })
        expect(calls).toEqual([])
        expect(reached[0]!.join(' ').toLowerCase()).toContain('x-uma-owner mallory')
      })
    })
  })
}

function portOf(address: string): number {
  return Number(address.split(':').at(-1))
}
