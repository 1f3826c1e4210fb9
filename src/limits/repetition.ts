/**
 * Owns doing something again and again with pauses between. Contract: "Limits" (lifetimes): sweeping and
 * telling, beside what is served.
 */

/** Something that goes on until it is stopped. */
export interface Repetition {
  /** Begins nothing more, and waits for what runs. */
  stop(): Promise<void>
}

/**
 * Runs `work` after each pause of `pauseSeconds`; never twice at once. `work` may ask `stopped` whether it
 * should end early; what it throws is told to `onError`, and it is run again all the same.
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
