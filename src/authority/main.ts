/**
 * Starts and ends the authorization server: one public listener, one of the owner API, one store.
 * Contract: "Parties" (owner's authorization server), "Owner API", "Health".
 */
import type { AuthorityConfig } from '../config.ts'
import { readAuthorityConfig, readEnrolmentConfig, readMigrationConfig } from '../config.ts'
import { serveEndpoints, type OnUndeclared } from '../http/endpoint.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { createOutbound } from '../http/outbound.ts'
import { createRemoteDocuments } from '../http/remote-documents.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi.ts'
import { serveUntilSignalled, startServed, type Served } from '../http/process.ts'
import { openSurroundings, warnOfExposure } from '../http/surroundings.ts'
import { signatureBase } from '../http/signed-request.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { migrate, openDatabase, refuseEarlier } from '../storage/authority/database.ts'
import { awaitDatabase } from '../storage/core/database-wait.ts'
import { ticketKeys } from '../wire/ticket.ts'
import { UsageError } from '../terminal/command.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { createAgentIssuers } from '../surface/agents/agent-issuers.ts'
import { startAnnouncements } from './owner/announcements.ts'
import { createClock, type Clock } from '../surface/clock.ts'
import type { Authority } from './context.ts'
import { issueEnrolmentCode } from './owner/enrolment.ts'
import { openAccepted } from '../credentials/acceptance.ts'
import { createOperatorDocuments } from './agents/operator-documents.ts'
import { createAuthorityMetrics } from './metrics.ts'
import type { AcceptedCredentials } from '../credentials/presentation.ts'
import { aboutListener, ENDPOINTS, OWNER_ENDPOINTS } from './endpoints.ts'
import { createOwnerApi } from './owner/api.ts'
import { provision } from './provision.ts'
import { startCalls } from './organization/calls.ts'
import { startCompliance } from './organization/compliance.ts'
import { createOrganizationClient, type OrganizationClient } from './organization/client.ts'
import { NOTICE } from './organization/notices.ts'
import { startViews } from './organization/views.ts'
import { createPublishedResources } from './registry/published-resources.ts'
import { createRefusalCounts } from './negotiation/refusal-counts.ts'
import { REGISTER } from './protection/registration.ts'
import { createCountedRegistry, REGISTRY_ENDPOINT } from './registry/registry-health.ts'
import { createRegistry } from './registry/registry.ts'
import { startSequencer } from './owner/sequencer.ts'
import { startSweeper } from './sweeper.ts'
import { SURFACE } from '../surface/surface.ts'
import { surfaceOf } from './surface.ts'
import { asOwner } from '../wire/identifiers.ts'

/** An unknown kid may be a key just rotated in; anybody can name one. */
const ISSUER_REFETCH_SECONDS = 60
const RESOURCE_MISS_SECONDS = 30

/**
 * Draining, `/health` says 503 and every answer closes its connection. Closing ends event streams, lets
 * running requests end, and closes the store.
 */
export interface RunningAuthority extends Served {
  /** Where each listener is, as `host:port` (the port really given) or `unix:/path`. */
  publicAddress: string
  ownerAddress: string
  metricsAddress: string
}

export interface StartOptions {
  /** Of this machine, in milliseconds since the epoch. */
  localClock?: (() => number) | undefined
  /** In tests: every answer is held against its declaration. */
  onUndeclared?: OnUndeclared | undefined
}

/** Starts an authority; rejects, with nothing left running, where the store or an address cannot be had. */
export async function startAuthority(
  config: AuthorityConfig,
  { localClock = Date.now, onUndeclared }: StartOptions = {},
): Promise<RunningAuthority> {
  const log = createLogger({ name: 'authority', level: config.logLevel })
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, secondListen: config.ownerListen, prefix: 'UMA_AS' })
    const clock = createClock({ local: localClock, onTurn: fault => logTurn(log, fault) })
    const authority = await openAuthority(config, { log, clock, closers })
    const notReady = () => clock.fault()
    const said = { logger: log, healthy, notReady, onUndeclared, refusalOf: outageRefusal }
    const metrics = createAuthorityMetrics(authority, said)
    const around = await openSurroundings(config, { said, metrics, closers })
    const sweeper = startSweeper(authority, { pauseSeconds: config.sweepSeconds, localClock })
    closers.push(() => sweeper.stop())
    for (const start of [startCalls, startViews, startCompliance]) {
      const started = start(authority)
      if (started !== undefined) closers.push(() => started.stop())
    }
    const serve = (routes: (app: HttpServer) => void, address: AuthorityConfig['listen']) => {
      const app = createHttpServer(around)
      routes(app)
      return open(app, address)
    }
    const metricsAddress = await open(metrics.createServer(), config.metricsListen)
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
      app => ownerRoutes(app, authority, { config, accepted }),
      config.ownerListen,
    )
    const here = `${config.tls === undefined ? 'http' : 'https'}://${ownerAddress}`
    const ownerUrl = config.ownerUrl ?? (config.devLoopback ? here : config.issuer)
    const publicAddress = await serve(app => publicRoutes(app, authority, ownerUrl), config.listen)
    authority.registry.start()
    log.info(
      { issuer: config.issuer, public: publicAddress, owner: ownerAddress, metrics: metricsAddress },
      'the authority is serving',
    )
    return { publicAddress, ownerAddress, metricsAddress }
  })
}

/**
 * `usher authority`: runs until SIGTERM or SIGINT, drains, then ends in order; a second signal ends at once.
 */
export async function runAuthority(): Promise<void> {
  const config = readAuthorityConfig()
  serveUntilSignalled(await startAuthority(config), { name: 'usher authority', drainMs: config.drainMs })
}

/** `usher migrate`: brings the database up to date, and says what it applied. */
export async function runMigrate(): Promise<void> {
  const { databaseUrl: url, databaseWaitSeconds: seconds } = readMigrationConfig()
  await runMigrationCommand(async tell => {
    await awaitDatabase({ url, seconds, tell })
    return migrate(url, tell)
  })
}

/** `usher authority enrol`: prints a one-time code by which the owner enrols her first credential. */
export async function runEnrol({ owner, json }: { owner: string; json?: boolean }): Promise<void> {
  const { databaseUrl, databaseWaitSeconds: seconds, enrolmentSeconds } = readEnrolmentConfig()
  await awaitDatabase({ url: databaseUrl, seconds, tell: line => void process.stderr.write(`${line}\n`) })
  const database = openDatabase({ url: databaseUrl, poolMax: 2 })
  try {
    const issued = await issueEnrolmentCode(database.db, asOwner(owner), enrolmentSeconds)
    if (issued === undefined)
      throw new UsageError(
        `This authority serves no owner ${owner}: name her in the provisioning file first.`,
      )
    if (json === true) process.stdout.write(`${JSON.stringify({ owner, ...issued })}\n`)
    else {
      process.stderr.write(
        `For ${owner} alone, once, until ${issued.expires_at}. She runs: usher owner enrol --code <code>\n`,
      )
      process.stdout.write(`${issued.code}\n`)
    }
  } finally {
    await database.close()
  }
}

function logTurn(log: Logger, fault: string | undefined): void {
  if (fault === undefined) log.info('the clock of this replica is right again: it issues grants')
  else log.error(`${fault}: it issues nothing until its clock is right (introspection goes on)`)
}

async function openAuthority(
  config: AuthorityConfig,
  { log, clock, closers }: { log: Logger; clock: Clock; closers: (() => Promise<void>)[] },
): Promise<Authority> {
  const tell = (line: string): void => log.warn(line)
  await awaitDatabase({ url: config.databaseUrl, seconds: config.databaseWaitSeconds, tell })
  if (config.migrate) {
    const applied = await migrate(config.databaseUrl, tell)
    if (applied.length > 0) log.info({ applied }, 'the database was brought up to date')
  } else await refuseEarlier(config.databaseUrl)
  const onConnectionError = (error: Error): void =>
    log.warn({ err: error }, 'a connection to the database was lost')
  const { databaseUrl: url, poolMax, callPoolMax } = config
  const database = openDatabase({ url, poolMax, callPoolMax, onConnectionError })
  closers.push(() => database.close())
  const sequencer = startSequencer(database.db, { log, sweepSeconds: config.sweepSeconds })
  closers.push(() => sequencer.stop())
  for (const done of await provision(database.db, config.owners))
    log[done.outcome === 'made' ? 'info' : 'warn'](done, `provisioning: ${done.outcome}`)
  const announcements = await startAnnouncements({
    url: config.databaseUrl,
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => announcements.close())
  const [first, ...others] = config.keys
  if (first === undefined) throw new Error('the configuration holds no signing key')
  const keys = [first, ...others] as const
  const now = (): number => Math.floor(clock.now() / 1_000)
  const core = { database, announcements, log, keys, now }
  return {
    issuer: config.issuer,
    specNs: config.specNs,
    aliases: config.aliases ?? [],
    limits: config,
    keys,
    ticketKeys: ticketKeys(keys),
    database,
    announcements,
    ...openRemote(config, now, closers),
    organizations: openOrganizations(config, core, closers),
    ...openRegistry(config, core, closers),
    refusals: createRefusalCounts(database.db),
    log,
    clock,
    now,
  }
}

/**
 * What issuers and operators publish. Two stores, so that operators named by strangers never keep an issuer
 * waiting.
 */
function openRemote(
  config: AuthorityConfig,
  now: () => number,
  closers: (() => Promise<void>)[],
): Pick<Authority, 'issuers' | 'operators'> {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const clock = (): number => Date.now()
  const published = createRemoteDocuments({ outbound, clock, refetchSeconds: ISSUER_REFETCH_SECONDS })
  const operated = createRemoteDocuments({ outbound, clock })
  return {
    issuers: createAgentIssuers(config.agentIssuers ?? [], published, now),
    operators: createOperatorDocuments(operated, now),
  }
}

/**
 * How organizations are asked: connections of their own, so that none keeps an issuer or a resource server
 * waiting.
 */
function openOrganizations(
  config: AuthorityConfig,
  { keys, now }: Pick<Authority, 'keys' | 'now'>,
  closers: (() => Promise<void>)[],
): OrganizationClient {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  closers.push(() => outbound.close())
  const { organizations: issuers = [], issuer: as_uri } = config
  return createOrganizationClient({ issuers, as_uri, key: keys[0], outbound, now })
}

/**
 * What resource servers publish, and when it is pulled. Nothing waits for it: the listeners are up before or
 * after.
 */
function openRegistry(
  config: AuthorityConfig,
  core: Pick<Authority, 'database' | 'announcements' | 'log' | 'keys' | 'now'>,
  closers: (() => Promise<void>)[],
): Pick<Authority, 'published' | 'registry'> {
  const outbound = createOutbound({ devLoopback: config.devLoopback, publicOnly: true })
  const documents = createRemoteDocuments({
    outbound,
    clock: Date.now,
    refetchSeconds: RESOURCE_MISS_SECONDS,
    failureSeconds: RESOURCE_MISS_SECONDS,
  })
  const published = createPublishedResources(documents, config.issuer)
  const registry = createRegistry({
    ...core,
    published,
    outbound,
    key: core.keys[0],
    keepSeconds: config.registrySeconds,
  })
  closers.push(async () => {
    const stopped = registry.stop()
    // What is being fetched ends at once, so that stopping waits for nobody else's server.
    await outbound.close()
    await stopped
  })
  return { published, registry }
}

function publicRoutes(app: HttpServer, authority: Authority, ownerUrl: string): void {
  serveEndpoints(app, surfaceOf(authority, ownerUrl), SURFACE)
  serveEndpoints(app, { ...authority, base: signatureBase(authority.issuer) }, [REGISTER])
  serveEndpoints(app, authority, [NOTICE])
  serveEndpoints(app, createCountedRegistry(authority.database.db), [REGISTRY_ENDPOINT])
  serveEndpoints(app, openApiDocument(ENDPOINTS.public, aboutListener.public(authority.issuer)), [
    OPENAPI_ENDPOINT,
  ])
}

function ownerRoutes(
  app: HttpServer,
  authority: Authority,
  { config, accepted }: { config: AuthorityConfig; accepted: AcceptedCredentials },
): void {
  const { heartbeatSeconds, devLoopback, streamsPerOwner: perOwner, streamsMax: inAll } = config
  const streams = { perOwner, inAll }
  const api = createOwnerApi(authority, { accepted, heartbeatSeconds, devLoopback, streams })
  app.addHook('preClose', async () => api.feeds.end())
  serveEndpoints(app, api, OWNER_ENDPOINTS)
  serveEndpoints(app, openApiDocument(ENDPOINTS.owner, aboutListener.owner(config.ownerUrl ?? '/')), [
    OPENAPI_ENDPOINT,
  ])
}
