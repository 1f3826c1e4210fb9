/**
 * Owns how much progress of a tool reaches the client: no more than a person can see, and never backwards.
 * Contract: "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a resource
 * cannot fill the client's channel with it.
 */
import type { Progress } from '@modelcontextprotocol/client'
import { createBucket } from '../../../limits/bucket.ts'

/** How many messages one call may cause: so many at once, and one more after each time. */
const PROGRESS_OF_CALL_MAX = 500
const PROGRESS_BURST_MAX = 8
const PROGRESS_MILLISECONDS_EACH = 200

/**
 * Tells the listener of progress that goes forward, 8 times at once, then 5 times a second, and 500
 * times for one call; the rest is dropped. `now` is in milliseconds of a clock that only rises.
 */
export function boundedProgress(
  listener: (progress: Progress) => void,
  now: () => number = () => performance.now(),
): (progress: Progress) => void {
  const mayPass = createBucket({
    burst: PROGRESS_BURST_MAX,
    millisecondsEach: PROGRESS_MILLISECONDS_EACH,
    now,
  })
  let count = 0
  let reached = Number.NEGATIVE_INFINITY
  return report => {
    if (count >= PROGRESS_OF_CALL_MAX || !(report.progress > reached) || !mayPass()) return
    count++
    reached = report.progress
    listener(report)
  }
}
