/**
 * Owns the official protobuf definitions that tests hold ours against: those that `@grpc/grpc-js-xds`
 * carries. A proxy in a test speaks them, never ours.
 */
import { loadSync, type MessageTypeDefinition, type PackageDefinition } from '@grpc/proto-loader'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

const DEPENDENCIES = join(
  dirname(createRequire(import.meta.url).resolve('@grpc/grpc-js-xds/package.json')),
  'deps',
)

const LOADING = { keepCase: true, longs: Number, defaults: false } as const

/** envoy.service.auth.v3 and all it needs, as published. */
export const official: PackageDefinition = loadSync('envoy/service/auth/v3/external_auth.proto', {
  ...LOADING,
  includeDirs: ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map(name =>
    join(DEPENDENCIES, name),
  ),
})

/** Our own definitions, loaded as the product does. */
export const ours: PackageDefinition = loadSync(
  ['envoy/service/auth/v3/external_auth.proto', 'grpc/health/v1/health.proto'],
  { ...LOADING, includeDirs: [join(import.meta.dirname, '..', '..', 'proto')] },
)

export type AnyMessage = Record<string, unknown>

/** The codec of one message of a package. */
export function codec(
  definitions: PackageDefinition,
  name: string,
): MessageTypeDefinition<AnyMessage, AnyMessage> {
  const found = definitions[name]
  if (found === undefined || !('serialize' in found)) throw new Error(`no message ${name}`)
  return found as MessageTypeDefinition<AnyMessage, AnyMessage>
}
