/**
 * Owns the shapes of the ext_authz and health messages and how they are read: the definitions in `proto/`,
 * loaded once. Contract: "Resource server enforcement point"; the payload is Envoy's `envoy.service.auth.v3`.
 */
import { loadSync, type MessageTypeDefinition, type ServiceDefinition } from '@grpc/proto-loader'
import { PROTO_DIRECTORY } from '../../proto-directory.ts'

/**
 * A message as it comes off the wire: nothing is filled in, so every member may be missing. Names are the
 * protocol's.
 */
export interface CheckRequest {
  attributes?: {
    source?: { address?: { socket_address?: { address?: string }; pipe?: { path?: string } } }
    request?: { http?: HttpRequest }
    context_extensions?: Record<string, string>
  }
}

export interface HttpRequest {
  method?: string
  headers?: Record<string, string>
  path?: string
  size?: number
  body?: string
  raw_body?: Buffer
  header_map?: { headers?: { key?: string; value?: string; raw_value?: Buffer }[] }
}

/** `status` is required here: a missing one is code 0, and code 0 allows. */
export interface CheckResponse {
  status: { code: number; message?: string }
  denied_response?: { status: { code: number }; headers: HeaderValueOption[]; body: string }
  ok_response?: { headers: HeaderValueOption[]; headers_to_remove: string[] }
  dynamic_metadata?: { fields: Record<string, { stringValue: string }> }
}

export interface HeaderValueOption {
  header: { key: string; value: string }
  append: { value: boolean }
  append_action: number
}

export interface HealthCheckRequest {
  service?: string
}

export interface HealthCheckResponse {
  status: number
}

const definitions = loadSync(
  ['envoy/service/auth/v3/external_auth.proto', 'grpc/health/v1/health.proto'],
  // `enums` is left out: numbers.
  { includeDirs: [PROTO_DIRECTORY], keepCase: true, longs: Number, defaults: false },
)

const requestType = definitions['envoy.service.auth.v3.CheckRequest'] as MessageTypeDefinition<
  CheckRequest,
  CheckRequest
>
const responseType = definitions['envoy.service.auth.v3.CheckResponse'] as MessageTypeDefinition<
  CheckResponse,
  Partial<CheckResponse>
>

/** The service definition of grpc.health.v1.Health. */
export const HEALTH_SERVICE = definitions['grpc.health.v1.Health'] as ServiceDefinition

/** The full name of the service, as health probes ask for it, and the path of its one method. */
export const AUTHORIZATION_SERVICE = 'envoy.service.auth.v3.Authorization'
export const CHECK_PATH = `/${AUTHORIZATION_SERVICE}/Check`

/** Reads a CheckRequest; fields that we do not define are skipped. Throws if the bytes are not one. */
export function decodeCheckRequest(bytes: Buffer): CheckRequest {
  return requestType.deserialize(bytes)
}

/**
 * Reads a CheckResponse back, for clients of a check server, such as the load generator of bench.
 * @internal
 */
export function decodeCheckResponse(bytes: Buffer): Partial<CheckResponse> {
  return responseType.deserialize(bytes)
}
