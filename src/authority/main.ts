/**
 * Starts and ends the authorization server: one public listener, one of the owner API, one store.
 * Contract: "Parties" (owner's authorization server), "Owner API", "Health".
 */
import type { AuthorityConfig, ProvisionedOwner } from '../config.ts'
import { readAuthorityConfig, readMigrationConfig } from '../config.ts'
import { readConsole } from '../files/console.ts'
import { serveEndpoints, type Described, type OnUndeclared } from '../http/endpoint.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { createOutbound } from '../http/outbound.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi.ts'
import { runServed, startServed, type Served } from '../http/process.ts'
import { openSurroundings, warnOfExposure } from '../http/surroundings.ts'
import { signatureBase } from '../http/signed-request.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import type { RequestObserver } from '../http/metrics.ts'
import { useLibsodium } from '../native/libsodium.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { onBehalfOf } from '../storage/core/shares.ts'
import { AUTHORITY_DATABASE } from '../storage/authority/database.ts'
import { relyingPartyOf } from '../wire/relying-party.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { warnOfDifferences } from './administration/differences.ts'
import { applyAgain, rereading } from './administration/rereading.ts'
import { administrationRoutes } from './administration/listener.ts'
import type { Cells } from './cells/cells.ts'
import type { Authority } from './context.ts'
import { openAccepted } from '../credentials/acceptance.ts'
import { createAuthorityMetrics } from './metrics.ts'
import {
  aboutListener,
  ADMINISTERED_ENDPOINTS,
  ENDPOINTS,
  JOINT_ENDPOINTS,
  JOINT_OWNER_ENDPOINTS,
  OWNER_ENDPOINTS,
  type Listener,
} from './endpoints.ts'
import { createOwnerApi, type OwnerApi } from './owner/api.ts'
import { CONSOLE } from './owner/console.ts'
import { QUOTE_ENDPOINT } from './joint/quote.ts'
import { VERDICT_ENDPOINT } from './joint/verdict.ts'
import { startWithdrawals } from './joint/withdrawals.ts'
import { startCalls } from './organization/calls.ts'
import { startCompliance } from './organization/compliance.ts'
import { startDocuments } from './organization/documents.ts'
import { NOTICE } from './organization/notices.ts'
import { startDelivery, type CountNotification } from './notifications/delivery.ts'
import type { Notifier } from './notifications/sending.ts'
import { startViews } from './organization/views.ts'
import { LEASES } from './protection/leases.ts'
import { createLeaseStreams, type LeaseStreams } from './protection/lease-streams.ts'
import { reportLeases, type ReportOptions } from './protection/lease-reports.ts'
import { startLeaseSweep } from './protection/lease-sweep.ts'
import { REGISTER } from './protection/registration.ts'
import { createCountedRegistry, REGISTRY_ENDPOINT } from './registry/registry-health.ts'
import { startSecurityLog, type SecurityLogOptions } from './security-log.ts'
import { startSweeper } from './sweeper.ts'
import { createPatGuard } from '../surface/pat-guard.ts'
import { SURFACE } from '../surface/surface.ts'
import { openCells, type AuthorityCell } from './opening.ts'
import { surfaceOf } from './surface.ts'
import { ownersOf } from './terms-source.ts'

/**
 * While it drains, `/health` says 503 and every answer closes its connection. Closing ends event streams,
 * lets running requests end, and closes the store.
 */
export interface RunningAuthority extends Served {
  /** Where each listener is, as `host:port` (the port really given) or `unix:/path`. */
  publicAddress: string
  ownerAddress: string
  /** Undefined if there is no listener for administration. */
  adminAddress: string | undefined
  metricsAddress: string
  /** Applies a provisioning file, as the start did. */
  applyFile: (owners: readonly ProvisionedOwner[]) => Promise<void>
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

/** Starts an authority; if the store or an address is unavailable, rejects and leaves nothing running. */
export async function startAuthority(
  config: AuthorityConfig,
  {
    localClock = Date.now,
    onUndeclared,
    lockTimeoutMs,
    log = createLogger({ name: 'authority', level: config.logLevel }),
  }: StartOptions = {},
): Promise<RunningAuthority> {
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, secondListen: config.ownerListen, prefix: 'UMA_AS' })
    let withheld = (): void => undefined
    const opening = { log, localClock, lockTimeoutMs, closers }
    const cells = await openCells(config, { ...opening, onMoving: () => withheld() })
    const { authority } = cells.home
    const said = { ...sayingOf(cells, log), healthy, onUndeclared }
    const metrics = createAuthorityMetrics(cells.all, said)
    if (cells.all.length > 1) withheld = metrics.countMoving()
    const answered = startSecurityLogs(cells, { log, metrics, clock: localClock })
    const around = await openSurroundings(config, { said, metrics: { ...metrics, answered }, closers })
    for (const cell of cells.all) startDuties(cell.authority, { config, localClock, closers })
    const serve = (
      routes: (app: HttpServer) => void,
      address: AuthorityConfig['listen'],
      setting: string,
    ) => {
      const app = createHttpServer(around)
      routes(app)
      return open(app, address, setting)
    }
    let ownerUrl = config.ownerUrl ?? config.issuer
    const page = (): string => ownerUrl
    const relyingParty = () => relyingPartyOf(config, page())
    const told = { count: metrics.notified, page, closers }
    const streams = startLeases(cells, { config, log, metrics, closers })
    const notifiers = each(cells, cell => startNotifying(config, cell.authority, told))
    const metricsAddress = await open(metrics.createServer(), config.metricsListen, 'UMA_AS_METRICS_LISTEN')
    const accepted = openAccepted(
      {
        space: 'owner',
        deviceKeys: config.ownerAuth.includes('device-key'),
        realm: config.realm,
        devLoopback: config.devLoopback,
        now: () => authority.now(),
      },
      closers,
    )
    const ownerAddress = await serve(
      app => ownerRoutes(app, cells, { config, accepted, relyingParty, notifiers, ownerUrl: page }),
      config.ownerListen,
      'UMA_AS_OWNER_LISTEN',
    )
    const { adminListen: listen } = config
    const administration = administrationRoutes(authority, { config, closers })
    const adminAddress = listen && (await serve(administration, listen, 'UMA_AS_ADMIN_LISTEN'))
    if (config.ownerUrl === undefined && config.devLoopback)
      ownerUrl = `${config.tls === undefined ? 'http' : 'https'}://${ownerAddress}`
    const publicAddress = await serve(
      app => publicRoutes(app, cells, { ownerUrl, streams: config.leases ? streams : undefined }),
      config.listen,
      'UMA_AS_LISTEN',
    )
    startRegistries(cells, closers)
    const at = { public: publicAddress, owner: ownerAddress, metrics: metricsAddress }
    log.info({ issuer: config.issuer, ...at }, 'the authority is serving')
    const addresses = { publicAddress, ownerAddress, adminAddress, metricsAddress }
    return { ...addresses, applyFile: owners => applyAgain(cells, owners, closers) }
  })
}

/** `usher authority`. On SIGHUP it reads the provisioning file anew. */
export async function runAuthority(): Promise<void> {
  await runServed('authority', readAuthorityConfig(), async (config, { log }) => {
    log.info(useLibsodium(), 'signatures are verified')
    const running = await startAuthority(config, { log })
    return { ...running, onHangup: rereading({ read: readAuthorityConfig, apply: running.applyFile, log }) }
  })
}

/** `usher migrate`: brings the database up to date, and says what it applied. */
export async function runMigrate(): Promise<void> {
  const config = readMigrationConfig()
  await runMigrationCommand(async tell => {
    const applied = await AUTHORITY_DATABASE.migrateOnce(config, tell)
    for (const { name, url } of config.cells ?? [])
      for (const one of await AUTHORITY_DATABASE.migrateOnce({ ...config, databaseUrl: url }, tell))
        applied.push(`${name}: ${one}`)
    return applied
  })
}

/** How its listeners say what is wrong. A cell that cannot be served does not stop the others. */
function sayingOf(
  { all }: Cells<AuthorityCell>,
  logger: Logger,
): { logger: Logger; notReady: () => Promise<string | undefined>; refusalOf: typeof outageRefusal } {
  const notReady = async () => firstOfAll(await Promise.all(all.map(({ authority }) => faultOf(authority))))
  return { logger, notReady, refusalOf: outageRefusal }
}

/** What observes the answers of all listeners. */
function startSecurityLogs({ all }: Cells<AuthorityCell>, options: SecurityLogOptions): RequestObserver {
  const [answered] = all.map(({ database }) => startSecurityLog(database.db, options))
  return answered!
}

/** Nobody waits for the pull or for the comparison with the provisioning file. */
function startRegistries({ all }: Cells<AuthorityCell>, closers: (() => Promise<void>)[]): void {
  for (const { authority, owners } of all) {
    authority.registry.start()
    closers.push(warnOfDifferences(authority, owners))
  }
}

/** Why the owners of a cell cannot be served; undefined if they can. */
async function faultOf({ clock, database }: Authority): Promise<string | undefined> {
  return clock.fault() ?? database.standby?.fault()?.message ?? (await database.readFault())
}

/** The answer of the first cell, if all cells are healthy. */
function firstOfAll(faults: readonly (string | undefined)[]): string | undefined {
  return faults.every(fault => fault !== undefined) ? faults[0] : undefined
}

/** The value of something in each cell. */
function each<T>(
  { all }: Cells<AuthorityCell>,
  of: (cell: AuthorityCell) => T,
): ReadonlyMap<AuthorityCell, T> {
  return new Map(all.map(cell => [cell, of(cell)]))
}

/** Background work: sweeping, and messages to organizations and tallies. */
function startDuties(
  authority: Authority,
  of: { config: AuthorityConfig; localClock: () => number; closers: (() => Promise<void>)[] },
): void {
  const { config, localClock, closers } = of
  const { sweepSeconds: pauseSeconds, retentionSeconds: retention } = config
  const sweeper = startSweeper(authority, { pauseSeconds, localClock, retention })
  closers.push(() => sweeper.stop())
  for (const start of [startDocuments, startCalls, startViews, startCompliance, startWithdrawals]) {
    const started = start(authority)
    if (started !== undefined) closers.push(() => started.stop())
  }
}

/**
 * Notifies owners, if there is a key for it. It uses connections of its own, so a silent endpoint holds no
 * connection that others need.
 */
function startNotifying(
  { notificationKey: key, issuer, devLoopback }: AuthorityConfig,
  authority: Authority,
  of: Pick<Notifier, 'page'> & { count: CountNotification; closers: (() => Promise<void>)[] },
): Notifier | undefined {
  if (key === undefined) return undefined
  const { page, count, closers } = of
  const outbound = createOutbound({ devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const notifier = { key, issuer, outbound, now: () => authority.now(), page }
  const delivery = startDelivery({ ...authority, notifier, count })
  closers.push(() => delivery.stop())
  return notifier
}

/** Also if this replica gives none, because others may. */
function startLeases(
  cells: Cells<AuthorityCell>,
  of: Omit<ReportOptions, 'streams'> & { config: AuthorityConfig; closers: (() => Promise<void>)[] },
): ReadonlyMap<AuthorityCell, LeaseStreams> {
  const { config, closers, ...told } = of
  const all = each(cells, ({ authority }) => {
    const streams = createLeaseStreams(authority, { streamsMax: config.leaseStreamsMax })
    const sweep = startLeaseSweep(authority, streams)
    closers.push(() => sweep.stop())
    return streams
  })
  const databases = cells.all.map(({ database }) => database.db)
  reportLeases(databases, { ...told, streams: [...all.values()] })
  return all
}

/** What a listener serves, whether or not a tally is listed. */
function described(listener: Listener, { tallies }: Pick<Authority, 'tallies'>): readonly Described[] {
  const always = ENDPOINTS[listener]
  return tallies.issuers.length === 0 ? always : [...always, ...JOINT_ENDPOINTS[listener]]
}

/** What the routes of the owner listener are built from. */
interface OwnerRoutes extends Pick<OwnerApi, 'accepted' | 'relyingParty'> {
  config: AuthorityConfig
  notifiers: ReadonlyMap<AuthorityCell, Notifier | undefined>
  ownerUrl: () => string
}

/** The page, if it is wanted and was built. Its files are no API, so no document describes them. */
function consoleRoutes(
  app: HttpServer,
  { issuer, keys, log }: Authority,
  { config, accepted, relyingParty }: OwnerRoutes,
): void {
  const files = config.console ? readConsole() : undefined
  const { consoleClient: clientId, consoleScope: scope, oidcAudience: audience } = config
  const { deviceKeys, realm } = accepted
  const login =
    realm === undefined || clientId === undefined || audience === undefined
      ? undefined
      : { realm, clientId, scope, audience }
  if (files !== undefined)
    serveEndpoints(app, { issuer, keys, files, deviceKeys, relyingParty, login }, CONSOLE)
  else if (config.console) log.warn('the page of owners is not served: npm run console builds it')
}

interface PublicRoutes {
  ownerUrl: string
  /** Undefined: no sidecar is given a lease. */
  streams: ReadonlyMap<AuthorityCell, LeaseStreams> | undefined
}

function publicRoutes(
  app: HttpServer,
  cells: Cells<AuthorityCell>,
  { ownerUrl, streams }: PublicRoutes,
): void {
  const { authority } = cells.home
  const authorities = each(cells, cell => cell.authority)
  const base = signatureBase(authority.issuer)
  const owners = cells.all.length === 1 ? undefined : ownersOf(cells.home.database)
  cells.serve(
    app,
    each(cells, cell => surfaceOf(cell.authority, { ownerUrl, owners, leases: streams !== undefined })),
    SURFACE,
  )
  if (streams !== undefined) leaseRoutes(app, cells, streams)
  cells.serve(
    app,
    each(cells, cell => ({ ...cell.authority, base })),
    [REGISTER],
  )
  cells.serve(app, authorities, [NOTICE])
  if (authority.tallies.issuers.length > 0) cells.serve(app, authorities, [QUOTE_ENDPOINT, VERDICT_ENDPOINT])
  serveEndpoints(app, createCountedRegistry(...cells.all.map(({ database }) => database.db)), [
    REGISTRY_ENDPOINT,
  ])
  serveEndpoints(
    app,
    openApiDocument(described('public', authority), aboutListener.public(authority.issuer)),
    [OPENAPI_ENDPOINT],
  )
}

function leaseRoutes(
  app: HttpServer,
  cells: Cells<AuthorityCell>,
  streams: ReadonlyMap<AuthorityCell, LeaseStreams>,
): void {
  app.addHook('preClose', async () => {
    for (const open of streams.values()) open.end()
  })
  const leasing = each(cells, cell => {
    const { authority, database } = cell
    return { database, guard: createPatGuard(authority), onBehalfOf, streams: streams.get(cell)! }
  })
  cells.serve(app, leasing, LEASES)
}

function ownerRoutes(app: HttpServer, cells: Cells<AuthorityCell>, routes: OwnerRoutes): void {
  const { authority } = cells.home
  const { config, accepted, relyingParty, notifiers, ownerUrl } = routes
  const { heartbeatSeconds, devLoopback, streamsPerOwner: perOwner, streamsMax: inAll } = config
  const streams = { perOwner, inAll }
  const settings = { accepted, relyingParty, heartbeatSeconds, devLoopback, streams }
  const apis = each(cells, cell =>
    createOwnerApi(cell.authority, { ...settings, notifier: notifiers.get(cell) }),
  )
  app.addHook('preClose', async () => {
    for (const api of apis.values()) api.feeds.end()
  })
  cells.serve(app, apis, OWNER_ENDPOINTS)
  if (authority.tallies.issuers.length > 0) cells.serve(app, apis, JOINT_OWNER_ENDPOINTS)
  cells.serve(
    app,
    each(cells, cell => ({ ...cell.authority, ownerUrl })),
    ADMINISTERED_ENDPOINTS,
  )
  consoleRoutes(app, authority, routes)
  serveEndpoints(
    app,
    openApiDocument(described('owner', authority), aboutListener.owner(config.ownerUrl ?? '/')),
    [OPENAPI_ENDPOINT],
  )
}
