/**
 * Owns which signals ask a command that runs on to end. Contract: "Events": for as long as she watches.
 */

/** SIGHUP is what a terminal that is closed, or a connection to it that breaks, sends. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Calls `end` at the first of them. @returns what gives the signals back their own meaning. */
export function untilEnding(end: () => void): () => void {
  for (const signal of ENDING) process.once(signal, end)
  return () => {
    for (const signal of ENDING) process.off(signal, end)
  }
}
