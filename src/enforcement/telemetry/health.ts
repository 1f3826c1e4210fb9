/**
 * Owns whether this enforcement point says that it can judge calls, over any protocol. Contract: "Health".
 */

/** Whether checks can be judged: the core sets it, and probes read it. It begins as not serving. */
export interface Health {
  /** Says whether checks can be judged. After `drain` it has no effect. */
  set: (serving: boolean) => void
  /** Stops serving, for good. */
  drain: () => void
  serving: () => boolean
  /** Calls back after every change until the returned function is called. */
  onChange: (listener: () => void) => () => void
}

/** A health that is not serving yet. */
export function createHealth(): Health {
  const listeners = new Set<() => void>()
  let serving = false
  let draining = false
  const change = (next: boolean): void => {
    if (next === serving) return
    serving = next
    for (const listener of listeners) listener()
  }
  return {
    set: next => change(next && !draining),
    drain: () => {
      draining = true
      change(false)
    },
    serving: () => serving,
    onChange: listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
