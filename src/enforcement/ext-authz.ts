/**
 * Owns the ext_authz door: bytes of a CheckRequest in, bytes of a CheckResponse out, and never anything else. contract, "Resource
 * server enforcement point" and "Errors": whatever fails here is a denial, so that a proxy set to let failures pass still refuses.
 */
import { Refusal } from '../wire/refusal.ts'
import type { Call, Denied, Outcome } from './call.ts'
import { readCheckRequest, type CheckTransport } from './check-request.ts'
import { OUTAGE, writeOutcome } from './check-response.ts'
import { tooLate } from './deadline.ts'
import { denialOf } from './denial.ts'

/** What stands behind the door. */
export interface CheckDoor {
  /** Judges one call. May throw a Refusal; anything else thrown is our outage. */
  decide: (call: Call) => Promise<Outcome>
  /** The cap on a body, in bytes: equal to the proxy's max_request_bytes. */
  bodyBytesMax: number
  /** How long before the proxy's deadline an answer must be under way, in milliseconds. */
  deadlineMarginMs: number
  /** Told of every fault that is no Refusal, with the call as far as it was read. */
  report?: ((fault: unknown, call: Call | undefined) => void) | undefined
  /** Told, of every call that `decide` judged in time, how long it was here beside waiting for the authority, in milliseconds. */
  onAnswered?: ((ownMs: number) => void) | undefined
  /** Told of every denial that `decide` had no part in: the call could not be read, came too late, or ended in the gRPC library. */
  onUnjudged?: ((denied: Denied, call: Call | undefined) => void) | undefined
}

const TIMER_MS_MAX = 2_147_483_647

/** The answer to one check. Never rejects, and allows only what `decide` allowed in time. */
export async function answerCheck(
  bytes: Buffer,
  transport: CheckTransport,
  door: CheckDoor,
): Promise<Buffer> {
  const enteredAt = performance.now()
  let call: Call | undefined
  try {
    call = readCheckRequest(bytes, transport, door.bodyBytesMax)
    refuseLate(call, door)
  } catch (thrown) {
    return denyUnjudged(thrown, door, call)
  }
  try {
    const outcome = await decideInTime(call, door)
    const answer = writeOutcome(outcome, call.headers)
    const { waitedMs } = outcome
    if (waitedMs !== undefined) tell(() => door.onAnswered?.(performance.now() - enteredAt - waitedMs))
    return answer
  } catch (thrown) {
    return writeDenial(denialOf(thrown), { thrown, call }, door)
  }
}

/** The denial of a call that `decide` never sees. */
export function denyUnjudged(thrown: unknown, door: CheckDoor, call?: Call): Buffer {
  const denied = denialOf(thrown)
  tell(() => door.onUnjudged?.(denied, call))
  return writeDenial(denied, { thrown }, door)
}

function writeDenial(
  denied: Denied,
  { thrown, call }: { thrown: unknown; call?: Call },
  door: CheckDoor,
): Buffer {
  if (!(thrown instanceof Refusal)) tell(() => door.report?.(thrown, call))
  try {
    return writeOutcome(denied, new Map())
  } catch (fault) {
    tell(() => door.report?.(fault, call))
    return OUTAGE
  }
}

/** A call that comes within the guard's margin is not judged: nobody would wait for the answer. */
function refuseLate(call: Call, door: CheckDoor): void {
  if (guardMs(call, door) <= 0) throw tooLate()
}

/** The last guard on time: `decide` ends its own waits a whole margin early, this one ends `decide` half a margin early. */
async function decideInTime(call: Call, door: CheckDoor): Promise<Outcome> {
  if (call.deadlineAt === undefined) return door.decide(call)
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Outcome>(resolve => {
    timer = setTimeout(() => resolve(denialOf(tooLate())), Math.min(guardMs(call, door), TIMER_MS_MAX))
  })
  try {
    return await Promise.race([door.decide(call), late])
  } finally {
    clearTimeout(timer)
  }
}

function guardMs({ deadlineAt }: Call, { deadlineMarginMs }: CheckDoor): number {
  return deadlineAt === undefined ? Infinity : deadlineAt - deadlineMarginMs / 2 - Date.now()
}

/** A listener that fails must not turn a denial into a gRPC error. */
function tell(listener: () => void): void {
  try {
    listener()
  } catch {
    // Nobody is left to tell.
  }
}
