/**
 * The meaning of access reports' numbers: each run of an enforcement point numbers the calls it lets through
 * from 1, so a missing number is a call that its owner did not learn of. Contract: "Events" (row 2).
 */

/** A range of numbers that did not come, both ends included. */
export interface Gap {
  from: number
  to: number
}

/**
 * The gaps between `after`, up to which everything was settled before, and `upTo`, given the numbers that
 * came now (in any order, even twice). Numbers up to `after` are settled: they neither open nor close a gap.
 */
export function gapsBetween(after: number, upTo: number, numbers: readonly number[]): Gap[] {
  const gaps: Gap[] = []
  let settled = after
  for (const n of [...numbers, upTo + 1].toSorted((a, b) => a - b)) {
    if (n > settled + 1 && n <= upTo + 1) gaps.push({ from: settled + 1, to: n - 1 })
    settled = Math.max(settled, n)
  }
  return gaps
}
