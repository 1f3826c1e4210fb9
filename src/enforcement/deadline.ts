/**
 * Owns how long one check may wait. contract, "Authorized call": a grant must not be spent for an answer that comes too late, so
 * every wait ends a margin before the caller's own deadline, with a denial.
 */
import { LATE, waitAtMost } from '../limits/patience.ts'
import { Refusal } from '../wire/refusal.ts'

export interface Deadline {
  /** Milliseconds left before every wait ends; zero or less when none is left. */
  remainingMs(): number
  /** Whether the caller has gone away. */
  cancelled(): boolean
  /** Told of time that went by waiting for the authority, in milliseconds. */
  waited(ms: number): void
}

export interface DeadlineOptions {
  /** When the caller stops waiting, in milliseconds since the epoch. */
  at: number
  marginMs: number
  /** Milliseconds since the epoch. */
  clock: () => number
  signal?: AbortSignal | undefined
  onWaited?: ((ms: number) => void) | undefined
}

/** The deadline of one check. */
export function deadlineOf({ at, marginMs, clock, signal, onWaited }: DeadlineOptions): Deadline {
  return {
    remainingMs: () => at - marginMs - clock(),
    cancelled: () => signal?.aborted ?? false,
    waited: ms => onWaited?.(ms),
  }
}

/** The promise's value, if it comes in time; else a `temporarily_unavailable` refusal naming what was waited for. */
export async function within<T>(deadline: Deadline, what: string, promise: Promise<T>): Promise<T> {
  const value = await waitAtMost(deadline.remainingMs(), promise)
  if (value === LATE) throw outage(`There was no time left to wait for ${what}.`)
  return value
}

/** Our own outage or the authority's, told as a denial that may be tried again: 503 `temporarily_unavailable`. */
export function outage(detail: string, cause?: unknown): Refusal {
  return new Refusal('temporarily_unavailable', detail, { status: 503, cause })
}

/** What a caller is told whose deadline came before our answer. */
export function tooLate(): Refusal {
  return outage('The call was not judged before the deadline of the proxy: try again.')
}
