/**
 * Owns what an enforcement point holds against `judged` in an authority's answers about one owner: a clock
 * that is far from ours, and a count of ends that is lower than one which it sent before, as after a restore
 * that nobody announced. Extension: docs/choices.md, "What judged a call". Contract: "Grant (RPT) liveness".
 */
import { readOwnerEnds, type OwnerEnds } from '../../wire/documents/owner-ends.ts'
import { outage } from '../outage.ts'

/** How far the database's time may be from ours, in milliseconds. */
const CLOCKS_APART_MS = 60_000

export interface EndsWatch {
  /** The count of ends that every answer to a question from now on must have reached. */
  expected: () => number
  /**
   * Takes `judged` of an answer that a grant is live, whose question was asked when `expected` was known.
   * Refuses `temporarily_unavailable` (503) if nothing can be concluded from such an answer; undefined if the
   * answer has none.
   */
  takeLive: (value: unknown, expected: number) => OwnerEnds | undefined
  /**
   * Takes `judged` of a consume that won: what it spent is spent. Undefined also if its time is too far
   * behind ours, because by such a record we would have let the call through too late.
   */
  takeSpent: (value: unknown) => OwnerEnds | undefined
}

/** Has note nothing yet. `clock`: milliseconds since the epoch. */
export function createEndsWatch({ clock }: { clock: () => number }): EndsWatch {
  let endsMost = 0
  const note = (value: unknown): OwnerEnds | undefined => {
    const judged = readOwnerEnds(value)
    if (judged !== undefined) endsMost = Math.max(endsMost, judged.ends)
    return judged
  }
  return {
    expected: () => endsMost,
    takeLive: (value, expected) => {
      const judged = note(value)
      if (judged === undefined) return undefined
      const apartMs = Math.abs(judged.at - clock())
      if (apartMs > CLOCKS_APART_MS)
        throw outage(
          `The clock of the authority's database is ${Math.round(apartMs / 1_000)} s from the clock here: set both by NTP.`,
        )
      if (judged.ends < expected)
        throw outage(
          `The authority knows of ${judged.ends} acts that ended something of this owner's, and knew of ${expected} before: if its database was restored, run \`usher authority after-restore\`.`,
        )
      return judged
    },
    takeSpent: value => {
      const judged = note(value)
      return judged !== undefined && judged.at < clock() - CLOCKS_APART_MS ? undefined : judged
    },
  }
}
