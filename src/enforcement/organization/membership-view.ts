/**
 * Owns how old what is known of one owner's membership may be. Contract: "Authorized call", order 2: it is
 * refreshed beside the calls while somebody calls, so that none of them waits for it, and past its age there
 * is no answer.
 */
import type { EnforcedMembership } from '../../wire/enforced-membership.ts'
import { deadlineAt, outage, within, type Deadline } from '../deadline.ts'

export interface MembershipViewOptions {
  /** Asks the organization. Throws `temporarily_unavailable` where it gives no answer. */
  read: (deadline: Deadline) => Promise<EnforcedMembership>
  /** Milliseconds that only go forward, from wherever: no clock that is set may make an answer last. */
  clock: () => number
}

export interface MembershipView {
  /**
   * At most 10 s old. At once where it is known, else a promise; throws or rejects `temporarily_unavailable`
   * where it cannot be had in time.
   */
  current(deadline: Deadline): EnforcedMembership | Promise<EnforcedMembership>
  stop(): void
}

const USED_MS = 10_000
const REFRESHED_MS = 5_000
const RETRIED_MS = 2_000
const FAILED_MS = 1_000
const READ_MS = 4_000
/** For whom nobody called for so long nothing is refreshed. */
const SEEN_MS = 60_000

/** Asks nobody until it is first needed. */
export function createMembershipView({ read, clock }: MembershipViewOptions): MembershipView {
  let known: { membership: EnforcedMembership; at: number } | undefined
  let reading: Promise<EnforcedMembership> | undefined
  let newest: Order | undefined
  let failed: { error: unknown; at: number } | undefined
  let seenAt = -Infinity
  let timer: ReturnType<typeof setTimeout> | undefined
  let stopped = false

  const age = (): number => (known === undefined ? Infinity : clock() - known.at)
  const ask = async (): Promise<EnforcedMembership> => {
    // As old as the question: the answer may have been on its way for long.
    const at = clock()
    const membership = await read(deadlineAt(at + READ_MS, clock))
    if (newest !== undefined && isEarlier(membership, newest))
      throw outage('The organization told of this membership as it was before.')
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
        later(age() < REFRESHED_MS ? REFRESHED_MS - age() : RETRIED_MS)
      })
    return reading
  }
  const later = (ms: number): void => {
    clearTimeout(timer)
    if (stopped) return
    timer = setTimeout(() => {
      if (clock() - seenAt < SEEN_MS) behind()
    }, ms)
    timer.unref()
  }
  /** Who waits for nothing is told of no failure: what is known grows too old, and then its callers are. */
  const behind = (): void => void refresh().catch(() => undefined)

  return {
    current(deadline) {
      seenAt = clock()
      const isKnown = known !== undefined && age() < USED_MS
      if (isKnown) {
        if (age() >= REFRESHED_MS) behind()
        return known!.membership
      }
      // Who comes just after a failure is told of it, and asks nothing more.
      if (reading === undefined && failed !== undefined && clock() - failed.at < FAILED_MS) throw failed.error
      return within(deadline, 'the organization', refresh())
    },
    stop() {
      stopped = true
      clearTimeout(timer)
    },
  }
}

/** Which membership, by when it began, and which state of it. */
interface Order {
  since: number
  view: number
}

function orderOf(membership: EnforcedMembership): Order | undefined {
  return membership.member ? { since: Date.parse(membership.since), view: membership.view } : undefined
}

/** The highest that was seen counts: a lower one is from before, whoever tells of it. */
function isEarlier(membership: EnforcedMembership, newest: Order): boolean {
  const order = orderOf(membership)
  if (order === undefined) return false
  return order.since < newest.since || (order.since === newest.since && order.view < newest.view)
}
