/**
 * Owns the rules on words: a refusal has a cause in the history, and an outage has one, too. contract,
 * "Errors": an outage is never shown as a denial, nor a denial as an outage.
 */
import type { Indexed } from './indexed.ts'
import { done, end, may, type Call, type End, type Op, type Present, type Violation } from './record.ts'

/** What was refused without cause, or not answered without one. */
export function justifiedRules(indexed: Indexed): Violation[] {
  return indexed.history.flatMap(op => {
    const found: Violation[] = []
    if (op.outcome === 'refused' && op.op === 'call' && !isCallRefused(indexed, op))
      found.push(wrong('refused', `a call was refused ${op.code} without cause`, op))
    if (op.outcome === 'refused' && op.op === 'present' && !isPresentRefused(indexed, op))
      found.push(wrong('refused', `a ticket was refused ${op.code} without cause`, op))
    if (op.code?.startsWith('server_error') === true)
      found.push(wrong('refused', 'a fault of ours was shown', op))
    if (
      op.op === 'call' &&
      (op.outcome === 'unknown' || op.outcome === 'away') &&
      op.until !== Infinity &&
      !isDisturbed(indexed, op)
    )
      found.push(wrong('outage', `a sidecar that was there gave no answer: ${op.code}`, op))
    if (op.quiet === true && op.outcome !== 'done' && op.outcome !== 'refused')
      found.push(wrong('outage', `${op.op} had no answer though nothing was disturbed: ${op.code}`, op))
    return found
  })
}

/** The clocks of this machine and of a token, in whole seconds, differ by less. */
const CLOCK_SECONDS = 2

function isCallRefused(indexed: Indexed, op: Call): boolean {
  const known = indexed.grants.get(op.jti)
  if (known === undefined) return op.code === 'insufficient_authorization'
  const { grant, by } = known
  const ended = (indexed.endsOf.get(grant.handle) ?? []).some(one => one.at < op.until && end(one) > by.at)
  const expired = op.until / 1_000 >= grant.exp - CLOCK_SECONDS - (indexed.cast.clocksApartMs ?? 0) / 1_000
  const others = indexed.callsOf.get(op.jti) ?? []
  const spent = grant.single && others.some(one => one !== op && one.exact && may(one) && one.at < op.until)
  switch (op.code) {
    case 'access_revoked':
      return ended
    case 'insufficient_authorization':
      return ended || spent || expired
    case 'already_consumed':
      return spent
    case 'expired':
      return expired
    case 'revoked':
      return ended
    case 'operation_mismatch':
    case 'invalid_token':
      return !op.exact
    default:
      return false
  }
}

/** A ticket lives at least so long, with what may pass between its making and its answer. */
const TICKET_MS = 240_000

function isPresentRefused(indexed: Indexed, op: Present): boolean {
  const { presentsOf, families, alike, denials } = indexed
  const again = (presentsOf.get(op.ticket) ?? []).some(one => one !== op && one.at < op.until)
  const { presents } = (op.family === undefined ? undefined : families.get(op.family)) ?? NOTHING
  const began = Math.min(op.at, ...presents.map(({ at }) => at))
  const ended = op.family !== undefined && isEndedSince(indexed, op, began)
  /** Of the family that it joined, maybe. */
  const denied = (denials.get(op.handle) ?? []).some(one => one.at < op.until && end(one) > began)
  const overtaken = alike
    .get(op.same ?? '')
    ?.some(one => one !== op && may(one) && one.at < op.until && end(one) > began)
  switch (op.code) {
    case 'invalid_grant':
      return again || ended || overtaken === true || op.at - began > TICKET_MS
    case 'request_denied':
      return ended || denied
    case 'queue_full':
      return true
    default:
      return false
  }
}

const NOTHING = { presents: [] }

/** Whether the agent's connection ended since its negotiation began, or its operator was blocked then. */
function isEndedSince({ endsOf, unblocks }: Indexed, { handle, until }: Present, began: number): boolean {
  const isFree = (block: End): boolean =>
    unblocks.some(
      one =>
        done(one) &&
        one.owner === block.owner &&
        one.whom === block.whom &&
        one.at > end(block) &&
        one.until < began,
    )
  return (endsOf.get(handle) ?? []).some(
    one => one.at < until && (end(one) > began || (one.op === 'block' && !isFree(one))),
  )
}

/** Whether something was done to whom was asked, while it was asked. */
function isDisturbed({ faults }: Indexed, { via, at, until }: Call): boolean {
  return faults.some(fault => fault.via === via && fault.at < until && fault.until > at)
}

function wrong(rule: string, says: string, op: Op): Violation {
  return { rule, says, ops: [op.n] }
}
