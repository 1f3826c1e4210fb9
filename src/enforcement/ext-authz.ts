/**
 * Owns the ext_authz door: bytes of a CheckRequest in, bytes of a CheckResponse out, and never anything else. contract, "Resource
 * server enforcement point" and "Errors": whatever fails here is a denial, so that a proxy set to let failures pass still refuses.
 */
import { Refusal } from '../wire/refusal.ts'
import type { Call, Outcome } from './call.ts'
import { readCheckRequest, type CheckTransport } from './check-request.ts'
import { OUTAGE, writeOutcome } from './check-response.ts'
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
}

const TIMER_MS_MAX = 2_147_483_647

/** The answer to one check. Never rejects, and allows only what `decide` allowed in time. */
export async function answerCheck(
  bytes: Buffer,
  transport: CheckTransport,
  door: CheckDoor,
): Promise<Buffer> {
  let call: Call | undefined
  try {
    call = readCheckRequest(bytes, transport, door.bodyBytesMax)
    return writeOutcome(await decideInTime(call, door), call.headers)
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) reportFault(door, thrown, call)
    try {
      return writeOutcome(denialOf(thrown), new Map())
    } catch (fault) {
      reportFault(door, fault, call)
      return OUTAGE
    }
  }
}

/** The last guard on time: `decide` ends its own waits a whole margin early, this one ends `decide` half a margin early. */
async function decideInTime(call: Call, door: CheckDoor): Promise<Outcome> {
  if (call.deadlineAt === undefined) return door.decide(call)
  const waitMs = call.deadlineAt - door.deadlineMarginMs / 2 - Date.now()
  if (waitMs <= 0) return denialOf(tooLate())
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Outcome>(resolve => {
    timer = setTimeout(() => resolve(denialOf(tooLate())), Math.min(waitMs, TIMER_MS_MAX))
  })
  try {
    return await Promise.race([door.decide(call), late])
  } finally {
    clearTimeout(timer)
  }
}

function tooLate(): Refusal {
  return new Refusal(
    'temporarily_unavailable',
    'The call was not judged before the deadline of the proxy: try again.',
  )
}

function reportFault(door: CheckDoor, fault: unknown, call: Call | undefined): void {
  try {
    door.report?.(fault, call)
  } catch {
    // A reporter that fails must not turn a denial into a gRPC error.
  }
}
