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
import { createOutbound, type Outbound } from '../http/outbound.ts'
import { serveUntilSignalled, startServed, type Served } from '../http/process.ts'
import { createServerMetrics } from '../http/server-metrics.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { signatureBase } from '../http/signed-request.ts'
import { openSurroundings, warnOfExposure } from '../http/surroundings.ts'
import { BoundedMap } from '../limits/bounded-map.ts'
import { startRepeating } from '../limits/repetition.ts'
import { inTransaction, isOutage } from '../storage/core/database.ts'
import { listen as listenToDatabase } from '../storage/core/listen.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { awaitDatabase } from '../storage/core/database-wait.ts'
import { appendActivity } from '../storage/organization/activity.ts'
import { lockHead, publishCharter } from '../storage/organization/charters.ts'
import { migrate, openDatabase, refuseEarlier, type Database } from '../storage/organization/database.ts'
import { sweepOrganization } from '../storage/organization/sweep.ts'
import { createClock, type Clock } from '../surface/clock.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { charterDigest, type Charter } from '../wire/charter.ts'
import { voidAbandoned } from './break-glass/abandoned.ts'
import type { Organization } from './context.ts'
import { aboutListener, ADMIN_ENDPOINTS, ENDPOINTS, PUBLIC_ENDPOINTS } from './endpoints.ts'
import { NOTICES_TOLD, startOutbox } from './notices/outbox.ts'
import { createNoticeSender } from './notices/sender.ts'

const SWEPT_ROWS = 500
const WRONG_CODES_PER_MINUTE = 10
const SWEEPS_MAX = 20
/** Of one charter after another. */
const IDENTITY_PROVIDERS_KEPT = 8
/** Nothing is announced there: the connection is kept for the database's clock. */
const CLOCK_CHANNEL = 'usher_clock'
/** Whose doing the charter of the provisioning file is. */
const PROVISIONED_BY = 'provisioning'

/**
 * Draining, `/health` says 503 and every answer closes its connection. Closing lets running requests end, and
 * closes the store.
 */
export interface RunningOrganization extends Served {
  /** Where each listener is, as `host:port` (the port really given) or `unix:/path`. */
  publicAddress: string
  adminAddress: string
  metricsAddress: string
}

export interface StartOptions {
  /** Of this machine, in milliseconds since the epoch. */
  localClock?: (() => number) | undefined
  /** In tests: every answer is held against its declaration. */
  onUndeclared?: OnUndeclared | undefined
}

/**
 * Starts an organization; rejects, with nothing left running, where the store or an address cannot be had.
 */
export async function startOrganization(
  config: OrganizationConfig,
  { localClock = Date.now, onUndeclared }: StartOptions = {},
): Promise<RunningOrganization> {
  const log = createLogger({ name: 'organization', level: config.logLevel })
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, secondListen: config.adminListen, prefix: 'UMA_ORG' })
    const clock = createClock({ local: localClock, onTurn: fault => logTurn(log, fault) })
    const organization = await openOrganization(config, { log, clock, closers })
    const notReady = () => clock.fault()
    const said = { logger: log, healthy, notReady, onUndeclared, refusalOf: outageRefusal }
    const { pool } = organization.database
    const metrics = createServerMetrics('organization', { pools: { all: pool }, clock }, said)
    const told = metrics.addCounter(NOTICES_TOLD)
    const around = await openSurroundings(config, { said, metrics, closers })
    closers.push(startSweeper(organization, config.sweepSeconds))
    closers.push(startOutbox({ ...organization, observe: outcome => told({ outcome }) }))
    const metricsAddress = await open(metrics.createServer(), config.metricsListen)
    const adminApp = createHttpServer(around)
    adminRoutes(adminApp, organization, config, closers)
    const adminAddress = await open(adminApp, config.adminListen)
    const publicApp = createHttpServer(around)
    publicRoutes(publicApp, organization)
    const publicAddress = await open(publicApp, config.listen)
    const { issuer } = config
    log.info(
      { issuer, public: publicAddress, admin: adminAddress, metrics: metricsAddress },
      'the organization is serving',
    )
    return { publicAddress, adminAddress, metricsAddress }
  })
}

/**
 * `usher organization`: runs until SIGTERM or SIGINT, drains, then ends in order; a second signal ends at
 * once.
 */
export async function runOrganization(): Promise<void> {
  const config = readOrganizationConfig()
  const options = { name: 'usher organization', drainMs: config.drainMs }
  serveUntilSignalled(await startOrganization(config), options)
}

/** `usher organization migrate`: brings the database up to date, and says what it applied. */
export async function runOrganizationMigrate(): Promise<void> {
  const { databaseUrl: url, databaseWaitSeconds: seconds } = readOrganizationMigrationConfig()
  await runMigrationCommand(async tell => {
    await awaitDatabase({ url, seconds, tell })
    return migrate(url, tell)
  })
}

function logTurn(log: Logger, fault: string | undefined): void {
  if (fault === undefined) log.info('the clock of this replica is right again: it signs')
  else log.error(`${fault}: it signs nothing until its clock is right`)
}

async function openOrganization(
  config: OrganizationConfig,
  { log, clock, closers }: { log: Logger; clock: Clock; closers: (() => Promise<void>)[] },
): Promise<Organization> {
  const { databaseUrl: url, poolMax, issuer, id, name, invitationSeconds } = config
  const tell = (line: string): void => log.warn(line)
  await awaitDatabase({ url, seconds: config.databaseWaitSeconds, tell })
  if (config.migrate) {
    const applied = await migrate(url, tell)
    if (applied.length > 0) log.info({ applied }, 'the database was brought up to date')
  } else await refuseEarlier(url)
  const onConnectionError = (error: Error): void =>
    log.warn({ err: error }, 'a connection to the database was lost')
  const database = openDatabase({ url, poolMax, onConnectionError })
  closers.push(() => database.close())
  if (config.provisioned.charter !== undefined) await publishFirst(database, config.provisioned.charter, log)
  const listener = await listenToDatabase({
    url,
    channel: CLOCK_CHANNEL,
    onNotify: () => undefined,
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => listener.close())
  const [first, ...others] = config.keys
  if (first === undefined) throw new Error('the configuration holds no signing key')
  const { authorities = [] } = config
  const now = (): number => Math.floor(clock.now() / 1_000)
  const outbound = openOutbound(config, closers)
  return {
    issuer,
    id,
    name,
    aliases: config.aliases ?? [],
    keys: [first, ...others],
    database,
    log,
    clock,
    now,
    base: signatureBase(issuer),
    invitationSeconds,
    authorities,
    identityKeys: openIdentityKeys(config, closers),
    notices: createNoticeSender({ issuer, key: first, authorities, outbound, now }),
    authorityKeys: openPublishedKeys(config, closers),
    enforcementPoints: config.provisioned.enforcementPoints,
    enforcementKeys: openPublishedKeys(config, closers),
    attempts: createAttemptLimit({ failuresPerMinute: WRONG_CODES_PER_MINUTE, clock: Date.now }),
  }
}

/** Authorities and enforcement points are the operator's own choice, and may stand in a private network. */
function openOutbound({ devLoopback }: OrganizationConfig, closers: (() => Promise<void>)[]): Outbound {
  const outbound = createOutbound({ devLoopback })
  closers.push(() => outbound.close())
  return outbound
}

function openPublishedKeys(config: OrganizationConfig, closers: (() => Promise<void>)[]): JwksCache {
  return createJwksCache({ outbound: openOutbound(config, closers), clock: Date.now })
}

/**
 * The provider is named by a charter, so by whoever may publish one: nothing is asked of a private network
 * for it.
 */
function openIdentityKeys(
  { devLoopback }: OrganizationConfig,
  closers: (() => Promise<void>)[],
): Organization['identityKeys'] {
  const outbound = createOutbound({ devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const known = new BoundedMap<string, RealmKeys>(IDENTITY_PROVIDERS_KEPT)
  return issuer => {
    const keys = known.get(issuer) ?? createRealmKeys({ issuer, outbound, clock: Date.now })
    if (!known.has(issuer)) known.set(issuer, keys)
    return keys
  }
}

/** Publishes the file's charter where none was ever; of replicas that start together one does. */
async function publishFirst({ db }: Database, charter: Charter, log: Logger): Promise<void> {
  const version = await inTransaction(db, async tx => {
    if ((await lockHead(tx)) > 0) return undefined
    const s256 = charterDigest(charter)
    const row = await publishCharter(tx, { charter, s256, by: PROVISIONED_BY, affects: 'everybody' })
    const data = { charter_version: row.version, s256, by: PROVISIONED_BY }
    await appendActivity(tx, { kind: 'charter_published', data })
    return row.version
  })
  if (version !== undefined) log.info({ version }, 'the first charter was published')
}

/** Sweeps now and then, in bounded batches; any number of replicas may. @returns what ends it. */
function startSweeper({ database, log }: Organization, pauseSeconds: number): () => Promise<void> {
  const sweep = async (stopped: () => boolean): Promise<void> => {
    for (let batch = 0; batch < SWEEPS_MAX && !stopped(); batch++)
      if (
        (await sweepOrganization(database.db, SWEPT_ROWS)) +
          (await voidAbandoned({ database }, SWEPT_ROWS)) ===
        0
      )
        return
  }
  const onError = (error: unknown): void =>
    log[isOutage(error) ? 'warn' : 'error']({ err: error }, 'a sweep was broken off')
  const sweeper = startRepeating(sweep, { pauseSeconds, onError })
  return () => sweeper.stop()
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
  serveEndpoints(
    app,
    { ...organization, accepted, administrators: provisioned.administrators },
    ADMIN_ENDPOINTS,
  )
  serveEndpoints(app, openApiDocument(ENDPOINTS.admin, aboutListener.admin('/')), [OPENAPI_ENDPOINT])
}
