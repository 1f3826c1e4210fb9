/**
 * Owns how many events pass in a time: a burst, and then one more for each pause. Contract: "Limits"; what is
 * beyond is the caller's to drop or to refuse.
 */

/**
 * Says for each event whether it may pass: `burst` at once, and one more for each `millisecondsEach` that
 * went by. `now` is in milliseconds of a clock that only rises.
 */
export function createBucket({
  burst,
  millisecondsEach,
  now,
}: {
  burst: number
  millisecondsEach: number
  now: () => number
}): () => boolean {
  let room = burst
  let last = now()
  return () => {
    const at = now()
    room = Math.min(burst, room + (at - last) / millisecondsEach)
    last = at
    if (room < 1) return false
    room--
    return true
  }
}
