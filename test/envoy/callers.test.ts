/**
 * The manifests of Istio and Envoy Gateway, run: what these two make of them, as far as the filter is
 * concerned, in a real Envoy in front of a real sidecar; and the sidecar on a Unix socket. contract,
 * "Resource server enforcement point" and "Authorized call".
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { startToolServer, type ToolServer } from '../../src/dev/stack/tool-server.ts'
import type { Sidecar } from '../../src/enforcement/main.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { callOf, newKey, nowSeconds, PUBLIC_URL, toolCallBody, type CallParts } from '../enforcement/calls.ts'
import { envoy } from '../support/envoy.ts'
import { ISTIO_PROVIDERS } from '../support/istio-providers.ts'
import { askProxy, checkCluster, startProxy, type Proxy } from '../support/proxy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScriptedAuthority } from '../support/scripted-authority.ts'
import { startTestSidecar } from '../support/sidecar.ts'
import { startedOnce } from '../support/started.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const manifest = (file: string): unknown =>
  parse(readFileSync(join(import.meta.dirname, '..', '..', 'envoy', file), 'utf8'))

/**
 * The filter that Istio makes of a provider over gRPC: it has no raw headers, no context, and no deny list of
 * headers.
 */
function istioFilter(cluster: string): Record<string, unknown> {
  const { extensionProviders } = ISTIO_PROVIDERS.parse(manifest('istio/mesh-config.yaml'))
  const provider = extensionProviders[0]!.envoyExtAuthzGrpc!
  const { timeout, failOpen, statusOnError, clearRouteCache, includeRequestBodyInCheck: body } = provider
  return {
    grpc_service: { envoy_grpc: { cluster_name: cluster }, timeout },
    failure_mode_allow: failOpen,
    status_on_error: { code: Number(statusOnError) },
    clear_route_cache: clearRouteCache,
    with_request_body: {
      max_request_bytes: body.maxRequestBytes,
      allow_partial_message: body.allowPartialMessage,
      pack_as_bytes: body.packAsBytes,
    },
  }
}

interface ExtAuth {
  timeout: string
  failOpen: boolean
  statusOnError: number
  recomputeRoute: boolean
  bodyToExtAuth: { maxRequestBytes: number }
  contextExtensions: { name: string; value: string }[]
}

const extAuth = () =>
  (manifest('envoy-gateway/security-policy.yaml') as { spec: { extAuth: ExtAuth } }).spec.extAuth

/**
 * The filter that Envoy Gateway makes of a SecurityPolicy over gRPC: text bodies, whole ones only, joined
 * header fields.
 */
function gatewayFilter(cluster: string): Record<string, unknown> {
  const { timeout, failOpen, statusOnError, recomputeRoute, bodyToExtAuth } = extAuth()
  return {
    grpc_service: { envoy_grpc: { cluster_name: cluster }, timeout },
    failure_mode_allow: failOpen,
    status_on_error: { code: statusOnError },
    clear_route_cache: recomputeRoute,
    with_request_body: { max_request_bytes: bodyToExtAuth.maxRequestBytes },
  }
}

describeWith(await envoy(), 'the manifests, run', found => {
  const agent = newKey()
  const directory = temporaryFolder('callers')
  const authority = startedOnce(startScriptedAuthority)
  let tool: ToolServer
  let sidecar: Sidecar
  let onSocket: Sidecar
  let proxy: Proxy

  beforeAll(async () => {
    tool = await startToolServer(0)
    sidecar = await startTestSidecar({ directory, authority })
    const socket = join(directory, 'check.sock')
    const listen = { check: `unix:${socket}`, http: '127.0.0.1:0' }
    onSocket = await startTestSidecar({ directory, authority, settings: { listen } })
    const check = Number(sidecar.checkAddress.split(':').at(-1))
    const context = Object.fromEntries(extAuth().contextExtensions.map(({ name, value }) => [name, value]))
    proxy = await startProxy({
      envoy: found,
      directory,
      tool: tool.port,
      listeners: {
        istio: { authorization: istioFilter(checkCluster(check)), check },
        'envoy-gateway': { authorization: gatewayFilter(checkCluster(check)), context, check },
        'a Unix socket': { authorization: istioFilter(checkCluster(socket)), check: socket },
      },
    })
  })
  afterAll(async () => {
    await proxy?.stop()
    await sidecar?.close()
    await onSocket?.close()
    await tool?.stop()
  })
  beforeEach(() => authority.reset())

  const issue = (id: string, scope: string, params?: object): string =>
    authority.issue({
      owner: 'alice',
      resource: `${PUBLIC_URL}/mcp/alice`,
      key: agent,
      permissions: [{ resource_id: `alice/${id}`, resource_scopes: [scope], exp: nowSeconds() + 600 }],
      ...(params && { operation: { tool: 'place_trade', params_s256: s256Json(params as never) } }),
    })

  describe.each(['istio', 'envoy-gateway', 'a Unix socket'])('%s', caller => {
    const send = (parts: CallParts, body?: string) => {
      const signed = callOf(parts)
      const bytes = signed.body.state === 'complete' ? signed.body.bytes : Buffer.alloc(0)
      return askProxy(proxy.port(caller), {
        path: parts.path ?? '/mcp/alice',
        headers: {
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2025-11-25',
          ...Object.fromEntries([...signed.headers].map(([name, [value]]) => [name, value])),
        },
        body: body === undefined ? bytes : Buffer.from(body),
      })
    }

    test('a call without a grant is challenged, with all that an agent needs to go on', async () => {
      const { status, headers, body } = await send({})
      expect(status).toBe(401)
      expect(headers['www-authenticate']).toMatch(/^UMA realm="tools", .*ticket="/)
      expect(JSON.parse(body)).toMatchObject({ error: 'insufficient_authorization' })
    })

    test('a granted call reaches the tool, which is told by whom, and not of the credential', async () => {
      const headers = { 'x-uma-owner': ['mallory'], 'x-uma-admin': ['1'] }
      const { status } = await send({ token: issue('portfolio', 'read'), signer: agent, headers })
      expect(status).toBe(200)
      const arrival = tool.record.arrivals.at(-1)!
      expect(arrival.headers).toMatchObject({ 'x-uma-owner': 'alice', 'x-uma-tool': 'portfolio_read' })
      for (const name of ['authorization', 'signature', 'x-uma-admin'])
        expect(arrival.headers).not.toHaveProperty(name)
    })

    test('a single-use grant works once, and for its own parameters', async () => {
      const args = { symbol: 'VTI', qty: 2 }
      const token = issue('trades', 'trade', args)
      const call = { tool: 'place_trade', token, signer: agent }
      expect((await send({ ...call, args: { ...args, qty: 3 } })).status).toBe(403)
      expect((await send({ ...call, args })).status).toBe(200)
      expect((await send({ ...call, args })).status).toBe(401)
      expect(tool.record.executions.at(-1)).toEqual({ tool: 'place_trade', arguments: args })
    })

    test('a path of nobody is 404, and nothing above the cap is judged', async () => {
      expect((await send({ path: '/mcp/bea' })).status).toBe(404)
      const arrivals = tool.record.arrivals.length
      const tooLong = toolCallBody('portfolio_read', { filler: 'x'.repeat(1_100_000) })
      const call = { token: issue('portfolio', 'read'), signer: agent }
      expect((await send(call, tooLong)).status).toBe(413)
      expect(tool.record.arrivals.length).toBe(arrivals)
    })

    test('an authority that is away is 503', async () => {
      authority.script('/introspect', 'cut')
      const { status, body } = await send({ token: issue('portfolio', 'read'), signer: agent })
      expect(status).toBe(503)
      expect(JSON.parse(body)).toMatchObject({ error: 'temporarily_unavailable' })
    })
  })
})
