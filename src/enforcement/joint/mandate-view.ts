/**
 * Owns how old a mandate may be that calls are counted under. Contract: "Authorized call", order 2: it is
 * refreshed in the background, and stays in use for a while if the tally does not answer.
 */
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { deadlineAt, within, type Deadline } from '../deadline.ts'
import type { MandateAnswer } from './tally-client.ts'

export interface MandateViewOptions {
  /** Asks the tally. Throws `temporarily_unavailable` if it gives no answer. */
  read: (deadline: Deadline) => Promise<MandateAnswer>
  /**
   * Milliseconds of a clock that only goes forward, because setting a clock must not make a mandate last
   * longer.
   */
  clock: () => number
}

export interface MandateView {
  /**
   * At most 30 s old, or 300 s if it cannot be read. Rejects `temporarily_unavailable` if it cannot be
   * fetched in time.
   */
  current(deadline: Deadline): Promise<MandateAnswer>
}

const MANDATE_FRESH_AGE_MS = 30_000
const MANDATE_REFRESH_AGE_MS = 15_000
const MANDATE_AGE_MS = 300_000
const MANDATE_RETRY_MS = 1_000
const MANDATE_TIMEOUT_MS = 4_000
/** How long a call waits for a newer mandate than the one that is known and may still be used. */
const PATIENCE_MS = 500

/** Asks nobody until it is first needed. */
export function createMandateView({ read, clock }: MandateViewOptions): MandateView {
  let known: { mandate: MandateAnswer; at: number } | undefined
  let reading: { mandate: Promise<MandateAnswer>; since: number } | undefined
  let failed: { error: unknown; at: number } | undefined

  const age = (): number => (known === undefined ? Infinity : clock() - known.at)
  const ask = async (): Promise<MandateAnswer> => {
    // Its age counts from the request, because the answer may have taken long to arrive.
    const at = clock()
    try {
      const mandate = await read(deadlineAt(at + MANDATE_TIMEOUT_MS, clock))
      known = { mandate, at }
      return mandate
    } catch (error) {
      failed = { error, at: clock() }
      throw error
    } finally {
      reading = undefined
    }
  }
  const refresh = (): { mandate: Promise<MandateAnswer>; since: number } => {
    reading ??= { mandate: ask(), since: clock() }
    // A refresh that no caller waits for reports no failure: the known mandate grows too old, and then its
    // callers get one.
    reading.mandate.catch(() => undefined)
    return reading
  }
  const failedNow = (): boolean =>
    reading === undefined && failed !== undefined && clock() - failed.at < MANDATE_RETRY_MS
  /** A newer one if it comes soon, else the known one. */
  const renewed = async (deadline: Deadline, old: MandateAnswer): Promise<MandateAnswer> => {
    const { mandate, since } = refresh()
    const patience = Math.min(since + PATIENCE_MS - clock(), deadline.remainingMs() / 2)
    const read = await waitAtMost(
      patience,
      mandate.catch(() => old),
    )
    return read === LATE ? old : read
  }

  return {
    async current(deadline) {
      const isUsable = known !== undefined && age() < MANDATE_AGE_MS
      if (isUsable && (age() < MANDATE_REFRESH_AGE_MS || failedNow())) return known!.mandate
      if (isUsable && age() < MANDATE_FRESH_AGE_MS) {
        refresh()
        return known!.mandate
      }
      if (isUsable) return renewed(deadline, known!.mandate)
      // A caller that comes just after a failure gets the same failure, without another request.
      if (failedNow()) throw failed!.error
      return within(deadline, 'the tally', refresh().mandate)
    },
  }
}
