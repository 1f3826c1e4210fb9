/**
 * Owns how a process of ours lives: it starts whole or not at all, serves until it is told to end, drains,
 * then ends in order. Contract: "Health"; what draining is says docs/choices.md, "Health".
 */
import type { ListenAddress } from './listen-address.ts'
import { listen, type HttpServer } from './server.ts'

/** A party that serves. */
export interface Served {
  /** It is to be sent no more requests, and still answers those that come. */
  drain(): void
  /** Lets what runs end, and frees everything. */
  close(): Promise<void>
}

/** What the start of a party is given. */
export interface Starting {
  /** What was opened adds here how it is closed. The last opened is closed first. */
  closers: (() => Promise<void>)[]
  /** What must hear of it at once when the party drains adds itself here. */
  drainers: (() => void)[]
  /** False once the party drains. */
  healthy: () => boolean
  /** Listens, and closes the server with the party. @returns the address as `listen` gives it. */
  open: (app: HttpServer, address: ListenAddress) => Promise<string>
}

/** Starts a party; where `begin` rejects, so does this, and what was opened until then is closed. */
export async function startServed<Told extends object>(
  begin: (starting: Starting) => Promise<Told>,
): Promise<Told & Served> {
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
  const open: Starting['open'] = (app, address) => {
    closers.push(() => app.close())
    return listen(app, address)
  }
  try {
    const told = await begin({ closers, drainers, healthy: () => !draining, open })
    return { ...told, drain, close }
  } catch (error) {
    await close()
    throw error
  }
}

export interface LifeOptions {
  /** As its messages name it, such as `usher sidecar`. */
  name: string
  /** Between the signal and the end: for balancers and gateways to hear of it. */
  drainMs: number
  /** What ends in order is cut after that. */
  closeMsMax?: number
}

const CLOSE_MS_MAX = 10_000

/**
 * On SIGTERM or SIGINT: drains, closes after `drainMs`, and exits 0. A second signal ends at once, and so
 * does an end that fails or takes too long: these exit 1.
 */
export function serveUntilSignalled(
  served: Served,
  { name, drainMs, closeMsMax = CLOSE_MS_MAX }: LifeOptions,
): void {
  const close = (): void => {
    setTimeout(() => fail(name, `${closeMsMax} ms have passed`), closeMsMax).unref()
    served.close().then(
      () => process.exit(0),
      (error: unknown) => fail(name, String(error)),
    )
  }
  const end = (): void => {
    process.off('SIGTERM', end).off('SIGINT', end)
    process.once('SIGTERM', () => process.exit(1)).once('SIGINT', () => process.exit(1))
    served.drain()
    setTimeout(close, drainMs)
  }
  process.on('SIGTERM', end).on('SIGINT', end)
}

function fail(name: string, why: string): never {
  process.stderr.write(`${name} did not end in order: ${why}\n`)
  process.exit(1)
}
