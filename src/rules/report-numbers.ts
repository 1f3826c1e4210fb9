/**
 * What the numbers of access reports say: each run of an enforcement point numbers the calls it lets through
 * from 1, so a number that never comes is a call that its owner was not told of. Contract: "Events" (row 2).
 */

/** Numbers that did not come, both ends included. */
export interface Gap {
  from: number
  to: number
}

/**
 * The gaps between `after`, up to which all was settled before, and `upTo`, by the numbers that came now (in
 * any order, also twice). Numbers up to `after` are of what was settled: they open no gap and close none.
 */
export function gapsBetween(after: number, upTo: number, came: readonly number[]): Gap[] {
  const gaps: Gap[] = []
  let settled = after
  for (const n of [...came, upTo + 1].toSorted((a, b) => a - b)) {
    if (n > settled + 1 && n <= upTo + 1) gaps.push({ from: settled + 1, to: n - 1 })
    settled = Math.max(settled, n)
  }
  return gaps
}
