/**
 * How a command that runs until it is stopped ends: by Ctrl-C, or by a signal. Contract: "Events": for as
 * long as she watches.
 */

/**
 * Runs `work` with a signal that SIGINT and SIGTERM abort; the process then ends by itself, and everything
 * that was printed is flushed.
 */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController()
  const end = (): void => stop.abort()
  process.once('SIGINT', end).once('SIGTERM', end)
  try {
    await work(stop.signal)
  } finally {
    process.off('SIGINT', end).off('SIGTERM', end)
  }
}
