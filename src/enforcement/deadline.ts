/**
 * Owns how long one check may wait. Contract: "Authorized call": a grant must not be spent for an answer that
 * comes too late, so every wait ends a margin before the caller's own deadline, with a denial.
 */
import { LATE, waitAtMost } from '../limits/patience.ts'
import { outage } from './outage.ts'

export interface Deadline {
  /** Milliseconds left before every wait ends; zero or less when none is left. */
  remainingMs(): number
  /** Called with the time that was spent waiting for the authority, in milliseconds. */
  waited(ms: number): void
}

/** The deadline of one check. The door makes it, by one clock, and the call carries it. */
export interface CheckDeadline extends Deadline {
  /** Until when the caller waits, in milliseconds since the epoch. */
  readonly at: number
  /** Milliseconds until the door must have answered: half a margin before the caller's deadline. */
  answerMs(): number
  /** How many milliseconds were spent waiting for the authority so far. */
  readonly waitedMs: number
}

/** A deadline at a time in milliseconds since the epoch, for work that no caller waits for. */
export function deadlineAt(at: number, clock: () => number, onWaited?: (ms: number) => void): Deadline {
  return { remainingMs: () => at - clock(), waited: ms => onWaited?.(ms) }
}

/**
 * The deadline of a check whose caller waits until `at`, in milliseconds since the epoch by `clock`. Every
 * wait ends `marginMs` before that.
 */
export function checkDeadline(
  at: number,
  { clock, marginMs }: { clock: () => number; marginMs: number },
): CheckDeadline {
  let waitedMs = 0
  return {
    at,
    remainingMs: () => at - marginMs - clock(),
    answerMs: () => at - marginMs / 2 - clock(),
    waited: ms => void (waitedMs += ms),
    get waitedMs() {
      return waitedMs
    },
  }
}

/**
 * The promise's value, if it comes in time; otherwise a `temporarily_unavailable` refusal that names what was
 * waited for.
 */
export async function within<T>(deadline: Deadline, what: string, promise: Promise<T>): Promise<T> {
  const value = await waitAtMost(deadline.remainingMs(), promise)
  if (value === LATE) throw outage(`There was no time left to wait for ${what}.`)
  return value
}
