/**
 * Owns the repetition of background work with pauses in between. Contract: "Limits" (lifetimes): sweeping and
 * sending, in the background.
 */

/** Work that repeats until it is stopped. */
export interface Repetition {
  /** Begins nothing more, and waits for running work. */
  stop(): Promise<void>
}

/** Work that can be had sooner. */
export interface WakeableRepetition extends Repetition {
  /** Ends the pause; if the work is running, it runs once more right after. */
  wake(): void
}

/**
 * Runs `work` after each pause of `pauseSeconds`, or when it is woken; never twice at once. `work` may ask
 * `stopped` whether it should end early; an error that it throws goes to `onError`, and it still runs again.
 */
export function startRepeating(
  work: (stopped: () => boolean) => Promise<void>,
  { pauseSeconds, onError }: { pauseSeconds: number; onError: (error: unknown) => void },
): WakeableRepetition {
  let stopped = false
  let running: Promise<void> | undefined
  let needsRun = false
  let timer: ReturnType<typeof setTimeout>
  const begin = (): void => {
    clearTimeout(timer)
    needsRun = false
    running = work(() => stopped)
      .catch(onError)
      .then(() => {
        running = undefined
        if (!stopped) later()
      })
  }
  const later = (): void => {
    if (needsRun) return begin()
    timer = setTimeout(begin, pauseSeconds * 1_000)
    timer.unref()
  }
  later()
  return {
    wake() {
      needsRun = true
      if (!stopped && running === undefined) begin()
    },
    async stop() {
      stopped = true
      clearTimeout(timer)
      await running
    },
  }
}
