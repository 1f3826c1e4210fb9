/**
 * Owns the HTTP door: `/check` for gateways that ask by HTTP, and `/health`. Contract: "Resource server
 * enforcement point" (`/check{path}`) and "Health". What it cannot do that the gRPC door can:
 * docs/gateways.md.
 */
import type { ListenAddress } from '../../../http/servers/listen-address.ts'
import {
  startRawServer,
  type RawAnswer,
  type RawRequest,
  type RawServerOptions,
} from '../../../http/servers/raw-server.ts'
import { answerCall, deadlineOf, type CheckDoor } from '../check-door.ts'
import type { Health } from '../../telemetry/health.ts'
import { readHttpCheck, type GatewayHeaders } from './check-request.ts'
import { httpAnswers, type HttpAnswerOptions } from './check-response.ts'

export interface HttpCheckServerOptions extends CheckDoor, HttpAnswerOptions {
  address: ListenAddress
  /** If given, a client must show a certificate that `ca` signed. */
  tls?: RawServerOptions['tls']
  /** With `tls`: which of these clients may ask; all when left out. */
  clients?: RawServerOptions['clients']
  health: Health
  /** How the gateway describes the call that it asks about. */
  gateway: GatewayHeaders
  /** The time limit of one check, in milliseconds, because an HTTP caller names no deadline. */
  deadlineMs: number
  /** How long each part of a connection may take; the usual times when left out. */
  bounds?: RawServerOptions['bounds']
  /** How long a gateway may keep one connection; 300 s by default. */
  connectionAgeSeconds?: number | undefined
}

export interface HttpCheckServer {
  /** The address listened on, with the port that was given. */
  address: string
  /**
   * Takes no new connection, and ends when the open checks are answered, or after `graceMs` (5,000) without
   * them.
   */
  stop: (graceMs?: number) => Promise<void>
}

const STOP_GRACE_MS = 5_000

/**
 * Starts listening for checks. Rejects when the address cannot be bound or the certificates cannot be used.
 */
export async function startHttpCheckServer(options: HttpCheckServerOptions): Promise<HttpCheckServer> {
  const { health, bodyBytesMax } = options
  const writer = httpAnswers(options)
  const reading = {
    ...options,
    deadlineOf: (startAt: number) => deadlineOf(startAt + options.deadlineMs, options),
  }
  const handle = async (request: RawRequest): Promise<RawAnswer> => {
    if (request.target === '/health') return healthAnswer(health)
    return answerCall(() => readHttpCheck(request, reading), options, writer)
  }
  const { address, tls, clients, bounds, connectionAgeSeconds } = options
  const keepConnections = (): boolean => health.serving()
  const server = await startRawServer({
    address,
    tls,
    clients,
    bounds,
    connectionAgeSeconds,
    bodyBytesMax,
    clock: options.clock,
    handle,
    keepConnections,
  })
  return { address: server.address, stop: (graceMs = STOP_GRACE_MS) => server.stop(graceMs) }
}

/**
 * Never 2xx, because that is an allow: a gateway without the prefix would ask here about a client's own
 * `/health`. No other server answers 304 by accident; `GET /health` of the documents' listener answers 200.
 */
function healthAnswer(health: Health): RawAnswer {
  if (health.serving()) return { status: 304, headers: [['cache-control', 'no-store']], body: '' }
  return {
    status: 503,
    headers: [
      ['content-type', 'application/json'],
      ['cache-control', 'no-store'],
    ],
    body: JSON.stringify({ status: 'draining' }),
  }
}
