/**
 * Owns how a configuration becomes the one core, which is the same behind every door and in both modes.
 * Contract: "What the service does" (`ENFORCEMENT_MODE=gateway|embedded`, one core) and "Resource server
 * enforcement point". Opens no door itself.
 */
import type { EmbeddedConfig, SidecarOwner } from '../config.ts'
import { createJwksCache, type JwksCache } from '../http/outbound/jwks-cache.ts'
import type { Logger } from '../http/telemetry/log.ts'
import { watchCertificates } from '../http/servers/certificates.ts'
import type { Tracing } from '../http/telemetry/tracing.ts'
import { signatureBase } from '../http/servers/signed-request.ts'
import type { PrivateKey } from '../wire/signatures/keys.ts'
import { openMarks, type Marks } from './approval/use-marks.ts'
import { openPinnedKeys } from './approval/pinned-keys.ts'
import { createAccessReports, type AccessReports } from './authorities/access-reports.ts'
import { createAuthorityClient } from './authorities/authority-client.ts'
import { createAuthorityOffers, type AuthorityOffers } from './authorities/authority-offers.ts'
import { openAuthorityPools, type AuthorityPools } from './authorities/authority-pools.ts'
import { createAuthorityGuard, type AuthorityGuard } from './documents/authority-guard.ts'
import type { Call, Denied, Outcome } from './call.ts'
import { crossOrigin, readableRefusals, type CrossOrigin } from './doors/cross-origin.ts'
import { createChallengeLimit } from './challenge-limit.ts'
import { createCheck } from './check.ts'
import { recordUnjudged } from './telemetry/decision-log.ts'
import { createHealth, type Health } from './telemetry/health.ts'
import { openJoint } from './joint-accounts.ts'
import { openLedgerHeads } from './ledger/head-stores.ts'
import type { HeadRecord, LedgerHeads } from './ledger/heads.ts'
import { createLeases, type Leases } from './leases/leases.ts'
import { openOrganization } from './organization/opening.ts'
import { openUsedEmergencies } from './organization/used-emergencies.ts'
import { readerOf } from './request/readers.ts'
import { countingOpen } from './open-calls.ts'
import { createMetrics, type Metrics } from './telemetry/metrics.ts'
import { faultOfAll, watchRecords } from './authorities/recorded-resource.ts'
import { checkSecrets, isDeclared } from './authorities/secrets.ts'
import {
  startRegistration,
  type RegistrationLoop,
  type RegistrationOptions,
} from './authorities/registration.ts'
import type { Route, RouteTable, Tool } from './request/routes.ts'
import { serveOwners } from './served-owners.ts'
import { watchToolNeeds } from './preflight/tool-needs.ts'

/** What the core needs wherever it runs. What it logs and traces with is among its surroundings. */
export type CoreConfig = Omit<EmbeddedConfig, 'logLevel' | 'traces'>

export interface Surroundings {
  logger: Logger
  /** Milliseconds since the epoch. */
  clock: () => number
  /** Left out, nothing is traced. */
  tracing?: Tracing | undefined
}

/** The core, and what else a door needs. */
export interface Core {
  routes: RouteTable
  /** Judges one call. Never throws, and writes one log line. */
  decide: (call: Call) => Promise<Outcome>
  /** For a door with no gateway in front, which would answer browsers. */
  browsers: CrossOrigin
  /** Logs and counts a denial that `decide` had no part in, because a door could not read the call. */
  unjudged: (denied: Denied, call?: Call) => void
  metrics: Metrics
  health: Health
  /** The heads of ledgers that authorities sent in the last seven days. */
  ledgerHeads: () => HeadRecord[]
  /** The keys of the resource. The first one signs, and all are published. */
  keys: readonly [PrivateKey, ...PrivateKey[]]
  /** Who may ask for an owner's resources. */
  guard: AuthorityGuard
  /** Rejects if no authority takes what it is to be asked with (see `checkSecrets`). */
  checkSecrets(): Promise<void>
  /** Why no call can be let through, whoever makes it; undefined if no reason is known. */
  notReady: () => string | undefined
  /**
   * Registers with the authorities that should be asked, and asks the others whether they know what the tools
   * need. Call this when the documents are served, because the authorities then fetch them.
   */
  register(): void
  /**
   * Serves these owners from now on, in place of those before. Running calls end as they began. An owner
   * without changes keeps the connection to her authority and everything that is known about her.
   */
  serve(owners: readonly SidecarOwner[]): void
  /**
   * Ends the background work, sends the waiting access reports, and frees every socket. Call this after the
   * doors are closed.
   */
  close(): Promise<void>
}

const CALLS_CLOSE_MS = 5_000
const REPORTS_CLOSE_MS = 5_000

/** Builds everything, but sends no request and serves nothing yet. Health begins as not serving. */
export function assembleCore(config: CoreConfig, surroundings: Surroundings): Core {
  const { logger, clock } = surroundings
  warnOfLaxSettings(config, logger)
  const metrics = createMetrics()
  const pools = openPools(config, { ...surroundings, metrics })
  const health = createHealth()
  health.onChange(() => metrics.serving(health.serving()))
  const jwks = createJwksCache({ outbound: pools.challenges, clock })
  const offers = createAuthorityOffers({ outbound: pools.challenges, clock })
  const leases = openLeases(config, { offers, metrics, logger, clock })
  let used: Marks | undefined
  const emergencies = (): Marks => (used ??= openUsedEmergencies(config.reports.state_dir, { clock }))
  const heads = openLedgerHeads(config.reports.state_dir, { clock, logger })
  const parts = { pools, jwks, offers, leases, heads, emergencies, clock, metrics, logger }
  const served = serveOwners({
    owners: config.owners,
    open: owner => routeOf(owner, config, parts),
    register: owner => startRegistrationOf(owner, config, { outbound: pools.challenges, logger, clock }),
  })
  const routes = served.table
  const records = watchRecords(() => routes.routes.map(({ client }) => client))
  const needs = watchToolNeeds(() => routes.routes, { onFault: sentence => logger.warn(sentence) })
  const reports = createReports(config, { routes, metrics, logger, clock })
  const browsers = crossOrigin(originsOf(config))
  const check = checkOf(config, { ...surroundings, routes, reports, metrics })
  const { decide, settled } = countingOpen(readableRefusals(check, browsers))
  metrics.observe({
    reports,
    pools: { challenges: () => pools.challenges.stats(), grants: () => pools.grants.stats() },
  })
  return {
    routes,
    decide,
    browsers,
    unjudged: (denied, call) => {
      recordUnjudged(logger, denied, call)
      metrics.decided({ outcome: 'deny', reason: denied.metadata.reason ?? 'unknown', step: 'read', ms: 0 })
    },
    metrics,
    health,
    ledgerHeads: () => heads.list(),
    keys: signingKeys(config.keys),
    guard: createAuthorityGuard({ jwks, signatureBase: signatureBase(config.public_url), clock }),
    checkSecrets: () => checkSecretsOf(config, routes, logger),
    notReady: () => faultOfAll(routes.routes.map(({ client }) => client)),
    register: () => {
      served.register()
      needs.begin()
    },
    serve: owners => {
      served.serve(owners)
      needs.begin()
    },
    close: async () => {
      records.stop()
      needs.stop()
      served.stop()
      await settled(CALLS_CLOSE_MS)
      await Promise.all([leases?.close(), reports.close(REPORTS_CLOSE_MS), heads.close()])
      await pools.close()
    },
  }
}

/** At the start the routes are those of the configuration, in its order. */
function checkSecretsOf({ owners }: CoreConfig, { routes }: RouteTable, logger: Logger): Promise<void> {
  const declared = owners.flatMap((owner, i) => {
    const { client, resource } = routes[i]!
    const one = { client, kind: owner.credential.kind, isJoint: owner.joint !== undefined }
    return isDeclared(owner, resource) ? [one] : []
  })
  return checkSecrets(declared, { inAll: owners.length, logger })
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

/** What the routes share. */
interface AssemblyParts extends Surroundings {
  pools: AuthorityPools
  jwks: JwksCache
  offers: AuthorityOffers
  leases: Leases | undefined
  heads: LedgerHeads
  /** Made when the first owner has an organization above her. */
  emergencies: () => Marks
  metrics: Metrics
}

/** Undefined if the authorities are asked about every call. */
function openLeases(
  { liveness }: CoreConfig,
  { offers, metrics, logger, clock }: Pick<AssemblyParts, 'offers' | 'metrics' | 'logger' | 'clock'>,
): Leases | undefined {
  if (liveness === 'asked') return undefined
  const clocks = { forward: () => performance.now(), wall: clock }
  return createLeases({ clocks, offers, logger, metrics: metrics.leases() })
}

function routeOf(
  {
    owner,
    path,
    authority,
    client_id,
    credential,
    register,
    organization,
    joint,
    tools,
    api,
    methods,
  }: SidecarOwner,
  config: CoreConfig,
  { pools, jwks, offers, leases, heads, emergencies, clock, metrics, logger }: AssemblyParts,
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
      isJoint: joint !== undefined,
      client_id,
      credential: proof,
      pools,
      keys: jwks,
      rptTypes: config.rptTypes.get(authority),
      offers,
      // No answer about a tally's grants is ever kept.
      leases:
        joint === undefined && leases !== undefined
          ? { streams: pools.streams, hold: door => leases.of({ owner, authority }, door) }
          : undefined,
      clock,
      onHead: heads.takerOf({ owner, authority }),
      onPat: outcome => metrics.patRenewed(outcome),
      onFault: sentence => logger.warn(sentence),
      onMended: sentence => logger.info(sentence),
    }),
    registersItself: register !== undefined,
    organization:
      organization &&
      openOrganization(organization, owner, {
        aliases: config.aliases,
        key: signingKeys(config.keys)[0],
        used: emergencies(),
        outbound: pools.grants,
        keys: jwks,
        clock,
      }),
    joint: joint && openJoint(joint, owner, { config, pools, jwks, clock }),
    tools: new Map(tools.map(tool => [tool.tool, openTool(tool, { logger, clock })])),
    readRequest: readerOf(
      { path, api, methods, tools },
      { open_methods: config.open_methods, allowedOrigins: originsOf(config) },
    ),
    api,
    signatureBase: signatureBase(config.public_url),
  }
}

/** Reads no key until a call needs it. */
function openTool(
  { owner_approval: approval, ...tool }: SidecarOwner['tools'][number],
  { logger, clock }: Pick<Surroundings, 'logger' | 'clock'>,
): Tool {
  if (approval === undefined) return tool
  const keys = openPinnedKeys(approval.keys_file, { logger })
  return { ...tool, ownerApproval: { keys, marks: openMarks(approval.state_dir, { clock }) } }
}

function warnOfLaxSettings({ devLoopback, owners, warnings }: CoreConfig, logger: Logger): void {
  if (devLoopback)
    logger.warn(
      'UMA_DEV_LOOPBACK is on: http and loopback are admitted. Never run like this where others can reach it.',
    )
  for (const sentence of warnings) logger.warn(sentence)
  for (const { owner, joint } of owners) {
    if (joint?.pinned === 'any')
      logger.warn(
        { account: owner, tally: joint.tally },
        'joint.mandate_s256 is any: the operator of this tally says who holds the account. Pin the digest.',
      )
  }
}

function originsOf(config: CoreConfig): ReadonlySet<string> {
  return new Set([config.public_url, ...config.allowed_origins])
}

function startRegistrationOf(
  { owner, authority, path, register }: SidecarOwner,
  config: CoreConfig,
  surroundings: Pick<RegistrationOptions, 'outbound' | 'logger' | 'clock'>,
): RegistrationLoop | undefined {
  if (register === undefined) return undefined
  const resource = config.public_url + path
  const [key] = signingKeys(config.keys)
  return startRegistration({ ...surroundings, authority, owner, resource, name: register.name, key })
}

function checkOf(
  config: CoreConfig,
  surroundings: Surroundings & { metrics: Metrics; routes: RouteTable; reports: AccessReports },
) {
  const { metrics, clock } = surroundings
  return createCheck({
    ...surroundings,
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
