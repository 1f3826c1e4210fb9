/**
 * Owns the start of a party with a database: it opens what it works with, begins its background work, then
 * binds the listener of its metrics and its own listeners, one after the other. It knows no party. Contract:
 * "Parties" and "Health".
 */
import type { OnUndeclared } from './servers/endpoint.ts'
import type { ListenAddress } from './servers/listen-address.ts'
import { createLogger, type Logger, type LogLevel } from './telemetry/log.ts'
import type { RequestObserver } from './telemetry/metrics.ts'
import { startServed, type ServedParty, type Starting } from './process.ts'
import type { ServerMetrics } from './telemetry/server-metrics.ts'
import { createHttpServer, type HttpServer, type HttpServerOptions } from './servers/server.ts'
import { openSurroundings, warnOfExposure, type SurroundingsConfig } from './surroundings.ts'

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

/** What a party opens its database with. */
export interface Opening {
  localClock: () => number
  log: Logger
  lockTimeoutMs: number | undefined
  /** Everything that is opened adds here how to close it. The last one opened is closed first. */
  closers: Starting['closers']
}

/** One address at which a party serves. */
export interface PartyListener<Address extends ListenAddress | undefined = ListenAddress | undefined> {
  /** Undefined if it is switched off. */
  address: Address
  /** The setting with the address, for the case that it cannot be bound. */
  setting: string
  /**
   * Registers what it serves. Called when the listeners before it are bound; `bound` has their addresses, by
   * name.
   */
  routes: (app: HttpServer, bound: Readonly<Record<string, string>>) => void
}

/** Something that runs until the party ends. */
interface Worker {
  stop: () => Promise<void>
}

type Listeners = Record<string, PartyListener>
type ListenerHealth = Pick<HttpServerOptions, 'logger' | 'notReady'> & { healthy: () => boolean }

/** What a party serves, and what it does without being asked. */
export interface ServingParty<L extends Listeners, Handles extends object> {
  /** Observes each answer; if it is left out, the metrics alone do. */
  answered?: RequestObserver
  /** Each begins when everything is opened; undefined if there is nothing to do. */
  workers: readonly (() => Worker | undefined)[]
  /** By name, bound in this order. */
  listeners: L
  /** Called when every listener is bound. */
  onServing?: () => void
  /** What the caller of the start gets beside the addresses. */
  handles: Handles
}

/** What is particular to one party. */
export interface Party<Opened, M extends ServerMetrics, L extends Listeners, Handles extends object> {
  /** As its command is called, such as `tally`. */
  name: string
  /** What its settings begin with, such as `UMA_TALLY`. */
  prefix: string
  /** The listeners that others may reach. */
  exposed: readonly ListenAddress[]
  database: {
    /** Opens it, with everything else that the party works with. */
    open: (opening: Opening) => Promise<Opened>
    /** Why requests should go to another replica; undefined if there is no reason. */
    fault: (opened: Opened) => Promise<string | undefined>
    /** The refusal for an error that is an outage of it; undefined for any other error. */
    refusalOf: NonNullable<HttpServerOptions['refusalOf']>
  }
  metrics: (opened: Opened, health: ListenerHealth) => M
  serve: (opened: Opened, means: Means<M>) => ServingParty<L, Handles> | Promise<ServingParty<L, Handles>>
}

/** What a party has when it says what it serves. */
export interface Means<M extends ServerMetrics = ServerMetrics> extends Pick<
  Opening,
  'log' | 'localClock' | 'closers'
> {
  metrics: M
}

/** What every party is configured with. */
export interface PartyConfig extends SurroundingsConfig {
  issuer: string
  devLoopback: boolean
  logLevel: LogLevel
  metricsListen: ListenAddress
}

/**
 * Where each listener is, as `host:port` (the real port) or `unix:/path`, by its name: `publicAddress` for
 * `public`. Undefined if it is switched off.
 */
export type Addresses<L extends Listeners> = { metricsAddress: string } & {
  [Name in keyof L & string as `${Name}Address`]: L[Name]['address'] extends ListenAddress
    ? string
    : string | undefined
}

/**
 * Starts a party; if its database or an address is unavailable, rejects and leaves nothing running. While it
 * drains, `/health` says 503 and every answer closes its connection. Closing ends the listeners, lets running
 * requests end, and closes the database.
 */
export async function startParty<
  Opened,
  M extends ServerMetrics,
  L extends Listeners,
  Handles extends object,
>(
  config: PartyConfig,
  options: StartOptions,
  { name, prefix, exposed, database, ...party }: Party<Opened, M, L, Handles>,
): Promise<ServedParty & Addresses<L> & Handles> {
  const { localClock = Date.now, onUndeclared, lockTimeoutMs } = options
  const log = options.log ?? createLogger({ name, level: config.logLevel })
  return startServed(async ({ closers, healthy, open }) => {
    warnOfExposure(log, { ...config, exposed, prefix })
    const opened = await database.open({ localClock, log, lockTimeoutMs, closers })
    const health = { logger: log, healthy, notReady: () => database.fault(opened) }
    const metrics = party.metrics(opened, health)
    const serving = await party.serve(opened, { log, localClock, closers, metrics })
    const { answered = metrics.answered } = serving
    const common = await openSurroundings(config, {
      server: { ...health, onUndeclared, refusalOf: database.refusalOf },
      metrics: { ...metrics, answered },
      shown: { setting: `${prefix}_TLS_CERT_FILE`, url: config.issuer },
      closers,
    })
    for (const start of serving.workers) {
      const worker = start()
      if (worker !== undefined) closers.push(() => worker.stop())
    }
    const bound: Record<string, string> = {}
    bound['metrics'] = await open(metrics.createServer(), config.metricsListen, `${prefix}_METRICS_LISTEN`)
    for (const [listener, { address, setting, routes }] of Object.entries(serving.listeners)) {
      if (address === undefined) continue
      const app = createHttpServer(common)
      routes(app, bound)
      bound[listener] = await open(app, address, setting)
    }
    serving.onServing?.()
    log.info({ issuer: config.issuer, ...bound }, `the ${name} is serving`)
    return { ...addressesOf<L>(serving.listeners, bound), ...serving.handles }
  })
}

function addressesOf<L extends Listeners>(
  listeners: L,
  bound: Readonly<Record<string, string>>,
): Addresses<L> {
  const names = ['metrics', ...Object.keys(listeners)]
  return Object.fromEntries(names.map(name => [`${name}Address`, bound[name]])) as Addresses<L>
}
