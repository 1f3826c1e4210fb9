/**
 * Owns the joining of a configuration to the one core, the same behind every door and in both modes.
 * Contract: "What the service does" (`ENFORCEMENT_MODE=gateway|embedded`, one core) and "Resource server
 * enforcement point". Opens no door itself.
 */
import type { SidecarConfig, SidecarOrganization, SidecarOwner } from '../config.ts'
import { createJwksCache, type JwksCache } from '../http/jwks-cache.ts'
import type { Logger } from '../http/log.ts'
import { watchCertificates } from '../http/certificates.ts'
import type { Tracing } from '../http/tracing.ts'
import { signatureBase } from '../http/signed-request.ts'
import { isNamed } from '../rules/ceiling.ts'
import type { EnforcedMembership } from '../wire/enforced-membership.ts'
import type { Owner } from '../wire/identifiers.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { createAccessReports, type AccessReports } from './authorities/access-reports.ts'
import { apiReader } from './request/api.ts'
import { createAuthorityClient } from './authorities/authority-client.ts'
import { openAuthorityPools, type AuthorityPools } from './authorities/authority-pools.ts'
import { createAuthorityGuard, type AuthorityGuard } from './documents/authority-guard.ts'
import type { Call, Denied, Outcome } from './call.ts'
import type { RequestReader } from './request/call-request.ts'
import { createChallengeLimit } from './challenge-limit.ts'
import { createCheck } from './check.ts'
import { recordUnjudged } from './telemetry/decision-log.ts'
import { createHealth, type Health } from './telemetry/health.ts'
import type { Deadline } from './deadline.ts'
import type { RouteOrganization } from './organization/ceiling.ts'
import { createMembershipView } from './organization/membership-view.ts'
import { createOrganizationClient } from './organization/organization-client.ts'
import { readMcp } from './request/mcp.ts'
import { createMetrics, type Metrics } from './telemetry/metrics.ts'
import { startRegistration, type Registration, type RegistrationOptions } from './authorities/registration.ts'
import { routeTable, type Route, type RouteTable } from './request/routes.ts'

/** What of a sidecar's configuration the core needs, wherever it runs: nothing that says where to listen. */
export type CoreConfig = Omit<
  SidecarConfig,
  'listen' | 'checkTls' | 'httpTls' | 'network_trusted' | 'drain_ms' | 'logLevel' | 'traces'
>

export interface Surroundings {
  logger: Logger
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Left out, nothing is traced. */
  tracing?: Tracing | undefined
}

/** The core and what a door needs beside it. */
export interface Core {
  routes: RouteTable
  /** Judges one call: never throws, one log line each. */
  decide: (call: Call) => Promise<Outcome>
  /** Logs and counts a denial that `decide` had no part in, because a door could not read the call. */
  unjudged: (denied: Denied, call?: Call) => void
  metrics: Metrics
  health: Health
  /** The keys of the resource: the first signs, all are published. */
  keys: readonly [PrivateKey, ...PrivateKey[]]
  /** Who may ask for an owner's resources. */
  guard: AuthorityGuard
  /**
   * Registers with the authorities that are to be asked. To be called once the documents are served: they are
   * fetched then.
   */
  register(): void
  /**
   * Ends what goes on beside the calls, sends what access reports wait, and frees every socket. After the
   * doors are shut.
   */
  close(): Promise<void>
}

const REPORTS_CLOSE_MS = 5_000

/** Joins everything; asks nobody and serves nothing yet. Health begins as not serving. */
export function assembleCore(config: CoreConfig, surroundings: Surroundings): Core {
  const { logger, clock } = surroundings
  if (config.devLoopback) {
    logger.warn(
      'UMA_DEV_LOOPBACK is on: http and loopback are admitted. Never run like this where others can reach it.',
    )
  }
  const metrics = createMetrics()
  const pools = openPools(config, { ...surroundings, metrics })
  const health = createHealth()
  health.onChange(() => metrics.serving(health.serving()))
  const jwks = createJwksCache({ outbound: pools.challenges, clock })
  const routes = routeTable(
    config.owners.map(owner => routeOf(owner, config, { pools, jwks, clock, metrics })),
  )
  const reports = createReports(config, { routes, metrics, logger, clock })
  const decide = checkOf(config, { ...surroundings, routes, reports, metrics })
  metrics.observe({
    reports,
    pools: { challenges: () => pools.challenges.stats(), grants: () => pools.grants.stats() },
  })
  const registrations: Registration[] = []
  return {
    routes,
    decide,
    unjudged: (denied, call) => {
      recordUnjudged(logger, denied, call)
      metrics.decided({ outcome: 'deny', reason: denied.metadata.reason ?? 'unknown', step: 'read', ms: 0 })
    },
    metrics,
    health,
    keys: signingKeys(config.keys),
    guard: createAuthorityGuard({
      jwks,
      signatureBase: signatureBase(config.public_url),
      clock,
    }),
    register: () => {
      registrations.push(...startRegistrations(config, { outbound: pools.challenges, logger, clock }))
    },
    close: async () => {
      for (const registration of registrations) registration.stop()
      for (const { organization } of routes.routes) organization?.view.stop()
      await reports.close(REPORTS_CLOSE_MS)
      await pools.close()
    },
  }
}

function openPools(
  config: CoreConfig,
  { metrics, logger, tracing }: Surroundings & { metrics: Metrics },
): AuthorityPools {
  const { devLoopback, authorityCa, authorityAddresses } = config
  const ca =
    authorityCa &&
    watchCertificates({ ...authorityCa, use: 'authority_ca', logger, observer: metrics.certificates })
  const pools = openAuthorityPools({
    devLoopback,
    addresses: authorityAddresses,
    ca: ca && (() => ca.current().ca),
    observer: {
      failedOver: reason => metrics.replicas.failedOver(reason),
      changed: (address, up, why) => {
        metrics.replicas.changed(address, up, why)
        logger[up ? 'info' : 'warn']({ address, up, why }, 'an address of an authority')
      },
    },
    onCall: call => metrics.authorityCalled(call),
    tracing,
  })
  return {
    ...pools,
    close: async () => {
      ca?.stop()
      await pools.close()
    },
  }
}

function routeOf(
  { owner, path, authority, client_id, credential, organization, tools, api }: SidecarOwner,
  config: CoreConfig,
  {
    pools,
    jwks,
    clock,
    metrics,
  }: { pools: AuthorityPools; jwks: JwksCache; clock: () => number; metrics: Metrics },
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
    client: createAuthorityClient({
      authority,
      owner,
      resource,
      client_id,
      credential: proof,
      pools,
      keys: jwks,
      clock,
      onPat: outcome => metrics.patRenewed(outcome),
    }),
    organization: organization && openOrganization(organization, owner, { config, pools, jwks, clock }),
    tools: new Map(tools.map(tool => [tool.tool, tool])),
    readRequest: readerOf({ path, api }, config),
    api,
    signatureBase: signatureBase(config.public_url),
  }
}

/** Asks nobody until a call needs it. */
function openOrganization(
  { issuer, resources, credential }: SidecarOrganization,
  owner: Owner,
  around: { config: CoreConfig; pools: AuthorityPools; jwks: JwksCache; clock: () => number },
): RouteOrganization {
  const { config, pools, jwks, clock } = around
  const proof =
    credential.kind === 'secret'
      ? credential
      : { kind: 'signature' as const, key: signingKeys(config.keys)[0] }
  const client = createOrganizationClient({ issuer, owner, proof, outbound: pools.grants, clock })
  const read = (deadline: Deadline): Promise<EnforcedMembership> => client.membership(deadline)
  return {
    issuer,
    client,
    keys: jwks,
    view: createMembershipView({ read, clock: () => performance.now() }),
    asksAbout: resource_id => isNamed(resources, resource_id),
  }
}

function readerOf({ path, api }: Pick<SidecarOwner, 'path' | 'api'>, config: CoreConfig): RequestReader {
  const allowedOrigins = new Set([config.public_url, ...config.allowed_origins])
  if (api !== undefined) return apiReader({ base: path, operations: api, allowedOrigins })
  const mcp = { openMethods: new Set(config.open_methods), allowedOrigins }
  return call => readMcp(call, mcp)
}

function startRegistrations(
  config: CoreConfig,
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
  config: CoreConfig,
  around: Surroundings & { metrics: Metrics; routes: RouteTable; reports: AccessReports },
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
    bodiesBytesMax: config.bodies_bytes_max,
    reportArguments: config.report_arguments,
    deadlineMs: config.deadline_ms,
    deadlineMarginMs: config.deadline_margin_ms,
    onBegin: () => metrics.checkStarted(),
    onDecision: (outcome, { step, startedAt }) => {
      metrics.checkEnded()
      metrics.decided({
        outcome: outcome.kind,
        reason: outcome.metadata.reason ?? 'unknown',
        step,
        ms: clock() - startedAt,
      })
    },
  })
}

function createReports(
  { reports: { state_dir, state_bytes_max } }: CoreConfig,
  { routes, metrics, logger, clock }: Surroundings & { metrics: Metrics; routes: RouteTable },
): AccessReports {
  return createAccessReports({
    clock,
    clients: routes.routes.map(({ client }) => client),
    state: state_dir === undefined ? undefined : { path: state_dir, bytesMax: state_bytes_max },
    onUnkept: () => metrics.reportUnkept(),
    onLeft: (path, why) => logger.warn({ path, why }, 'reports of allowed calls are left where they are'),
    onFault: error => logger.error({ err: error }, 'the directory of reports'),
    onSent: count => metrics.reportsSent(count),
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
