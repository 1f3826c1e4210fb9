/**
 * Owns the start and the end of `usher sidecar`. Contract: "Resource server enforcement point" and "Health":
 * it opens the doors of the core to a gateway, and serves the documents.
 */
import { boundsWithIdle } from '../http/servers/connection-bounds.ts'
import { readSidecarConfig, type NamedCertificates, type SidecarConfig } from '../config.ts'
import { watchCertificates, type CertificateOptions } from '../http/servers/certificates.ts'
import type { ClientNames } from '../http/servers/client-names.ts'
import { formatListenAddress } from '../http/servers/listen-address.ts'
import { listenAs } from '../http/servers/listen-fault.ts'
import { createLogger, type Logger } from '../http/telemetry/log.ts'
import { openTracing } from '../http/telemetry/otlp.ts'
import { serveUntilSignalled, startServed, type ServedParty } from '../http/process.ts'
import { listen } from '../http/servers/server.ts'
import { createRateShares } from '../limits/rate-shares.ts'
import { useLibsodium } from '../native/libsodium.ts'
import { assembleCore } from './assembly.ts'
import { lookAtUpstreams } from './preflight/upstream-look.ts'
import { watchOwners } from './owners-file.ts'
import type { CheckDoor } from './doors/check-door.ts'
import { startCheckServer } from './doors/grpc/check-server.ts'
import { createDocumentServer } from './documents/server.ts'
import {
  startHttpCheckServer,
  type HttpCheckServer,
  type HttpCheckServerOptions,
} from './doors/http/check-server.ts'

/**
 * While it drains, health says NOT_SERVING and checks are still answered. Closing lets open calls end and
 * sends the waiting access reports.
 */
export interface Sidecar extends ServedParty {
  /** The address where checks are answered, with the port that was really given. */
  checkAddress: string
  /** The address where checks over HTTP are answered; undefined if there is none. */
  httpCheckAddress: string | undefined
  /** The address where documents are served. */
  httpAddress: string
}

export interface SidecarOptions {
  logger?: Logger
  /** Judges these bytes of the configuration file when it has changed. If left out, the file is read once. */
  reread?: ((bytes: Buffer) => SidecarConfig) | undefined
  /** How long between two checks of the file. */
  lookSeconds?: number | undefined
  /** Milliseconds since the epoch. */
  clock?: () => number
}

/**
 * Starts the enforcement point; when this resolves, it answers. Rejects, with nothing left running, if an
 * address cannot be bound.
 */
export async function startSidecar(config: SidecarConfig, options: SidecarOptions = {}): Promise<Sidecar> {
  const logger = options.logger ?? createLogger({ name: 'usher-sidecar', level: config.logLevel })
  const clock = options.clock ?? Date.now
  const verifiedBy = useLibsodium()
  return startServed(async ({ closers, drainers }) => {
    let failed = (): void => undefined
    const tracing = config.traces && (await openTracing(config.traces, () => failed()))
    closers.push(async () => tracing?.close())
    const core = assembleCore(config, { logger, clock, tracing })
    failed = () => core.metrics.traceExportFailed()
    closers.push(() => core.close())
    await core.checkSecrets()
    const { health, metrics } = core
    const watch = certificateWatch({ logger, observer: metrics.certificates, closers })
    const documents = createDocumentServer({
      logger,
      table: core.routes,
      publicUrl: config.public_url,
      keys: core.keys,
      guard: core.guard,
      metrics,
      healthy: health.serving,
      notReady: core.notReady,
      tls: watch(config.httpTls, 'documents', 'http_tls.cert_file'),
      tracing,
      bounds: boundsWithIdle(config.idle_seconds),
    })
    closers.push(() => documents.close())
    // The doors to a gateway close together, and first, because what they answer must still be reported.
    const doors: Pick<HttpCheckServer, 'stop'>[] = []
    closers.push(async () => void (await Promise.all(doors.map(door => door.stop()))))
    const door = {
      tls: watch(config.checkTls, 'check', 'check_tls.cert_file'),
      clients: clientsOf(config, logger, clock),
      health,
      bodyBytesMax: config.body_bytes_max,
      deadlineMarginMs: config.deadline_margin_ms,
      clock,
      decide: core.decide,
      onAnswered: ownMs => metrics.answered(ownMs),
      report: fault => logger.error({ err: fault }, 'a check could not be read or written'),
      onUnjudged: core.unjudged,
    } satisfies CheckDoor & { tls: unknown; clients: unknown; health: unknown }
    const { check, http } = config.listen
    const checkServer = await listenAs('listen.check', check, () =>
      startCheckServer({ ...door, address: formatListenAddress(check) }),
    )
    doors.push(checkServer)
    drainers.push(() => checkServer.drain())
    const httpCheckServer = await startHttpChecks(config, door)
    if (httpCheckServer !== undefined) doors.push(httpCheckServer)
    const httpAddress = await listenAs('listen.http', http, () => listen(documents, http))
    core.register()
    health.set(true)
    closers.push(lookAtServers(config, logger))
    const watched = watchOwners({ config, ...options, serve: owners => core.serve(owners), logger })
    closers.push(async () => watched?.stop())
    const { address: checkAddress } = checkServer
    const httpCheckAddress = httpCheckServer?.address
    const owners = new Set(config.owners.map(({ owner }) => owner)).size
    logger.info(
      { check: checkAddress, check_http: httpCheckAddress ?? null, http: httpAddress, owners, ...verifiedBy },
      'serving',
    )
    return { checkAddress, httpCheckAddress, httpAddress }
  })
}

/**
 * Watches the certificates of one listener until the sidecar ends. `setting` has the one that gateways are
 * shown: by which name they come, only they know.
 */
function certificateWatch({
  closers,
  ...parts
}: Pick<CertificateOptions, 'logger' | 'observer'> & { closers: (() => Promise<void>)[] }) {
  return <K extends string>(named: NamedCertificates<K> | undefined, use: string, setting: string) => {
    const watched = named && watchCertificates({ ...parts, ...named, use, shown: { setting } })
    closers.push(async () => watched?.stop())
    return watched
  }
}

/** Who may ask, by the names in a certificate; a stranger is told of at most once a minute. */
function clientsOf(
  { checkClientNames: allowed }: SidecarConfig,
  logger: Logger,
  clock: () => number,
): ClientNames | undefined {
  if (allowed === undefined) return undefined
  const lines = createRateShares({ perMinute: 1, sourcesMax: 1, clock })
  const onStranger = (names: readonly string[]): void => {
    if (lines.take('check') > 0) return
    logger.warn(
      { names: names.slice(0, 10) },
      'a certificate of client_ca_file has none of the client_names of check_tls, and may not ask: add the name if it is a gateway',
    )
  }
  return { allowed, onStranger }
}

/** Looks at the servers behind the gateway, beside everything else. @returns what gives up looking. */
function lookAtServers({ owners }: SidecarConfig, logger: Logger): () => Promise<void> {
  const looking = new AbortController()
  const onFault = (sentence: string): void => logger.warn(sentence)
  void lookAtUpstreams(owners, { onFault, signal: looking.signal })
  return async () => looking.abort()
}

/** The HTTP door, if it is configured. */
async function startHttpChecks(
  { listen: { check_http: address }, check_http, deadline_ms: deadlineMs, idle_seconds }: SidecarConfig,
  door: Omit<HttpCheckServerOptions, 'address' | 'gateway' | 'deadlineMs' | 'outageStatus'>,
): Promise<HttpCheckServer | undefined> {
  if (address === undefined) return undefined
  const asks: NonNullable<SidecarConfig['check_http']> = check_http ?? { outage_status: 424 }
  const { method_header: method, uri_header: uri } = asks
  return listenAs('listen.check_http', address, () =>
    startHttpCheckServer({
      ...door,
      address,
      deadlineMs,
      bounds: boundsWithIdle(idle_seconds),
      gateway: {
        original: method === undefined || uri === undefined ? undefined : { method, uri },
        length: asks.length_header,
        peer: asks.peer_header,
      },
      bodyHeader: asks.body_header,
      outageStatus: asks.outage_status,
    }),
  )
}

/**
 * `usher sidecar`: runs until SIGTERM, SIGINT or SIGHUP, drains, then ends in order; a second signal ends at
 * once.
 */
export async function runSidecar(path?: string): Promise<void> {
  const config = readSidecarConfig(path)
  const log = createLogger({ name: 'usher-sidecar', level: config.logLevel })
  const reread = (bytes: Buffer): SidecarConfig => readSidecarConfig(path, undefined, bytes)
  serveUntilSignalled(await startSidecar(config, { reread }), {
    name: 'usher sidecar',
    drainMs: config.drain_ms,
    log,
  })
}
