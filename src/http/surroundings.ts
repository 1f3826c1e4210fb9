/**
 * Owns what the listeners of one process have in common: certificates, traces, limits, the form of outages.
 * It knows no party. Contract: "Health" and "Errors".
 */
import { watchCertificates, type CertificateOptions } from './servers/certificates.ts'
import { boundsWithIdle } from './servers/connection-bounds.ts'
import { formatListenAddress, isLocalAddress, type ListenAddress } from './servers/listen-address.ts'
import type { Logger } from './telemetry/log.ts'
import { openTracing, type TraceExport } from './telemetry/otlp.ts'
import type { ServerMetrics } from './telemetry/server-metrics.ts'
import type { HttpServerOptions, ServerTls } from './servers/server.ts'

const BODY_BYTES_MAX = 256 * 1_024

export interface SurroundingsOptions {
  server: Pick<HttpServerOptions, 'logger' | 'healthy' | 'notReady' | 'onUndeclared' | 'refusalOf'>
  metrics: Pick<ServerMetrics, 'certificates' | 'answered' | 'addCounter'>
  /** Where the certificate is configured, and by which URL clients come. */
  shown: NonNullable<CertificateOptions['shown']>
  /** Everything that must end with the process is added here. */
  closers: (() => Promise<void>)[]
}

/** Undefined members are switched off. */
export interface SurroundingsConfig {
  tls: (Pick<CertificateOptions, 'files'> & { initial: ServerTls }) | undefined
  traces: TraceExport | undefined
  /** How long a connection may be idle between two requests. */
  idleSeconds: number
}

/** Opens them as configured. */
export async function openSurroundings(
  { tls, traces, idleSeconds }: SurroundingsConfig,
  { server, metrics, shown, closers }: SurroundingsOptions,
): Promise<HttpServerOptions> {
  const tracing = traces === undefined ? undefined : await openTracing(traces, countFailures(metrics))
  if (tracing !== undefined) closers.push(() => tracing.close())
  const { certificates: observer, answered } = metrics
  const certificates =
    tls && watchCertificates({ ...tls, use: 'listeners', shown, logger: server.logger, observer })
  closers.push(async () => certificates?.stop())
  const bounds = boundsWithIdle(idleSeconds)
  return { ...server, bounds, bodyBytesMax: BODY_BYTES_MAX, onAnswered: answered, tls: certificates, tracing }
}

function countFailures({ addCounter }: Pick<ServerMetrics, 'addCounter'>): () => void {
  const count = addCounter({
    name: 'usher_trace_exports_failed_total',
    help: 'Exports of traces that the collector did not accept; their spans are dropped.',
    labelNames: [],
  })
  return () => count({})
}

/**
 * Logs at the start what is not for production: admitted loopback addresses, and plain HTTP listeners that
 * others can reach.
 */
export function warnOfExposure(
  log: Logger,
  {
    devLoopback,
    tls,
    exposed,
    prefix,
  }: {
    devLoopback: boolean
    tls: object | undefined
    /** The addresses of the listeners that others may reach. */
    exposed: readonly ListenAddress[]
    /** Takes the names of the settings, one of which would name a certificate. */
    prefix: string
  },
): void {
  if (devLoopback)
    log.warn(
      'UMA_DEV_LOOPBACK IS ON: http and loopback addresses are admitted. Never run like this where others can reach it.',
    )
  if (tls !== undefined) return
  for (const address of exposed) {
    if (!isLocalAddress(address))
      log.warn(
        { address: formatListenAddress(address) },
        `this listener speaks plain HTTP to more than this machine: put TLS in front of it, or set ${prefix}_TLS_CERT_FILE`,
      )
  }
}
