/**
 * Owns the ext_authz door: it takes the bytes of a CheckRequest and always returns the bytes of a
 * CheckResponse. Contract: "Resource server enforcement point" and "Errors": every failure here is a denial,
 * so that a proxy that lets failures pass still refuses.
 */
import { answerCall, denyUnjudged as denyUnread, type AnswerWriter, type CheckDoor } from '../check-door.ts'
import { readCheckRequest, type CheckTransport } from './check-request.ts'
import { OUTAGE, writeOutcome } from './check-response.ts'

const BYTES: AnswerWriter<Buffer> = { write: writeOutcome, outage: OUTAGE }

/** The answer to one check. Never rejects, and allows only what `decide` allowed in time. */
export function answerCheck(bytes: Buffer, transport: CheckTransport, door: CheckDoor): Promise<Buffer> {
  return answerCall(() => readCheckRequest(bytes, transport, door.bodyBytesMax), door, BYTES)
}

/** The denial of a call that `decide` never sees. */
export function denyUnjudged(thrown: unknown, door: CheckDoor): Buffer {
  return denyUnread(thrown, { door, writer: BYTES })
}
