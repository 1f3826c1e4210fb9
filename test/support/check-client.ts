/** Owns a proxy's end of ext_authz in tests: it speaks the official definitions over a real gRPC channel. */
import {
  Client,
  credentials,
  type CallOptions,
  type ChannelCredentials,
  type ServiceError,
} from '@grpc/grpc-js'
import { codec, official, ours, type AnyMessage } from './envoy-protos.ts'

const REQUEST = codec(official, 'envoy.service.auth.v3.CheckRequest')
const RESPONSE = codec(official, 'envoy.service.auth.v3.CheckResponse')
const HEALTH_REQUEST = codec(ours, 'grpc.health.v1.HealthCheckRequest')
const HEALTH_RESPONSE = codec(ours, 'grpc.health.v1.HealthCheckResponse')

/** The `attributes.request.http` of a check, as Envoy fills it. */
export interface HttpFacts {
  method?: string
  path?: string
  headers?: Record<string, string>
  header_map?: { headers: { key?: string; value?: string; raw_value?: Buffer }[] }
  body?: string
  raw_body?: Buffer
  size?: number
  host?: string
  scheme?: string
  id?: string
}

/** A CheckRequest: a POST to `/mcp/alice` with a body, unless the facts say otherwise. */
export function checkBytes(http: HttpFacts = {}, attributes: AnyMessage = {}): Buffer {
  return REQUEST.serialize({
    attributes: { request: { http: { method: 'POST', path: '/mcp/alice', ...http } }, ...attributes },
  })
}

/** A CheckResponse as a proxy reads it. */
export interface Answer {
  status?: { code?: number; message?: string }
  denied_response?: { status?: { code?: number }; headers?: HeaderOption[]; body?: string }
  ok_response?: { headers?: HeaderOption[]; headers_to_remove?: string[] }
  dynamic_metadata?: { fields?: Record<string, { stringValue?: string }> }
}

export interface HeaderOption {
  header?: { key?: string; value?: string }
  append?: { value?: boolean }
  append_action?: number
}

export interface CheckClient {
  /** Rejects with the ServiceError of a gRPC error. */
  check: (bytes: Buffer, options?: CallOptions) => Promise<Answer>
  /** Starts a check that can be cancelled. */
  start: (bytes: Buffer) => { cancel: () => void; done: Promise<Answer> }
  health: (service: string) => Promise<number | undefined>
  /** Statuses of a watch as they come. */
  watch: (service: string) => { statuses: number[]; ended: Promise<void>; cancel: () => void }
  close: () => void
}

export function readAnswer(bytes: Buffer): Answer {
  return RESPONSE.deserialize(bytes)
}

/** The JSON body of a denial. */
export function deniedBody(answer: Answer): Record<string, unknown> {
  return JSON.parse(answer.denied_response?.body ?? 'null') as Record<string, unknown>
}

/** A denial as its caller sees it: the HTTP status and the body. Throws if the answer is no denial. */
export function denialIn(answer: Answer): Record<string, unknown> {
  const status = answer.denied_response?.status?.code
  if (!answer.status?.code || status === undefined || answer.ok_response) {
    throw new Error(`no denial: ${JSON.stringify(answer)}`)
  }
  return { status, ...deniedBody(answer) }
}

/** A proxy's channel to a check server. */
export function connect(
  address: string,
  channel: ChannelCredentials = credentials.createInsecure(),
): CheckClient {
  const client = new Client(address, channel, { 'grpc.max_send_message_length': -1 })
  const asIs = (bytes: Buffer): Buffer => bytes
  const unary = (path: string, bytes: Buffer, options: CallOptions) => {
    let cancel = (): void => {}
    const done = new Promise<Buffer>((resolve, reject) => {
      const call = client.makeUnaryRequest(
        path,
        asIs,
        asIs,
        bytes,
        options,
        (error: ServiceError | null, reply?: Buffer) => (error ? reject(error) : resolve(reply!)),
      )
      cancel = () => call.cancel()
    })
    return { cancel: () => cancel(), done }
  }
  const CHECK = '/envoy.service.auth.v3.Authorization/Check'
  return {
    check: async (bytes, options = {}) => readAnswer(await unary(CHECK, bytes, options).done),
    start: bytes => {
      const { cancel, done } = unary(CHECK, bytes, {})
      return { cancel, done: done.then(readAnswer) }
    },
    health: async service => {
      const reply = await unary('/grpc.health.v1.Health/Check', HEALTH_REQUEST.serialize({ service }), {})
        .done
      return HEALTH_RESPONSE.deserialize(reply)['status'] as number | undefined
    },
    watch: service => {
      const call = client.makeServerStreamRequest(
        '/grpc.health.v1.Health/Watch',
        HEALTH_REQUEST.serialize,
        HEALTH_RESPONSE.deserialize,
        { service },
      )
      const statuses: number[] = []
      call.on('data', (message: { status: number }) => statuses.push(message.status))
      call.on('error', () => {})
      const ended = new Promise<void>(resolve => call.on('close', () => resolve()).on('end', () => resolve()))
      return { statuses, ended, cancel: () => call.cancel() }
    },
    close: () => client.close(),
  }
}
