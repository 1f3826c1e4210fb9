/**
 * Owns how the end of an enforcement point waits for the calls that it is judging. Contract: "Events", 2: a
 * call may outlive its connection, and it is reported all the same, for its grant may be spent.
 */
import { waitAtMost } from '../limits/patience.ts'
import type { Call, Outcome } from './call.ts'

type CallCheck = (call: Call) => Promise<Outcome>

/** The check, and how to wait, for so many milliseconds at most, until every call is judged. */
export function countingOpen(check: CallCheck): {
  decide: CallCheck
  settled: (withinMs: number) => Promise<unknown>
} {
  const open = new Set<Promise<Outcome>>()
  return {
    decide: async call => {
      const judging = check(call)
      open.add(judging)
      try {
        return await judging
      } finally {
        open.delete(judging)
      }
    },
    settled: withinMs => waitAtMost(withinMs, Promise.allSettled(open)),
  }
}
