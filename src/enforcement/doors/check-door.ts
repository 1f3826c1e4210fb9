/**
 * Owns what every door to a gateway does with one call, in any protocol: it reads the call, gets a decision
 * in time, and always answers. Contract: "Resource server enforcement point" and "Errors": every failure here
 * is a denial.
 */
import { LATE, waitAtMost } from '../../limits/patience.ts'
import { Refusal } from '../../wire/refusal.ts'
import type { Call, Denied, Outcome } from '../call.ts'
import { checkDeadline, type CheckDeadline } from '../deadline.ts'
import { pastProxyDeadline } from '../outage.ts'
import { denialOf } from '../denial.ts'
import type { HeaderLines } from '../request/header-lines.ts'

/** The parts behind the door. */
export interface CheckDoor {
  /** Judges one call. May throw a Refusal; anything else thrown is our outage. */
  decide: (call: Call) => Promise<Outcome>
  /** The cap on a body, in bytes: equal to the proxy's max_request_bytes. */
  bodyBytesMax: number
  /**
   * How long before the proxy's deadline every wait ends, in milliseconds. An answer is sent half of that
   * before it.
   */
  deadlineMarginMs: number
  /** Judges deadlines, in milliseconds since the epoch; that of this machine if left out. */
  clock?: (() => number) | undefined
  /** Called with every fault that is no Refusal, and with the part of the call that was read. */
  report?: ((fault: unknown, call: Call | undefined) => void) | undefined
  /**
   * Called for every call that `decide` judged in time, with its time here except for waiting for the
   * authority, in milliseconds.
   */
  onAnswered?: ((ownMs: number) => void) | undefined
  /**
   * Called for every denial without `decide`: the call could not be read, came too late, or ended in the gRPC
   * library.
   */
  onUnjudged?: ((denied: Denied, call: Call | undefined) => void) | undefined
}

/** How a door writes an outcome. */
export interface AnswerWriter<Answer> {
  /**
   * `received`: the header fields of the call, as far as they were read. May throw; the answer is then
   * `outage`.
   */
  write: (outcome: Outcome, received: HeaderLines) => Answer
  /** The answer of last resort, made before anything can go wrong. */
  outage: Answer
}

/** Throws unless an answer that is about to leave keeps a rule of its form. */
export function assert(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new Error(`the answer to a check breaks a rule: ${rule}`)
}

/** The answer to one call. Never rejects, and allows only what `decide` allowed in time. */
export async function answerCall<Answer>(
  read: () => Call,
  door: CheckDoor,
  writer: AnswerWriter<Answer>,
): Promise<Answer> {
  const enteredAt = performance.now()
  let call: Call | undefined
  try {
    call = read()
    if (timeLeftMs(call) <= 0) throw pastProxyDeadline()
  } catch (thrown) {
    return denyUnjudged(thrown, { door, writer }, call)
  }
  try {
    const decided = await waitAtMost(timeLeftMs(call), door.decide(call))
    const outcome = decided === LATE ? denialOf(pastProxyDeadline()) : decided
    const answer = writer.write(outcome, call.headers)
    const { waitedMs } = outcome
    if (waitedMs !== undefined) tell(() => door.onAnswered?.(performance.now() - enteredAt - waitedMs))
    return answer
  } catch (thrown) {
    tellFault(thrown, call, door)
    return writeDenial(denialOf(thrown), door, writer)
  }
}

/** The denial of a call that `decide` never sees. */
export function denyUnjudged<Answer>(
  thrown: unknown,
  { door, writer }: { door: CheckDoor; writer: AnswerWriter<Answer> },
  call?: Call,
): Answer {
  const denied = denialOf(thrown)
  tell(() => door.onUnjudged?.(denied, call))
  tellFault(thrown, call, door)
  return writeDenial(denied, door, writer)
}

function tellFault(thrown: unknown, call: Call | undefined, door: CheckDoor): void {
  if (!(thrown instanceof Refusal)) tell(() => door.report?.(thrown, call))
}

function writeDenial<Answer>(denied: Denied, door: CheckDoor, writer: AnswerWriter<Answer>): Answer {
  try {
    return writer.write(denied, new Map())
  } catch (fault) {
    tell(() => door.report?.(fault, undefined))
    return writer.outage
  }
}

/** The one deadline of a call whose proxy waits until `at`, in milliseconds since the epoch. */
export function deadlineOf(
  at: number,
  { clock = Date.now, deadlineMarginMs: marginMs }: Pick<CheckDoor, 'clock' | 'deadlineMarginMs'>,
): CheckDeadline {
  return checkDeadline(at, { clock, marginMs })
}

const timeLeftMs = ({ deadline }: Call): number => deadline?.answerMs() ?? Infinity

/** A listener that fails must not turn a denial into a gRPC error. */
function tell(listener: () => void): void {
  try {
    listener()
  } catch {
    // Nobody is left to answer.
  }
}
