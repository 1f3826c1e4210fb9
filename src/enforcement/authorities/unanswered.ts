/**
 * Owns what becomes of a question to an authority that gets no answer: an introspection that times out, a
 * request whose connection breaks, or a check with no time left to ask. Contract: "Authorized call", "Errors"
 * (`temporarily_unavailable`): each is an outage, so the call is denied with 503 and may be tried again. The
 * call is never allowed, and never refused as if the authority had said no.
 */
import { OutboundFault, plainWords } from '../../http/outbound/outbound.ts'
import type { Deadline } from '../deadline.ts'
import { outage } from '../outage.ts'

/**
 * Throws 503 `temporarily_unavailable` if the authority was not reached or its answer did not come in time;
 * any other error is thrown as it is. The sentence has no address, and the fault is its cause.
 */
export function throwUnansweredAsOutage(error: unknown): never {
  if (!(error instanceof OutboundFault)) throw error
  throw outage(`The authority could not be asked: ${plainWords(error)}.`, error)
}

/**
 * The time-out of a request to the authority, in milliseconds: what the check has left. Throws 503
 * `temporarily_unavailable` if that is nothing.
 */
export function timeLeftToAskMs(deadline: Deadline): number {
  const left = deadline.remainingMs()
  if (left <= 0) throw outage('There was no time left to ask the authority.')
  return left
}
