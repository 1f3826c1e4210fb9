/**
 * Owns a tool's answer whose stream ends before it: a server of MCP 2025-11-25 may close the stream of a call
 * and go on elsewhere. Contract: "Single-use grant": the call was taken, so either its answer is fetched
 * where the server continues, by a request that proves the grant as the call did, or its outcome is unknown.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { AgentError, fail } from '../agent-error.ts'
import { readEvents, type BrokenOff, type RpcAnswer } from './mcp.ts'
import type { Profile } from '../profile.ts'
import { signedHeaders } from './proof.ts'
import { open } from './transport.ts'

/** The call whose answer is fetched. */
export interface Resumed {
  url: URL
  id: string
  /** Those of the session and the revision. */
  headers: Record<string, string>
  accessToken: string | undefined
  signal: AbortSignal | undefined
}

const RETRY_MILLISECONDS = 1000
const RETRY_MILLISECONDS_MIN = 100
const RETRY_MILLISECONDS_MAX = 60_000
/** A server that cannot be reached may be starting again. */
const FAILURES_MAX = 3

/**
 * Reads on where the stream broke off, for as long as a call may take. Fails with `outcome_unknown` if the
 * server does not go on there.
 */
export async function resumedAnswer(profile: Profile, call: Resumed, broken: BrokenOff): Promise<RpcAnswer> {
  const { url, id, headers, accessToken, signal } = call
  const until = performance.now() + profile.callSecondsMax * 1000
  let at = broken
  for (let failures = 0; at.lastEventId !== '' && failures < FAILURES_MAX;) {
    const wait = Math.max(at.retryMilliseconds ?? RETRY_MILLISECONDS, RETRY_MILLISECONDS_MIN)
    await pause(Math.min(wait, RETRY_MILLISECONDS_MAX), undefined, { signal }).catch((cause: unknown) =>
      fail('aborted', 'The call was given up by its caller.', { cause, terminal: false }),
    )
    const secondsLeft = Math.ceil((until - performance.now()) / 1000)
    if (secondsLeft <= 0) break
    const proof = accessToken === undefined ? {} : signedHeaders({ method: 'GET', url, accessToken }, profile)
    try {
      const response = await open({
        method: 'GET',
        url,
        headers: { ...headers, ...proof, accept: 'text/event-stream', 'last-event-id': at.lastEventId },
        timeoutSeconds: secondsLeft,
        signal,
      })
      const isStream =
        response.headers.get('content-type')?.toLowerCase().startsWith('text/event-stream') === true
      if (!response.ok || !isStream) {
        await response.body?.cancel().catch(() => undefined)
        if (response.status < 500) break
        failures++
        continue
      }
      const read = await readEvents(response, id, { url, signal, parse: profile.parseAnswer, ...at })
      if ('kind' in read) return read
      at = read
      failures = 0
    } catch (error) {
      if (!(error instanceof AgentError) || error.code !== 'unreachable') throw error
      failures++
    }
  }
  return fail(
    'outcome_unknown',
    `${url.origin} ended its answer before it answered the call, and does not go on with it. The call may have run.`,
  )
}
