/**
 * Owns the gRPC server of ext_authz and health. contract, "Resource server enforcement point" and "Health". A proxy treats a gRPC
 * error as it is configured to, which may be to let the call pass, so a check is answered with a denial even where the
 * gRPC library itself would end it with an error.
 */
import {
  experimental,
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
import { requireUsable, type Certificates } from '../../../http/certificates.ts'
import { removeStaleSocket } from '../../../http/unix-socket.ts'
import { Refusal } from '../../../wire/refusal.ts'
import type { CheckDoor } from '../check-door.ts'
import { CHECK_PATH, HEALTH_SERVICE } from './check-messages.ts'
import { answerCheck, denyUnjudged } from './ext-authz.ts'
import { healthHandlers } from './grpc-health.ts'
import type { Health } from '../../telemetry/health.ts'

export interface CheckServerOptions extends CheckDoor {
  /** `127.0.0.1:9191`, `[::1]:9191` or `unix:/run/check.sock`; port 0 takes a free one. */
  address: string
  /** When given, a client must show a certificate that `ca` signed. What is renewed serves connections made from then on. */
  tls?: Certificates<MutualTls> | undefined
  health: Health
  /** How long a proxy may keep one connection, so that replicas share the load; 300 s by default. */
  connectionAgeSeconds?: number | undefined
}

/** PEM: what the server shows, and whom it lets in. */
export interface MutualTls {
  cert: Buffer
  key: Buffer
  ca: Buffer
}

export interface CheckServer {
  /** The address listened on, with the port that was given. */
  address: string
  /** Health says not serving; checks are still answered. To be called some seconds before `stop`. */
  drain: () => void
  /** Drains, takes no new call, and ends once the open ones are answered, or after `graceMs` (5,000) without them. */
  stop: (graceMs?: number) => Promise<void>
}

/** Header fields and the rest of a CheckRequest, beside the body. Beyond that the answer is a denial, too. */
const ENVELOPE_BYTES_MAX = 1_048_576
const CONNECTION_AGE_SECONDS = 300
const CONNECTION_AGE_GRACE_MS = 30_000
const CONNECTION_IDLE_MS = 600_000
const KEEPALIVE_MS = 60_000
const KEEPALIVE_TIMEOUT_MS = 20_000
const CONCURRENT_STREAMS_MAX = 1_000
const STOP_GRACE_MS = 5_000

const asIs = (bytes: Buffer): Buffer => bytes

/** Bytes in and out, so that what does not decode is answered by us and not by the gRPC library. */
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

/** Starts listening for checks and health probes. Rejects when the address cannot be bound or the certificates cannot be used. */
export async function startCheckServer(options: CheckServerOptions): Promise<CheckServer> {
  const server = new Server(serverOptions(options))
  const { handlers, endWatches } = healthHandlers(options.health)
  server.addService(AUTHORIZATION_SERVICE_OF_BYTES, { Check: checkHandler(options) })
  server.addService(HEALTH_SERVICE, handlers)
  const address = await bind(server, options)
  return {
    address,
    drain: () => options.health.drain(),
    stop: async (graceMs = STOP_GRACE_MS) => {
      options.health.drain()
      endWatches()
      await shutDown(server, address, graceMs)
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
    'grpc.max_connection_idle_ms': CONNECTION_IDLE_MS,
    'grpc.enable_channelz': 0,
  }
}

function checkHandler(door: CheckDoor): handleUnaryCall<Buffer, Buffer> {
  const reply = async (
    call: ServerUnaryCall<Buffer, Buffer>,
    callback: sendUnaryData<Buffer>,
  ): Promise<void> => {
    const deadlineAt = Number(call.getDeadline())
    const transport = {
      isCancelled: () => call.cancelled,
      ...(Number.isFinite(deadlineAt) ? { deadlineAt } : {}),
    }
    callback(null, await answerCheck(call.request, transport, door))
  }
  return (call, callback) => void reply(call, callback)
}

/**
 * The gRPC library itself ends a call with an error when a message is too long, cannot be decompressed, is missing, or is late.
 * On the check method such an end becomes a denied response, unless an answer is already under way.
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
        'Lower max_request_bytes in with_request_body of ext_authz to body_bytes_max here, or raise both.',
      )
    : new Refusal('temporarily_unavailable', 'The check did not arrive whole or in time: try again.')
}

async function bind(server: Server, { address, tls }: CheckServerOptions): Promise<string> {
  const credentials = tls ? mutualCredentials(tls) : ServerCredentials.createInsecure()
  if (address.startsWith('unix:')) await removeStaleSocket(address.slice('unix:'.length))
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, credentials, (error, given) => (error ? reject(error) : resolve(given)))
  })
  return address.startsWith('unix:') ? address : address.replace(/:\d+$/, `:${port}`)
}

/** Credentials that follow the certificates. The library wants them in two parts, and takes each new one at once. */
function mutualCredentials(certificates: Certificates<MutualTls>): ServerCredentials {
  requireUsable(certificates.current())
  const cas = new Set<(update: { caCertificate: Buffer }) => void>()
  const identities = new Set<(update: { certificate: Buffer; privateKey: Buffer }) => void>()
  const caUpdate = () => ({ caCertificate: certificates.current().ca })
  const identityUpdate = () => {
    const { cert, key } = certificates.current()
    return { certificate: cert, privateKey: key }
  }
  certificates.onReload(() => {
    for (const listener of cas) listener(caUpdate())
    for (const listener of identities) listener(identityUpdate())
  })
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener: listener => {
      cas.add(listener)
      process.nextTick(() => listener(caUpdate()))
    },
    addIdentityCertificateListener: listener => {
      identities.add(listener)
      process.nextTick(() => listener(identityUpdate()))
    },
    removeCaCertificateListener: listener => void cas.delete(listener),
    removeIdentityCertificateListener: listener => void identities.delete(listener),
  }
  return experimental.createCertificateProviderServerCredentials(provider, provider, true)
}

/**
 * `drain` says goodbye on every connection, and cuts those still open after the grace; `tryShutdown` waits for the last to end.
 * In this order: the library's forceShutdown cuts nothing while channelz is off, and sessions already closing are not cut either.
 */
async function shutDown(server: Server, address: string, graceMs: number): Promise<void> {
  server.drain(address, graceMs)
  await new Promise<void>(resolve => server.tryShutdown(() => resolve()))
}
