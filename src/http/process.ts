/**
 * Owns how a process of ours lives: it serves until it is told to end, drains, then ends in order. contract, "Health"; what
 * draining is says docs/choices.md, "Health".
 */

/** A party that serves. */
export interface Served {
  /** It is to be sent no more requests, and still answers those that come. */
  drain(): void
  /** Lets what runs end, and frees everything. */
  close(): Promise<void>
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
 * On SIGTERM or SIGINT: drains, closes after `drainMs`, and exits 0. A second signal ends at once, and so does an end that fails
 * or takes too long: these exit 1.
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
