/**
 * Owns the bare check servers that the sidecar is compared with: grpc-js with our messages and nothing else
 * (`noop`), or with one verification by RFC 9421 of the request that the check carries (`verify`). Run as
 * `node bench/bare-check.ts noop|verify PORT KEYS`.
 */
import { Server, ServerCredentials, type handleUnaryCall, type ServiceDefinition } from '@grpc/grpc-js'
import { readFileSync } from 'node:fs'
import type { CheckRequest, CheckResponse } from '../src/enforcement/doors/grpc/check-messages.ts'
import { useLibsodium } from '../src/native/libsodium.ts'
import { verifyRequest } from '../src/wire/signatures/http-signature.ts'
import { importPublicJwk } from '../src/wire/signatures/keys.ts'
import { ours } from '../test/support/envoy-protos.ts'

/** The public URL that signatures are made for, and the public keys of those who sign. */
export interface BareCheckKeys {
  publicUrl: string
  keys: unknown[]
}

const ALLOW: Partial<CheckResponse> = {
  status: { code: 0 },
  ok_response: { headers: [], headers_to_remove: [] },
}
const DENY: Partial<CheckResponse> = {
  status: { code: 16 },
  denied_response: { status: { code: 401 }, headers: [], body: '' },
}
const COMPONENTS = ['@method', '@authority', '@path', 'authorization']

type Check = handleUnaryCall<CheckRequest, Partial<CheckResponse>>

const noop: Check = (_call, callback) => callback(null, ALLOW)

function verifying({ publicUrl, keys }: BareCheckKeys): Check {
  const { protocol, host } = new URL(publicUrl)
  const scheme = protocol === 'http:' ? 'http' : 'https'
  const byThumbprint = new Map(keys.map(jwk => importPublicJwk(jwk)).map(key => [key.thumbprint, key]))
  return (call, callback) => {
    const http = call.request.attributes?.request?.http
    const headers = new Map(
      (http?.header_map?.headers ?? []).map(({ key, raw_value }) => [key!, [String(raw_value)]]),
    )
    try {
      verifyRequest(
        {
          method: http?.method ?? '',
          scheme,
          authority: host,
          path: http?.path ?? '',
          headers,
          body: http?.raw_body,
        },
        {
          requiredComponents: COMPONENTS,
          now: Math.floor(Date.now() / 1000),
          findKey: keyid => byThumbprint.get(keyid ?? ''),
          keyidRequired: true,
        },
      )
    } catch {
      return callback(null, DENY)
    }
    callback(null, ALLOW)
  }
}

const [mode, port, keysFile = ''] = process.argv.slice(2)
const check =
  mode === 'verify' ? verifying(JSON.parse(readFileSync(keysFile, 'utf8')) as BareCheckKeys) : noop
// As the sidecar does, which is measured against it.
useLibsodium()
const server = new Server()
server.addService(ours['envoy.service.auth.v3.Authorization'] as ServiceDefinition, { Check: check })
server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), error => {
  if (error) throw error
})
process.once('SIGTERM', () => process.exit(0))
