/**
 * Starts and ends an organization: one public listener, one of the administration, one store. Contract:
 * "Parties" (organization's authority), "The organization's authority", "Health".
 */
import type { OrganizationConfig } from '../config.ts'
import { readOrganizationConfig, readOrganizationMigrationConfig } from '../config.ts'
import { openAccepted } from '../credentials/acceptance.ts'
import { createAttemptLimit } from '../credentials/attempt-limit.ts'
import { createRealmKeys, type RealmKeys } from '../credentials/realm-keys.ts'
import { serveEndpoints, type OnUndeclared } from '../http/endpoint.ts'
import { createJwksCache, type JwksCache } from '../http/jwks-cache.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi.ts'
import { openOutbound } from '../http/outbound.ts'
import { runServed, startServed, type Served } from '../http/process.ts'
import { SECURITY_EVENTS } from '../http/security-log.ts'
import { createServerMetrics } from '../http/server-metrics.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { signatureBase } from '../http/signed-request.ts'
import { openSurroundings, warnOfExposure } from '../http/surroundings.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { inTransaction } from '../storage/core/database.ts'
import { listen as listenToDatabase } from '../storage/core/listen.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import { startSweeping, sweepEach, type Swept } from '../storage/core/sweep.ts'
import { appendActivity } from '../storage/organization/activity.ts'
import { lockHead, publishCharter } from '../storage/organization/charters.ts'
import { ORGANIZATION_DATABASE } from '../storage/organization/database.ts'
import { NOTICES_CHANNEL } from '../storage/organization/notices.ts'
import { organizationBatches } from '../storage/organization/sweep.ts'
import { createClock, sayTurns, type Clock } from '../surface/clock.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { charterDigest, type Charter } from '../wire/charter.ts'
import { signingKeys } from '../wire/keys.ts'
import { createMemberServers } from './admin/member-servers.ts'
import { voidAbandoned } from './break-glass/abandoned.ts'
import type { Organization } from './context.ts'
import { aboutListener, ADMIN_ENDPOINTS, ENDPOINTS, PUBLIC_ENDPOINTS } from './endpoints.ts'
import { NOTICES_TOLD, startOutbox } from './notices/outbox.ts'
import { createNoticeSender } from './notices/sender.ts'
import { startSecurityLog } from './security-log.ts'

const WRONG_CODES_PER_MINUTE = 10
/** How many identity providers are kept: one charter after another may name a new one. */
const IDENTITY_PROVIDERS_KEPT = 8
/** The work that pauses while its clock is wrong. */
const SIGNING = { goesOn: 'it signs', stops: 'it signs nothing' }
/** The author of the provisioning file's charter. */
const PROVISIONED_BY = 'provisioning'

/**
 * While it drains, `/health` says 503 and every answer closes its connection. Closing lets running requests
 * end, and closes the store.
 */
export interface RunningOrganization extends Served {
  /** The address of each listener, as `host:port` (the real port) or `unix:/path`. */
  publicAddress: string
  adminAddress: string
  metricsAddress: string
}

export interface StartOptions {
  /** The clock of this machine, in milliseconds since the epoch. */
  localClock?: (() => number) | undefined
  /** Where log lines go. If left out, they go to standard output at the level of the settings. */
  log?: Logger | undefined
  /** In tests, every answer is compared with its declaration. */
  onUndeclared?: OnUndeclared | undefined
  /**
   * How long a statement waits for a row that another holds, in milliseconds; tests wait longer, as a busy
   * machine is no outage.
   */
  lockTimeoutMs?: number | undefined
}

/**
 * Starts an organization; if the store or an address is unavailable, rejects and leaves nothing running.
 */
export async function startOrganization(
  config: OrganizationConfig,
  {
    localClock = Date.now,
    onUndeclared,
    lockTimeoutMs,
    log = createLogger({ name: 'organization', level: config.logLevel }),
  }: StartOptions = {},
): Promise<RunningOrganization> {
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, secondListen: config.adminListen, prefix: 'UMA_ORG' })
    const clock = createClock({ local: localClock, onTurn: sayTurns(log, SIGNING) })
    const waking = { wake: (): void => undefined }
    const onNotice = (): void => waking.wake()
    const opened = await openOrganization(config, { log, clock, lockTimeoutMs, onNotice, closers })
    const { db, pool, readFault } = opened.database
    const notReady = async () => clock.fault() ?? (await readFault())
    const said = { logger: log, healthy, notReady, onUndeclared, refusalOf: outageRefusal }
    const databaseAnswers = (): Promise<boolean> => answersNow(pool)
    const metrics = createServerMetrics(
      'organization',
      { pools: { all: pool }, clock, databaseAnswers },
      said,
    )
    const told = metrics.addCounter(NOTICES_TOLD)
    const counted = metrics.addCounter(SECURITY_EVENTS)
    const count = (event: string): void => counted({ event })
    const security = startSecurityLog(db, { log, count, answered: metrics.answered, clock: localClock })
    const organization = { ...opened, security }
    await publishFirst(organization, config.provisioned.charter)
    const { answered } = security
    const around = await openSurroundings(config, { said, metrics: { ...metrics, answered }, closers })
    const { sweepSeconds: pauseSeconds } = config
    const sweeper = startSweeping(limit => sweep(organization, limit), { pauseSeconds, log })
    closers.push(() => sweeper.stop())
    const outbox = startOutbox({ ...organization, observe: outcome => told({ outcome }) })
    closers.push(() => outbox.stop())
    waking.wake = () => outbox.wake()
    const metricsAddress = await open(metrics.createServer(), config.metricsListen, 'UMA_ORG_METRICS_LISTEN')
    const adminApp = createHttpServer(around)
    adminRoutes(adminApp, organization, config, closers)
    const adminAddress = await open(adminApp, config.adminListen, 'UMA_ORG_ADMIN_LISTEN')
    const publicApp = createHttpServer(around)
    publicRoutes(publicApp, organization)
    const publicAddress = await open(publicApp, config.listen, 'UMA_ORG_LISTEN')
    const { issuer } = config
    log.info(
      { issuer, public: publicAddress, admin: adminAddress, metrics: metricsAddress },
      'the organization is serving',
    )
    return { publicAddress, adminAddress, metricsAddress }
  })
}

/** `usher organization`. */
export async function runOrganization(): Promise<void> {
  await runServed('organization', readOrganizationConfig(), startOrganization)
}

/** `usher organization migrate`: brings the database up to date, and says what it applied. */
export async function runOrganizationMigrate(): Promise<void> {
  const config = readOrganizationMigrationConfig()
  await runMigrationCommand(tell => ORGANIZATION_DATABASE.migrateOnce(config, tell))
}

async function openOrganization(
  config: OrganizationConfig,
  {
    log,
    clock,
    lockTimeoutMs,
    onNotice,
    closers,
  }: Pick<StartOptions, 'lockTimeoutMs'> & {
    log: Logger
    clock: Clock
    /** A notice was written, by any replica. */
    onNotice: () => void
    closers: (() => Promise<void>)[]
  },
): Promise<Omit<Organization, 'security'>> {
  const { issuer, id, name, invitationSeconds } = config
  const database = await ORGANIZATION_DATABASE.openServing({ ...config, lockTimeoutMs }, log)
  closers.push(() => database.close())
  const listener = await listenToDatabase({
    url: config.databaseUrl,
    channel: NOTICES_CHANNEL,
    onNotify: onNotice,
    onConnect: onNotice,
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => listener.close())
  const keys = signingKeys(config.keys)
  const { authorities = [] } = config
  const now = (): number => Math.floor(clock.now() / 1_000)
  const outbound = openOutbound({ devLoopback: config.devLoopback }, closers)
  return {
    issuer,
    id,
    name,
    aliases: config.aliases ?? [],
    keys,
    database,
    log,
    clock,
    now,
    base: signatureBase(issuer),
    invitationSeconds,
    authorities,
    identityKeys: openIdentityKeys(config, closers),
    notices: createNoticeSender({ issuer, key: keys[0], authorities, outbound, now }),
    authorityKeys: openPublishedKeys(config, closers),
    enforcementPoints: config.provisioned.enforcementPoints,
    enforcementKeys: openPublishedKeys(config, closers),
    attempts: createAttemptLimit({ failuresPerMinute: WRONG_CODES_PER_MINUTE, clock: Date.now }),
  }
}

/** The operator chooses authorities and enforcement points, so they may be in a private network. */
function openPublishedKeys({ devLoopback }: OrganizationConfig, closers: (() => Promise<void>)[]): JwksCache {
  return createJwksCache({ outbound: openOutbound({ devLoopback }, closers), clock: Date.now })
}

/**
 * A charter names the provider, so everybody who may publish a charter can name one. So no provider in a
 * private network is asked.
 */
function openIdentityKeys(
  { devLoopback }: OrganizationConfig,
  closers: (() => Promise<void>)[],
): Organization['identityKeys'] {
  const outbound = openOutbound({ devLoopback, publicOnly: true }, closers)
  const known = new BoundedMap<string, RealmKeys>(IDENTITY_PROVIDERS_KEPT)
  return issuer => {
    const keys = known.get(issuer) ?? createRealmKeys({ issuer, outbound, clock: Date.now })
    if (!known.has(issuer)) known.set(issuer, keys)
    return keys
  }
}

/**
 * Publishes the file's charter if none was ever published; only one of several replicas that start together
 * does.
 */
async function publishFirst(
  { database, log }: Pick<Organization, 'database' | 'log'>,
  charter: Charter | undefined,
): Promise<void> {
  if (charter === undefined) return
  const version = await inTransaction(database.db, async tx => {
    if ((await lockHead(tx)) > 0) return undefined
    const s256 = charterDigest(charter)
    const row = await publishCharter(tx, { charter, s256, by: PROVISIONED_BY, affects: 'everybody' })
    const data = { charter_version: row.version, s256, by: PROVISIONED_BY }
    await appendActivity(tx, { kind: 'charter_published', data })
    return row.version
  })
  if (version !== undefined) log.info({ version }, 'the first charter was published')
}

/** The rows that are swept, with abandoned grants: those are made void before they are removed. */
function sweep({ database }: Organization, limit: number): Promise<Swept> {
  const abandoned = (most: number): Promise<number> => voidAbandoned({ database }, most)
  return sweepEach({ abandoned, ...organizationBatches(database.db) }, limit)
}

function publicRoutes(app: HttpServer, organization: Organization): void {
  serveEndpoints(app, organization, PUBLIC_ENDPOINTS)
  const document = openApiDocument(ENDPOINTS.public, aboutListener.public(organization.issuer))
  serveEndpoints(app, document, [OPENAPI_ENDPOINT])
}

// oxlint-disable-next-line eslint/max-params -- where, of what, as configured, and what ends with it
function adminRoutes(
  app: HttpServer,
  organization: Organization,
  config: OrganizationConfig,
  closers: (() => Promise<void>)[],
): void {
  const { adminAuth, realm, devLoopback, provisioned } = config
  const accepting = {
    space: 'admin',
    deviceKeys: adminAuth.includes('device-key'),
    realm,
    devLoopback,
    now: () => organization.now(),
  } as const
  const accepted = openAccepted(accepting, closers)
  const { issuer, keys, authorities } = organization
  const now = (): number => organization.now()
  const outbound = openOutbound({ devLoopback }, closers)
  const members = createMemberServers({ issuer, key: keys[0], authorities, outbound, now })
  const { administrators } = provisioned
  serveEndpoints(app, { ...organization, accepted, administrators, members }, ADMIN_ENDPOINTS)
  serveEndpoints(app, openApiDocument(ENDPOINTS.admin, aboutListener.admin('/')), [OPENAPI_ENDPOINT])
}
