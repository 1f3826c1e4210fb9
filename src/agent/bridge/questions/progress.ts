/**
 * Owns how much progress of a tool reaches the client: no more than a person can see, and never backwards.
 * Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a resource
 * cannot fill the client's channel with it.
 */
import type { Progress } from '@modelcontextprotocol/client'

/** How many messages one call may cause, and how many milliseconds lie between two. */
const NOTIFICATIONS_MAX = 500
const GAP_MILLISECONDS = 200

/**
 * Tells the listener of progress that goes forward, at most 5 times a second and 500 times for one call; the
 * rest is dropped. `now` is in milliseconds of a clock that only rises.
 */
export function boundedProgress(
  listener: (progress: Progress) => void,
  now: () => number = () => performance.now(),
): (progress: Progress) => void {
  let count = 0
  let last = Number.NEGATIVE_INFINITY
  let reached = Number.NEGATIVE_INFINITY
  return report => {
    const at = now()
    if (count >= NOTIFICATIONS_MAX || at - last < GAP_MILLISECONDS || !(report.progress > reached)) return
    count++
    last = at
    reached = report.progress
    listener(report)
  }
}
