/**
 * How a command that goes on by itself ends: by Ctrl-C, or when it is asked to. Contract: "Events": for as
 * long as she looks.
 */

/**
 * Runs `work` with a signal that SIGINT and SIGTERM abort; the process then ends by itself, with what was
 * printed kept.
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
