/**
 * Owns the gRPC server of ext_authz and health. Contract: "Resource server enforcement point" and "Health". A
 * proxy treats a gRPC error as it is configured to, which may be to let the call pass, so a check is answered
 * with a denial even if the gRPC library itself would end it with an error.
 */
import {
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  status as rpcStatus,
  type handleUnaryCall,
  type sendUnaryData,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServiceDefinition,
} from '@grpc/grpc-js'
import type { Socket } from 'node:net'
import type { Certificates } from '../../../http/servers/certificates.ts'
import type { ClientNames } from '../../../http/servers/client-names.ts'
import { startHttp2Listener, type MutualTls } from '../../../http/servers/http2-listener.ts'
import { parseListenAddress, type ListenAddress } from '../../../http/servers/listen-address.ts'
import { Refusal } from '../../../wire/refusal.ts'
import { deadlineOf, type CheckDoor } from '../check-door.ts'
import { CHECK_PATH, HEALTH_SERVICE } from './check-messages.ts'
import { answerCheck, denyUnjudged } from './ext-authz.ts'
import { healthHandlers } from './grpc-health.ts'
import type { Health } from '../../telemetry/health.ts'

export interface CheckServerOptions extends CheckDoor {
  /** `127.0.0.1:9191`, `[::1]:9191` or `unix:/run/check.sock`; port 0 takes a free port. */
  address: string
  /** If given, a client must show a certificate that `ca` signed. Renewed files apply to new connections. */
  tls?: Certificates<MutualTls> | undefined
  /** With `tls`: which of these clients may ask; all when left out. */
  clients?: ClientNames | undefined
  health: Health
  /** How long a proxy may keep one connection, so that replicas share the load; 300 s by default. */
  connectionAgeSeconds?: number | undefined
  /** How long a connection may carry no call before it gets a GOAWAY; 300 s by default. */
  connectionIdleSeconds?: number | undefined
  /** How many connections there may be at a time; 4,096 by default. */
  connectionsMax?: number | undefined
  /** How long a connection may take to begin to speak HTTP/2, in milliseconds; 10,000 by default. */
  prefaceMs?: number | undefined
}

export interface CheckServer {
  /** The address listened on, with the port that was given. */
  address: string
  /** Health says not serving, but checks are still answered. Call this some seconds before `stop`. */
  drain: () => void
  /**
   * Drains, takes no new call, and ends when the open calls are answered, or after `graceMs` (5,000) without
   * them.
   */
  stop: (graceMs?: number) => Promise<void>
}

/**
 * How many bytes the header fields and the rest of a CheckRequest may have, besides the body. A larger one is
 * denied, too.
 */
const ENVELOPE_BYTES_MAX = 1_048_576
const CONNECTION_AGE_SECONDS = 300
const CONNECTION_AGE_GRACE_MS = 30_000
const CONNECTION_IDLE_SECONDS = 300
const KEEPALIVE_MS = 60_000
const KEEPALIVE_TIMEOUT_MS = 20_000
const CONCURRENT_STREAMS_MAX = 1_000
const STOP_GRACE_MS = 5_000

const asIs = (bytes: Buffer): Buffer => bytes

/** Takes and returns bytes, so that we, and not the gRPC library, answer a message that does not decode. */
const AUTHORIZATION_SERVICE_OF_BYTES = {
  Check: {
    path: CHECK_PATH,
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  },
} satisfies ServiceDefinition

/**
 * Starts listening for checks and health probes. Rejects when the address cannot be bound or the certificates
 * cannot be used.
 */
export async function startCheckServer(options: CheckServerOptions): Promise<CheckServer> {
  const server = new Server(serverOptions(options))
  const { handlers, endWatches } = healthHandlers(options.health)
  server.addService(AUTHORIZATION_SERVICE_OF_BYTES, { Check: checkHandler(options) })
  server.addService(HEALTH_SERVICE, handlers)
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const connections = new Set<Socket>()
  const listener = await startHttp2Listener({
    address: listenAddress(options.address),
    tls: options.tls,
    clients: options.clients,
    prefaceMs: options.prefaceMs,
    connectionsMax: options.connectionsMax,
    onConnection: socket => {
      connections.add(socket)
      socket.once('close', () => connections.delete(socket))
      injector.injectConnection(socket)
    },
  })
  return {
    address: listener.address,
    drain: () => options.health.drain(),
    stop: async (graceMs = STOP_GRACE_MS) => {
      options.health.drain()
      endWatches()
      listener.close()
      injector.drain(graceMs)
      await ended(connections)
      await new Promise<void>(resolve => server.tryShutdown(() => resolve()))
    },
  }
}

function serverOptions(options: CheckServerOptions): ConstructorParameters<typeof Server>[0] {
  return {
    interceptors: [denyingInsteadOfErrors(options)],
    'grpc.max_receive_message_length': options.bodyBytesMax + ENVELOPE_BYTES_MAX,
    'grpc.max_concurrent_streams': CONCURRENT_STREAMS_MAX,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    'grpc.max_connection_age_ms': (options.connectionAgeSeconds ?? CONNECTION_AGE_SECONDS) * 1_000,
    'grpc.max_connection_age_grace_ms': CONNECTION_AGE_GRACE_MS,
    // Probes that leave their connections open would otherwise gather (grpc/grpc-node#2975).
    'grpc.max_connection_idle_ms': (options.connectionIdleSeconds ?? CONNECTION_IDLE_SECONDS) * 1_000,
    'grpc.enable_channelz': 0,
  }
}

function checkHandler(door: CheckDoor): handleUnaryCall<Buffer, Buffer> {
  const reply = async (
    call: ServerUnaryCall<Buffer, Buffer>,
    callback: sendUnaryData<Buffer>,
  ): Promise<void> => {
    const at = Number(call.getDeadline())
    const transport = {
      isCancelled: () => call.cancelled,
      ...(Number.isFinite(at) ? { deadline: deadlineOf(at, door) } : {}),
    }
    callback(null, await answerCheck(call.request, transport, door))
  }
  return (call, callback) => void reply(call, callback)
}

/**
 * The gRPC library itself ends a call with an error when a message is too long, cannot be decompressed, is
 * missing, or is late. On the check method, this becomes a denied response, unless an answer is already being
 * sent.
 */
function denyingInsteadOfErrors(door: CheckDoor): ServerInterceptor {
  return (method, call) => {
    if (method.path === CHECK_PATH) replaceErrors(call, door)
    return new ServerInterceptingCall(call)
  }
}

function replaceErrors(call: ServerInterceptingCallInterface, door: CheckDoor): void {
  const sendStatus = call.sendStatus.bind(call)
  const sendMessage = call.sendMessage.bind(call)
  let answered = false
  call.sendMessage = (message, callback) => {
    if (answered) return
    answered = true
    sendMessage(message, callback)
  }
  call.sendStatus = status => {
    if (status.code === rpcStatus.OK) sendStatus(status)
    else if (!answered) {
      const denied = denyUnjudged(refusalOfStatus(status.code), door)
      call.sendMessage(denied, () => sendStatus({ code: rpcStatus.OK, details: '' }))
    }
  }
}

function refusalOfStatus(code: rpcStatus | null | undefined): Refusal {
  return code === rpcStatus.RESOURCE_EXHAUSTED
    ? new Refusal(
        'request_body_too_large',
        'Lower max_request_bytes in with_request_body of ext_authz to body_bytes_max here, or raise both, and the per_connection_buffer_limit_bytes of the listener with them.',
      )
    : new Refusal('temporarily_unavailable', 'The check did not arrive whole or in time: try again.')
}

function listenAddress(text: string): ListenAddress {
  const address = parseListenAddress(text)
  if (address === undefined) throw new Error(`${text} is no address to listen on`)
  return address
}

/**
 * Waits until the calls that run are answered and their connections have ended. `drain` of the library says
 * goodbye on every connection and cuts those still open after the grace; its `tryShutdown` waits for none
 * that is already closing, and its `forceShutdown` cuts nothing while channelz is off.
 */
async function ended(connections: ReadonlySet<Socket>): Promise<void> {
  await Promise.all([...connections].map(socket => new Promise(resolve => socket.once('close', resolve))))
}
