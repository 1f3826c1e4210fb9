/**
 * Owns the checks that the load generator sends: what Envoy would make of an agent's signed tools/call, in
 * the official messages. Signatures are good for a minute, so a corpus is made right before its round.
 */
import { randomUUID } from 'node:crypto'
import { rpcHeaders, rpcRequest, toolCallParams, type ToolCall } from '../../src/agent/transports/mcp.ts'
import { contentDigest } from '../../src/wire/encoding.ts'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'
import { codec, official } from '../../test/support/envoy-protos.ts'
import type { World } from '../world.ts'

const REQUEST = codec(official, 'envoy.service.auth.v3.CheckRequest')
const MCP_VERSION = '2026-07-28'
const COMPONENTS = ['@method', '@authority', '@path', 'authorization', 'content-digest']

/** One authorized call. */
export interface AuthorizedCall {
  call: ToolCall
  key: PrivateKey
  rpt: string
}

/** The bytes of the CheckRequest for a call signed now. */
export function checkOf(world: World, call: AuthorizedCall): Buffer {
  const { host, protocol } = new URL(world.publicUrl)
  const scheme = protocol === 'http:' ? 'http' : 'https'
  return REQUEST.serialize(checkRequest(world, { host, scheme, ...signedCall(world, call) }))
}

/** A call as an agent sends it, signed now. */
export function signedCall(
  world: World,
  { call, key, rpt }: AuthorizedCall,
): { id: string; headers: Record<string, string>; body: Buffer } {
  const { host, protocol } = new URL(world.publicUrl)
  const scheme = protocol === 'http:' ? 'http' : 'https'
  const id = randomUUID()
  const body = Buffer.from(JSON.stringify(rpcRequest(id, 'tools/call', toolCallParams(call), MCP_VERSION)))
  const headers: Record<string, string> = {
    ...rpcHeaders(MCP_VERSION, 'tools/call', call.tool),
    'content-length': String(body.length),
    'user-agent': 'node',
    authorization: `PoP ${rpt}`,
    'content-digest': contentDigest(body),
  }
  const message = {
    method: 'POST',
    scheme,
    authority: host,
    path: world.path,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    body,
  } as const
  const created = Math.floor(Date.now() / 1000)
  Object.assign(
    headers,
    signRequest(message, key, { components: COMPONENTS, created, keyid: key.thumbprint }),
  )
  return { id, headers, body }
}

interface Received {
  host: string
  scheme: string
  id: string
  headers: Record<string, string>
  body: Buffer
}

/** As Envoy fills it with `encode_raw_headers` and `pack_as_bytes`, as our configuration for it says. */
function checkRequest(world: World, { host, scheme, id, headers, body }: Received): Record<string, unknown> {
  const seen = {
    ':authority': host,
    ':path': world.path,
    ':method': 'POST',
    ':scheme': scheme,
    ...headers,
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': scheme,
    'x-envoy-internal': 'true',
    'x-request-id': id,
    'x-envoy-auth-partial-body': 'false',
  }
  const address = (port: number) => ({
    address: { socket_address: { address: '127.0.0.1', port_value: port } },
  })
  return {
    attributes: {
      source: address(40_000),
      destination: address(10_000),
      request: {
        http: {
          id,
          method: 'POST',
          header_map: {
            headers: Object.entries(seen).map(([key, value]) => ({ key, raw_value: Buffer.from(value) })),
          },
          path: world.path,
          host,
          scheme,
          protocol: 'HTTP/1.1',
          size: body.length,
          raw_body: body,
        },
      },
      context_extensions: { owner: world.owner },
    },
  }
}
