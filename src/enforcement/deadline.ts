/**
 * Owns how long one check may wait. Contract: "Authorized call": a grant must not be spent for an answer that
 * comes too late, so every wait ends a margin before the caller's own deadline, with a denial.
 */
import { LATE, waitAtMost } from '../limits/patience.ts'
import { Refusal } from '../wire/refusal.ts'
import type { Call } from './call.ts'

export interface Deadline {
  /** Milliseconds left before every wait ends; zero or less when none is left. */
  remainingMs(): number
  /** Called with the time that was spent waiting for the authority, in milliseconds. */
  waited(ms: number): void
}

/** The time limits of a check. */
export interface Timing {
  /** Milliseconds since the epoch. */
  clock: () => number
  /** The time limit of a check whose caller names no deadline. */
  deadlineMs: number
  /** How long before the caller's deadline every wait ends; the door answers half of that time before it. */
  deadlineMarginMs: number
}

/** A deadline at a time in milliseconds since the epoch, for work that no caller waits for. */
export function deadlineAt(at: number, clock: () => number, onWaited?: (ms: number) => void): Deadline {
  return { remainingMs: () => at - clock(), waited: ms => onWaited?.(ms) }
}

/** The deadline of one check. The time that it waits is added to `tally.waitedMs`. */
export function deadlineOf(
  call: Pick<Call, 'deadlineAt'>,
  tally: { waitedMs: number },
  { clock, deadlineMs, deadlineMarginMs }: Timing,
): Deadline {
  const at = (call.deadlineAt ?? clock() + deadlineMs) - deadlineMarginMs
  return deadlineAt(at, clock, ms => void (tally.waitedMs += ms))
}

/**
 * Milliseconds until the door must have answered: half a margin before the caller's deadline; without one,
 * Infinity.
 */
export function answerTimeMs(call: Pick<Call, 'deadlineAt'>, marginMs: number, now: number): number {
  return call.deadlineAt === undefined ? Infinity : call.deadlineAt - marginMs / 2 - now
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

/** Our own outage or the authority's, as a denial that may be retried: 503 `temporarily_unavailable`. */
export function outage(detail: string, cause?: unknown): Refusal {
  return new Refusal('temporarily_unavailable', detail, { status: 503, cause })
}

/** Our own outage, if a grant was about to be spent and was not spent. */
export class UnspentOutage extends Refusal {
  constructor(detail: string) {
    super('temporarily_unavailable', detail, { status: 503 })
  }
}

/** The answer to a caller whose deadline came before our answer. */
export function tooLate(): Refusal {
  return outage('The call was not judged before the deadline of the proxy: try again.')
}
