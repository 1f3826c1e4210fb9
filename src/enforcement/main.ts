/**
 * Owns the start and the end of `usher sidecar`. contract, "Resource server enforcement point" and "Health": opens the doors of the
 * core to a gateway, and serves the documents.
 */
import { readSidecarConfig, type NamedCertificates, type SidecarConfig } from '../config.ts'
import { watchCertificates } from '../http/certificates.ts'
import { formatListenAddress } from '../http/listen-address.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { openTracing } from '../http/otlp.ts'
import { listen } from '../http/server.ts'
import { assembleCore } from './assembly.ts'
import { startCheckServer } from './check-server.ts'
import { createDocumentServer } from './http.ts'

export interface Sidecar {
  /** Where checks are answered, with the port that was really given. */
  checkAddress: string
  /** Where documents are served, likewise. */
  httpAddress: string
  /** Health says NOT_SERVING from now on; checks are still answered. */
  drain(): void
  /** Drains, lets open calls end, sends what access reports wait, and frees every socket. */
  close(): Promise<void>
}

export interface SidecarOptions {
  logger?: Logger
  /** Milliseconds since the epoch. */
  clock?: () => number
}

/** Starts the enforcement point; when this resolves, it answers. */
export async function startSidecar(config: SidecarConfig, options: SidecarOptions = {}): Promise<Sidecar> {
  const logger = options.logger ?? createLogger({ name: 'usher-sidecar', level: config.logLevel })
  const clock = options.clock ?? Date.now
  const tracing = config.traces === undefined ? undefined : await openTracing(config.traces)
  const core = assembleCore(config, { logger, clock, tracing })
  const { health, metrics } = core
  const watch = <K extends string>(named: NamedCertificates<K> | undefined, use: string) =>
    named && watchCertificates({ ...named, use, logger, observer: metrics.certificates })
  const checkTls = watch(config.checkTls, 'check')
  const httpTls = watch(config.httpTls, 'documents')
  const checkServer = await startCheckServer({
    address: formatListenAddress(config.listen.check),
    tls: checkTls,
    health,
    bodyBytesMax: config.body_bytes_max,
    deadlineMarginMs: config.deadline_margin_ms,
    decide: core.decide,
    onAnswered: ownMs => metrics.answered(ownMs),
    report: fault => logger.error({ err: fault }, 'a check could not be read or written'),
    onUnjudged: core.unjudged,
  })
  const documents = createDocumentServer({
    logger,
    routes: core.routes.routes,
    publicUrl: config.public_url,
    keys: core.keys,
    guard: core.guard,
    metrics,
    healthy: health.serving,
    tls: httpTls,
    tracing,
  })
  const httpAddress = await listen(documents, config.listen.http)
  core.register()
  health.set(true)
  logger.info({ check: checkServer.address, http: httpAddress, owners: config.owners.length }, 'serving')
  return {
    checkAddress: checkServer.address,
    httpAddress,
    drain: () => checkServer.drain(),
    close: async () => {
      await checkServer.stop()
      await documents.close()
      await core.close()
      checkTls?.stop()
      httpTls?.stop()
      await tracing?.close()
    },
  }
}

/** Runs until SIGTERM or SIGINT: says NOT_SERVING, goes on answering for `drain_ms`, then stops. */
export async function runSidecar(path?: string): Promise<void> {
  const config = readSidecarConfig(path)
  const sidecar = await startSidecar(config)
  let ending = false
  const end = () => {
    if (ending) return
    ending = true
    sidecar.drain()
    setTimeout(() => void sidecar.close().then(() => process.exit(0)), config.drain_ms)
  }
  process.on('SIGTERM', end)
  process.on('SIGINT', end)
}
