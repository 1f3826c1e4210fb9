/**
 * Owns the repetition of background work with pauses in between. Contract: "Limits" (lifetimes): sweeping and
 * sending, in the background.
 */

/** Work that goes on until it is stopped. */
export interface Repetition {
  /** Begins nothing more, and waits for running work. */
  stop(): Promise<void>
}

/**
 * Runs `work` after each pause of `pauseSeconds`; never twice at once. `work` may ask `stopped` whether it
 * should end early; an error that it throws goes to `onError`, and it still runs again.
 */
export function startRepeating(
  work: (stopped: () => boolean) => Promise<void>,
  { pauseSeconds, onError }: { pauseSeconds: number; onError: (error: unknown) => void },
): Repetition {
  let stopped = false
  let running = Promise.resolve()
  let timer: ReturnType<typeof setTimeout>
  const later = (): void => {
    timer = setTimeout(() => {
      running = work(() => stopped)
        .catch(onError)
        .then(() => (stopped ? undefined : later()))
    }, pauseSeconds * 1_000)
    timer.unref()
  }
  later()
  return {
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
