/**
 * Owns the look at a server of the operator's own network, which has a private address and may speak plain
 * HTTP. Contract: "What the service does". Nothing follows from the answer but a line of the log.
 */
import { Agent } from 'undici'
import { faultOf } from './outbound-fault.ts'

const TIMEOUT_MS = 3_000

/**
 * The status that the server at `url` answers to this JSON; throws `OutboundFault` if it answers nothing
 * within 3 s, with the cause in its message. Follows no redirect and reads no body.
 */
export async function statusOf(url: string, json: object, signal?: AbortSignal): Promise<number> {
  const { origin, pathname } = new URL(url)
  const agent = new Agent({ connect: { timeout: TIMEOUT_MS } })
  try {
    const { statusCode } = await agent.request({
      origin,
      path: pathname,
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify(json),
      headersTimeout: TIMEOUT_MS,
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal === undefined ? [] : [signal])]),
    })
    return statusCode
  } catch (cause) {
    throw faultOf(cause instanceof Error ? cause : new Error(String(cause)), origin, false)
  } finally {
    // An answer that never ends goes with it.
    await agent.destroy()
  }
}
