/**
 * Owns how old the knowledge about one owner's membership may be. Contract: "Authorized call", order 2: it is
 * refreshed in the background while there are calls, so that no call waits for it. When it is too old, there
 * is no answer.
 */
import type { EnforcedMembership } from '../../wire/documents/enforced-membership.ts'
import { deadlineAt, within, type Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'

export interface MembershipViewOptions {
  /** Asks the organization. Throws `temporarily_unavailable` if it gives no answer. */
  read: (deadline: Deadline) => Promise<EnforcedMembership>
  /**
   * Milliseconds of a clock that only goes forward, because setting a clock must not make an answer last
   * longer.
   */
  clock: () => number
}

export interface MembershipView {
  /**
   * The membership, at most 10 s old. Returned at once if it is known, otherwise as a promise. Throws or
   * rejects `temporarily_unavailable` if it cannot be fetched in time.
   */
  current(deadline: Deadline): EnforcedMembership | Promise<EnforcedMembership>
  stop(): void
}

const VIEW_AGE_MS = 10_000
const VIEW_REFRESH_AGE_MS = 5_000
const VIEW_RETRY_AGE_MS = 2_000
const VIEW_FAILURE_PAUSE_MS = 1_000
const VIEW_TIMEOUT_MS = 4_000
/** After this long without a call, nothing is refreshed. */
const IDLE_MS = 60_000

/** Asks nobody until it is first needed. */
export function createMembershipView({ read, clock }: MembershipViewOptions): MembershipView {
  let known: { membership: EnforcedMembership; at: number } | undefined
  let reading: Promise<EnforcedMembership> | undefined
  let newest: Order | undefined
  let failed: { error: unknown; at: number } | undefined
  let lastCallAt = -Infinity
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = false

  const age = (): number => (known === undefined ? Infinity : clock() - known.at)
  const ask = async (): Promise<EnforcedMembership> => {
    // Its age counts from the request, because the answer may have taken long to arrive.
    const at = clock()
    const membership = await read(deadlineAt(at + VIEW_TIMEOUT_MS, clock))
    if (newest !== undefined && isEarlier(membership, newest))
      throw outage('The organization described an earlier state of this membership.')
    newest = orderOf(membership) ?? newest
    known = { membership, at }
    return membership
  }
  const refresh = (): Promise<EnforcedMembership> => {
    reading ??= ask()
      .catch((error: unknown) => {
        failed = { error, at: clock() }
        throw error
      })
      .finally(() => {
        reading = undefined
        later(age() < VIEW_REFRESH_AGE_MS ? VIEW_REFRESH_AGE_MS - age() : VIEW_RETRY_AGE_MS)
      })
    return reading
  }
  const later = (ms: number): void => {
    clearTimeout(timer)
    if (stopped) return
    timer = setTimeout(() => {
      if (clock() - lastCallAt < IDLE_MS) behind()
    }, ms)
    timer.unref()
  }
  /**
   * A refresh that no caller waits for reports no failure: the known view grows too old, and then its callers
   * get one.
   */
  const behind = (): void => void refresh().catch(() => undefined)

  return {
    current(deadline) {
      lastCallAt = clock()
      const isKnown = known !== undefined && age() < VIEW_AGE_MS
      if (isKnown) {
        if (age() >= VIEW_REFRESH_AGE_MS) behind()
        return known!.membership
      }
      // A caller that comes just after a failure gets the same failure, without another request.
      if (reading === undefined && failed !== undefined && clock() - failed.at < VIEW_FAILURE_PAUSE_MS)
        throw failed.error
      return within(deadline, 'the organization', refresh())
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** Which membership, identified by when it began, and which state of it. */
interface Order {
  since: number
  view: number
}

function orderOf(membership: EnforcedMembership): Order | undefined {
  return membership.member ? { since: Date.parse(membership.since), view: membership.view } : undefined
}

/** The highest state that was seen counts: a lower one is older, whatever reports it. */
function isEarlier(membership: EnforcedMembership, newest: Order): boolean {
  const order = orderOf(membership)
  if (order === undefined) return false
  return order.since < newest.since || (order.since === newest.since && order.view < newest.view)
}
