/**
 * Owns how long a stream stays open that the embedded door let through under a grant: until the grant ends.
 * Contract: "Grant (RPT) liveness" and docs/choices.md, "Authorized call": a call that was let through runs
 * to its end, but a stream without an end of its own would outlive every revocation.
 */
import type { ServerResponse } from 'node:http'
import { Refusal } from '../../../wire/refusal.ts'

/**
 * Why a stream was ended: its grant does not live any more (or not under the organization or the mandate
 * above it), or the authority could not be asked. `family`: the negotiation of its grant.
 */
export interface StreamEnd {
  why: 'the grant has ended' | 'nobody could tell whether the grant lives'
  family: string | undefined
}

/** Between an answer about a grant and the next question, in milliseconds. */
const STREAM_CHECK_MS = 5_000

/**
 * Asks `isStillLive` every `STREAM_CHECK_MS` while `response` is open, and ends the connection once it says
 * no, or rejects. Calls `onEnd` then. The client sees a broken connection, and is refused when it comes
 * again.
 */
export function endWithGrant(
  response: ServerResponse,
  isStillLive: () => Promise<boolean>,
  onEnd: (why: StreamEnd['why']) => void,
): void {
  let timer: NodeJS.Timeout | undefined
  const askLater = (): void => {
    timer = setTimeout(() => void ask(), STREAM_CHECK_MS).unref()
  }
  const ask = async (): Promise<void> => {
    const why = await whyEnded(isStillLive)
    if (response.closed || response.destroyed) return
    if (why === undefined) return askLater()
    onEnd(why)
    response.destroy()
  }
  response.once('close', () => clearTimeout(timer))
  askLater()
}

/** What an organization's ceiling and a joint mandate answer when they do not cover a grant any more. */
const ENDED: ReadonlySet<string> = new Set(['organization_envelope_exceeded', 'joint_mandate_unsatisfied'])

async function whyEnded(isStillLive: () => Promise<boolean>): Promise<StreamEnd['why'] | undefined> {
  try {
    return (await isStillLive()) ? undefined : 'the grant has ended'
  } catch (thrown) {
    if (thrown instanceof Refusal && ENDED.has(thrown.code)) return 'the grant has ended'
    // An outage must not keep open what nobody could let through now.
    return 'nobody could tell whether the grant lives'
  }
}
