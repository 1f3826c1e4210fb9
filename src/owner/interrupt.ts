/**
 * How a command that runs until it is stopped ends: by Ctrl-C, or by a signal. Contract: "Events": for as
 * long as she watches.
 */
import { untilEnding } from '../terminal/ending.ts'

/**
 * Runs `work` with a signal that a signal to end aborts; the process then ends by itself, and everything
 * that was printed is flushed.
 */
export async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController()
  const done = untilEnding(() => stop.abort())
  try {
    await work(stop.signal)
  } finally {
    done()
  }
}
