/**
 * Owns the start and the end of `usher sidecar`. contract, "Resource server enforcement point" and "Health": joins the configuration to
 * the core, its doors and its documents.
 */
import { readSidecarConfig, type SidecarConfig, type SidecarOwner } from '../config.ts'
import { createJwksCache } from '../http/jwks-cache.ts'
import { formatListenAddress } from '../http/listen-address.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { createOutbound, type Outbound } from '../http/outbound.ts'
import { listen } from '../http/server.ts'
import { signatureBase } from '../http/signed-request.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { createAccessReports, type AccessReports } from './access-reports.ts'
import { createAuthorityClient } from './authority-client.ts'
import { createAuthorityGuard } from './authority-guard.ts'
import { createChallengeLimit } from './challenge-limit.ts'
import { createCheck } from './check.ts'
import { startCheckServer } from './check-server.ts'
import { createHealth } from './grpc-health.ts'
import { createDocumentServer } from './http.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { startRegistration, type Registration, type RegistrationOptions } from './registration.ts'
import { routeTable, type Route, type RouteTable } from './routes.ts'

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

const REPORTS_CLOSE_MS = 5_000
const CONNECTIONS = { challenges: 16, grants: 64 }

/** Starts the enforcement point; when this resolves, it answers. */
export async function startSidecar(config: SidecarConfig, options: SidecarOptions = {}): Promise<Sidecar> {
  const logger = options.logger ?? createLogger({ name: 'usher-sidecar', level: config.logLevel })
  const clock = options.clock ?? Date.now
  if (config.devLoopback) {
    logger.warn(
      'UMA_DEV_LOOPBACK is on: http and loopback are admitted. Never run like this where others can reach it.',
    )
  }
  const pools = outboundPools(config)
  const metrics = createMetrics()
  const health = createHealth()
  const routes = routeTable(config.owners.map(owner => routeOf(owner, config, { pools, clock })))
  const reports = createReports({ metrics, logger, clock })
  const checkServer = await startCheckServer({
    address: formatListenAddress(config.listen.check),
    tls: config.checkTls,
    health,
    bodyBytesMax: config.body_bytes_max,
    deadlineMarginMs: config.deadline_margin_ms,
    decide: checkOf(config, { routes, reports, metrics, logger, clock }),
    report: fault => logger.error({ err: fault }, 'a check could not be read or written'),
    onUnjudged: ({ status, metadata: { reason = 'unknown' } }) => {
      logger.info({ decision: 'deny', reason, status, step: 'read' }, 'decided')
      metrics.decided({ outcome: 'deny', reason, step: 'read', ms: 0 })
    },
  })
  const documents = createDocumentServer({
    logger,
    routes: routes.routes,
    publicUrl: config.public_url,
    keys: signingKeys(config.keys),
    guard: createAuthorityGuard({
      jwks: createJwksCache({ outbound: pools.challenges, clock }),
      signatureBase: signatureBase(config.public_url),
      clock,
    }),
    metrics,
    healthy: health.serving,
    ...(config.httpTls === undefined ? {} : { tls: config.httpTls }),
  })
  const httpAddress = await listen(documents, config.listen.http)
  const registrations = startRegistrations(config, { outbound: pools.challenges, logger, clock })
  health.onChange(() => metrics.serving(health.serving()))
  health.set(true)
  logger.info({ check: checkServer.address, http: httpAddress, owners: config.owners.length }, 'serving')
  return {
    checkAddress: checkServer.address,
    httpAddress,
    drain: () => checkServer.drain(),
    close: async () => {
      for (const registration of registrations) registration.stop()
      await checkServer.stop()
      await documents.close()
      await reports.close(REPORTS_CLOSE_MS)
      await Promise.all([pools.challenges.close(), pools.grants.close()])
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

interface Pools {
  challenges: Outbound
  grants: Outbound
}

interface Surroundings {
  metrics: Metrics
  logger: Logger
  clock: () => number
}

function outboundPools(config: SidecarConfig): Pools {
  const common = {
    devLoopback: config.devLoopback,
    ...(config.authorityCa === undefined ? {} : { ca: config.authorityCa }),
  }
  return {
    challenges: createOutbound({ ...common, connections: CONNECTIONS.challenges }),
    grants: createOutbound({ ...common, connections: CONNECTIONS.grants }),
  }
}

function routeOf(
  { owner, path, authority, client_id, credential, tools }: SidecarOwner,
  config: SidecarConfig,
  { pools, clock }: { pools: Pools; clock: () => number },
): Route {
  const resource = config.public_url + path
  const proof =
    credential.kind === 'secret'
      ? credential
      : { kind: 'signature' as const, key: signingKeys(config.keys)[0] }
  return {
    owner,
    path,
    resource,
    authority,
    client: createAuthorityClient({ authority, owner, resource, client_id, credential: proof, pools, clock }),
    tools: new Map(tools.map(tool => [tool.tool, tool])),
    mcp: {
      openMethods: new Set(config.open_methods),
      allowedOrigins: new Set([config.public_url, ...config.allowed_origins]),
    },
    signatureBase: signatureBase(config.public_url),
  }
}

/** After the documents are served: the authority fetches them to see who asks. */
function startRegistrations(
  config: SidecarConfig,
  around: Pick<RegistrationOptions, 'outbound' | 'logger' | 'clock'>,
): Registration[] {
  const [key] = signingKeys(config.keys)
  return config.owners.flatMap(({ owner, authority, path, register }) => {
    if (register === undefined) return []
    const resource = config.public_url + path
    return [startRegistration({ ...around, authority, owner, resource, name: register.name, key })]
  })
}

function checkOf(
  config: SidecarConfig,
  around: Surroundings & { routes: RouteTable; reports: AccessReports },
) {
  const { metrics, clock } = around
  return createCheck({
    ...around,
    realm: config.realm,
    specNs: config.specNs,
    limit: createChallengeLimit({ perMinute: config.challenges_per_minute, clock }),
    trustedHops: config.trusted_hops,
    keepCredentials: config.keep_credentials,
    requireContentDigest: config.require_content_digest,
    reportArguments: config.report_arguments,
    deadlineMs: config.deadline_ms,
    deadlineMarginMs: config.deadline_margin_ms,
    onDecision: (outcome, { step, startedAt }) =>
      metrics.decided({
        outcome: outcome.kind,
        reason: outcome.metadata.reason ?? 'unknown',
        step,
        ms: clock() - startedAt,
      }),
  })
}

function createReports({ metrics, logger, clock }: Surroundings): AccessReports {
  return createAccessReports({
    clock,
    onDropped: (count, why) => {
      metrics.reportsDropped(count)
      logger.error({ count, why }, 'allowed calls could not be reported')
    },
  })
}

function signingKeys(keys: readonly PrivateKey[]): readonly [PrivateKey, ...PrivateKey[]] {
  const [first, ...rest] = keys
  if (first === undefined) throw new Error('a sidecar needs a signing key')
  return [first, ...rest]
}
