/**
 * Owns the gRPC health protocol of the check server. It must be truthful, because proxies eject and drain by
 * it. Contract: "Health".
 */
import {
  status as rpcStatus,
  type sendUnaryData,
  type ServerUnaryCall,
  type ServerWritableStream,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { AUTHORIZATION_SERVICE, type HealthCheckRequest, type HealthCheckResponse } from './check-messages.ts'
import type { Health } from '../../telemetry/health.ts'

const SERVING = 1
const NOT_SERVING = 2
const SERVICE_UNKNOWN = 3
const KNOWN_SERVICES: ReadonlySet<string> = new Set(['', AUTHORIZATION_SERVICE])

type Watcher = ServerWritableStream<HealthCheckRequest, HealthCheckResponse>

/**
 * The handlers of grpc.health.v1.Health, and the function that ends open watches; a server with open watches
 * never finishes stopping.
 */
export function healthHandlers(health: Health): {
  handlers: UntypedServiceImplementation
  endWatches: () => void
} {
  const watchers = new Set<Watcher>()
  const statusNow = (): number => (health.serving() ? SERVING : NOT_SERVING)
  const check = (
    call: ServerUnaryCall<HealthCheckRequest, HealthCheckResponse>,
    callback: sendUnaryData<HealthCheckResponse>,
  ): void => {
    if (KNOWN_SERVICES.has(call.request.service ?? '')) callback(null, { status: statusNow() })
    else callback({ code: rpcStatus.NOT_FOUND, details: 'unknown service' })
  }
  const watch = (call: Watcher): void => {
    if (!KNOWN_SERVICES.has(call.request.service ?? '')) {
      call.write({ status: SERVICE_UNKNOWN })
      return
    }
    const tell = (): void => void call.write({ status: statusNow() })
    const stop = health.onChange(tell)
    watchers.add(call)
    call.on('cancelled', () => {
      stop()
      watchers.delete(call)
    })
    tell()
  }
  return {
    handlers: { Check: check, Watch: watch },
    endWatches: () => {
      for (const watcher of watchers) watcher.end()
      watchers.clear()
    },
  }
}
