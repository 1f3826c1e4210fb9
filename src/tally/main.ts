/**
 * Starts and ends a tally: one public listener, one of the metrics, one store. Contract: "Parties" (tally),
 * "Tally for a jointly held resource", "Health".
 */
import type { TallyConfig } from '../config.ts'
import { readTallyConfig, readTallyMigrationConfig } from '../config.ts'
import { serveEndpoints, type OnUndeclared } from '../http/endpoint.ts'
import { createJwksCache } from '../http/jwks-cache.ts'
import { createLogger, type Logger } from '../http/log.ts'
import { OPENAPI_ENDPOINT, openApiDocument } from '../http/openapi.ts'
import { createOutbound, openOutbound } from '../http/outbound.ts'
import { createRemoteDocuments } from '../http/remote-documents.ts'
import { runServed, startServed, type Served } from '../http/process.ts'
import { createServerMetrics } from '../http/server-metrics.ts'
import { createHttpServer, type HttpServer } from '../http/server.ts'
import { openSurroundings, warnOfExposure } from '../http/surroundings.ts'
import { listen as listenToDatabase } from '../storage/core/listen.ts'
import { outageRefusal } from '../storage/core/outage.ts'
import { answersNow } from '../storage/core/database-wait.ts'
import { startSweeping } from '../storage/core/sweep.ts'
import { TALLY_DATABASE } from '../storage/tally/database.ts'
import { ACCOUNTS_CHANNEL } from '../storage/tally/negotiations.ts'
import { sweepTally } from '../storage/tally/sweep.ts'
import { createClock, GRANTING, sayTurns, type Clock } from '../surface/clock.ts'
import { createAgentIssuers, type AgentIssuers } from '../surface/agents/agent-issuers.ts'
import { SURFACE } from '../surface/surface.ts'
import { runMigrationCommand } from '../terminal/migration.ts'
import { signingKeys } from '../wire/keys.ts'
import { ticketKeys } from '../wire/ticket.ts'
import type { Tally } from './context.ts'
import { ACCESSES } from './accesses.ts'
import { aboutListener, ENDPOINTS } from './endpoints.ts'
import { MANDATE } from './mandates.ts'
import { createHolderClient } from './holders/client.ts'
import type { Proving } from './holders/proof.ts'
import { createCollector } from './negotiation/collector.ts'
import { createQuotes } from './negotiation/quotes.ts'
import type { Deciding } from './negotiation/decisions.ts'
import type { Negotiating } from './negotiation/negotiations.ts'
import { provision } from './provision.ts'
import { surfaceOf } from './surface.ts'
import { createWakes } from './wakes.ts'
import { WITHDRAWAL } from './withdrawals.ts'

/** An unknown kid may be a key that was just rotated in, but anybody can name an unknown one. */
const ISSUER_REFETCH_SECONDS = 60

/** The context that every endpoint gets. */
type Whole = Tally & Negotiating & Deciding & Proving & { agentIssuers: AgentIssuers }

/**
 * While it drains, `/health` says 503 and every answer closes its connection. Closing lets running requests
 * end, and closes the store.
 */
export interface RunningTally extends Served {
  /** The address of each listener, as `host:port` (the real port) or `unix:/path`. */
  publicAddress: string
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

/** Starts a tally; if the store or an address is unavailable, rejects and leaves nothing running. */
export async function startTally(
  config: TallyConfig,
  {
    localClock = Date.now,
    onUndeclared,
    lockTimeoutMs,
    log = createLogger({ name: 'tally', level: config.logLevel }),
  }: StartOptions = {},
): Promise<RunningTally> {
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, secondListen: config.listen, prefix: 'UMA_TALLY' })
    const clock = createClock({ local: localClock, onTurn: sayTurns(log, GRANTING) })
    const tally = await openTally(config, { log, clock, lockTimeoutMs, closers })
    const notReady = async () => clock.fault() ?? (await tally.database.readFault())
    const said = { logger: log, healthy, notReady, onUndeclared, refusalOf: outageRefusal }
    const { db, pool, callPool } = tally.database
    const { sweepSeconds: pauseSeconds } = config
    const sweeper = startSweeping(limit => sweepTally(db, limit), { pauseSeconds, log })
    closers.push(() => sweeper.stop())
    const databaseAnswers = (): Promise<boolean> => answersNow(pool)
    const pools = { calls: callPool, rest: pool }
    const metrics = createServerMetrics('tally', { pools, clock, databaseAnswers }, said)
    const around = await openSurroundings(config, { said, metrics, closers })
    const metricsAddress = await open(
      metrics.createServer(),
      config.metricsListen,
      'UMA_TALLY_METRICS_LISTEN',
    )
    const app = createHttpServer(around)
    publicRoutes(app, tally)
    const publicAddress = await open(app, config.listen, 'UMA_TALLY_LISTEN')
    log.info(
      { issuer: config.issuer, public: publicAddress, metrics: metricsAddress },
      'the tally is serving',
    )
    return { publicAddress, metricsAddress }
  })
}

/** `usher tally`. */
export async function runTally(): Promise<void> {
  await runServed('tally', readTallyConfig(), startTally)
}

/** `usher tally migrate`: brings the database up to date, and says what it applied. */
export async function runTallyMigrate(): Promise<void> {
  const config = readTallyMigrationConfig()
  await runMigrationCommand(tell => TALLY_DATABASE.migrateOnce(config, tell))
}

async function openTally(
  config: TallyConfig,
  {
    log,
    clock,
    lockTimeoutMs,
    closers,
  }: Pick<StartOptions, 'lockTimeoutMs'> & {
    log: Logger
    clock: Clock
    closers: (() => Promise<void>)[]
  },
): Promise<Whole> {
  const database = await TALLY_DATABASE.openServing({ ...config, lockTimeoutMs }, log)
  closers.push(() => database.close())
  for (const done of await provision(database.db, config.accounts))
    log.info(done, 'a mandate is in force from now on')
  const wakes = createWakes()
  closers.push(async () => wakes.wake())
  const listener = await listenToDatabase({
    url: config.databaseUrl,
    channel: ACCOUNTS_CHANNEL,
    polls: !config.notifies,
    onNotify: account => wakes.wake(account),
    onConnect: () => wakes.wake(),
    onError: error => log.warn({ err: error }, 'listening to the database was interrupted'),
    onClock: reading => clock.take(reading),
  })
  closers.push(() => listener.close())
  const keys = signingKeys(config.keys)
  const core = {
    issuer: config.issuer,
    specNs: config.specNs,
    aliases: config.aliases ?? [],
    limits: config,
    keys,
    ticketKeys: ticketKeys(keys),
    database,
    log,
    clock,
    now: () => Math.floor(clock.now() / 1_000),
  }
  return { ...core, wakes, ...openHolders(config, core, closers), ...openIssuers(config, core, closers) }
}

/** The operator chooses the holders' authorization servers, so they may be in a private network. */
function openHolders(
  { devLoopback }: TallyConfig,
  core: Tally,
  closers: (() => Promise<void>)[],
): Pick<Whole, 'quotes' | 'collector' | 'holderKeys'> {
  const asking = createOutbound({ devLoopback })
  const reading = createOutbound({ devLoopback })
  const { issuer, keys: own } = core
  const holders = createHolderClient({ issuer, key: own[0], outbound: asking, now: () => core.now() })
  const keys = createJwksCache({ outbound: reading, clock: Date.now })
  const collector = createCollector({ ...core, holders, keys })
  closers.push(async () => {
    const stopped = collector.stop()
    // Running questions are aborted, so that stopping does not wait for another server.
    await Promise.all([asking.close(), reading.close()])
    await stopped
  })
  return { quotes: createQuotes(holders, () => performance.now()), collector, holderKeys: keys }
}

function openIssuers(
  { devLoopback, agentIssuers }: TallyConfig,
  core: Pick<Tally, 'now'>,
  closers: (() => Promise<void>)[],
): Pick<Whole, 'agentIssuers'> {
  const outbound = openOutbound({ devLoopback, publicOnly: true }, closers)
  const documents = createRemoteDocuments({
    outbound,
    clock: () => Date.now(),
    refetchSeconds: ISSUER_REFETCH_SECONDS,
  })
  return { agentIssuers: createAgentIssuers(agentIssuers ?? [], documents, () => core.now()) }
}

function publicRoutes(app: HttpServer, tally: Whole): void {
  serveEndpoints(app, surfaceOf(tally), SURFACE)
  serveEndpoints(app, tally, [MANDATE])
  serveEndpoints(app, tally, [WITHDRAWAL, ACCESSES])
  serveEndpoints(app, openApiDocument(ENDPOINTS, aboutListener(tally.issuer)), [OPENAPI_ENDPOINT])
}
