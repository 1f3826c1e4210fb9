/**
 * Owns the life of our processes: a process starts completely or not at all, serves until it is told to end,
 * drains, then ends in order. Contract: "Health"; docs/choices.md, "Health", says what draining is.
 */
import type { ListenAddress } from './servers/listen-address.ts'
import { listenAs } from './servers/listen-fault.ts'
import { createLogger, type Logger, type LogLevel } from './telemetry/log.ts'
import { listen, type HttpServer } from './servers/server.ts'

export interface ServedParty {
  /** It should get no more requests, but still answers those that come. */
  drain(): void
  /** Lets running work end, and frees everything. */
  close(): Promise<void>
  /**
   * What SIGHUP asks for, if it is to read something anew; without it SIGHUP ends the process. At a terminal
   * it always does, since a terminal that is closed sends it.
   */
  onHangup?: () => void
}

/** What the start of a party is given. */
export interface Starting {
  /** Everything that is opened adds here how to close it. The last one opened is closed first. */
  closers: (() => Promise<void>)[]
  /** Everything that must be told at once when the party drains adds itself here. */
  drainers: (() => void)[]
  /** False as soon as the party drains. */
  healthy: () => boolean
  /**
   * Listens, and closes the server with the party. `setting` names the setting with the address, for the case
   * that it cannot be bound. @returns the address as `listen` gives it.
   */
  open: (app: HttpServer, address: ListenAddress, setting: string) => Promise<string>
}

/** Starts a party. If `begin` rejects, so does this, and everything that was opened until then is closed. */
export async function startServed<Party extends object>(
  begin: (starting: Starting) => Promise<Party>,
): Promise<Party & ServedParty> {
  const closers: Starting['closers'] = []
  const drainers: Starting['drainers'] = []
  let draining = false
  const drain = (): void => {
    if (draining) return
    draining = true
    for (const drainOne of drainers) drainOne()
  }
  const close = async (): Promise<void> => {
    drain()
    for (const closeOne of closers.splice(0).reverse()) await closeOne()
  }
  const open: Starting['open'] = (app, address, setting) => {
    closers.push(() => app.close())
    return listenAs(setting, address, () => listen(app, address))
  }
  try {
    const party = await begin({ closers, drainers, healthy: () => !draining, open })
    return { ...party, drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Runs a party as a process of its own: until SIGTERM, SIGINT or SIGHUP (unless the party reads something
 * anew at that), then it drains and ends in order; a second signal ends at once. @param party as its command
 * is called, such as `tally`.
 */
export async function runServed<Config extends { logLevel: LogLevel; drainMs: number }>(
  party: string,
  config: Config,
  start: (config: Config, options: { log: Logger }) => Promise<ServedParty>,
): Promise<void> {
  const log = createLogger({ name: party, level: config.logLevel })
  serveUntilSignalled(await start(config, { log }), { name: `usher ${party}`, drainMs: config.drainMs, log })
}

export interface LifeOptions {
  /** The name in its messages, for example `usher sidecar`. */
  name: string
  /** The time between the signal and the end, so that balancers and gateways notice. */
  drainMs: number
  /** Called when it begins to drain, and when it has ended in order. */
  log: Pick<Logger, 'info'>
  /** How long an orderly end may take before it is cut. */
  closeMsMax?: number
}

const CLOSE_MS_MAX = 10_000

/** Without a listener, SIGHUP (which a closed terminal sends) would end Node at once, amid its calls. */
const ENDING = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

/**
 * On SIGTERM, SIGINT or SIGHUP (which may ask for something else, see `ServedParty`): drains, closes after
 * `drainMs`, and exits 0. A second signal ends the process at once, and so does an end that fails or takes
 * too long; these exit with 1.
 */
export function serveUntilSignalled(
  served: ServedParty,
  { name, drainMs, log, closeMsMax = CLOSE_MS_MAX }: LifeOptions,
): void {
  const { onHangup } = served
  const hangs = onHangup !== undefined && !process.stdin.isTTY
  const ending = ENDING.filter(one => !(hangs && one === 'SIGHUP'))
  const becauseOf = (signal: NodeJS.Signals): string =>
    signal === 'SIGHUP' && onHangup !== undefined
      ? 'draining, because SIGHUP ends what a terminal started: start it with `< /dev/null`, and it reads its file anew'
      : 'draining: it takes no new work, and ends after drain_ms'
  const close = (): void => {
    setTimeout(() => fail(name, `${closeMsMax} ms have passed`), closeMsMax).unref()
    served.close().then(
      () => {
        log.info('ended in order')
        process.exit(0)
      },
      (error: unknown) => fail(name, String(error)),
    )
  }
  const end = (signal: NodeJS.Signals): void => {
    if (hangs) process.off('SIGHUP', onHangup).on('SIGHUP', () => undefined)
    for (const one of ending) process.off(one, end).once(one, () => process.exit(1))
    log.info({ signal, drain_ms: drainMs }, becauseOf(signal))
    served.drain()
    setTimeout(close, drainMs)
  }
  if (hangs) process.on('SIGHUP', onHangup)
  for (const one of ending) process.on(one, end)
}

function fail(name: string, why: string): never {
  process.stderr.write(`${name} did not end in order: ${why}\n`)
  process.exit(1)
}
