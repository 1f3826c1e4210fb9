/**
 * Owns how long we wait for others. Contract: "Limits" (time-outs are ours to choose).
 */

/** The result in place of work that was not done in time. */
export const LATE = Symbol('late')

/** The longest that a timer of Node can be set for. */
const TIMER_MS_MAX = 2_147_483_647

/**
 * Waits for `work`, at most `ms`. The work continues afterwards, for later callers, and a later failure of it
 * is ignored. `Infinity` sets no timer.
 */
export function waitAtMost<T>(ms: number, work: Promise<T>): Promise<T | typeof LATE> {
  if (ms === Infinity) return work
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(LATE), Math.min(Math.max(0, ms), TIMER_MS_MAX))
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
