/**
 * Owns how much of an answer of a resource is read: an answer that is longer, or nested deeper, than allowed
 * is cut off, and reported with its own code. Contract: "Errors".
 */
import { AgentError } from '../agent-error.ts'
import { TOOL_ANSWER_BYTES_MAX } from '../mcp.ts'
import { ANSWER_DEPTH_MAX, depthGuard } from './depth.ts'
import type { Exchange } from './exchange.ts'
import { completed } from './foreign-answer.ts'

/**
 * The response, cut off with an error if it, or one event of its stream, is longer than any answer may be, or
 * nested deeper.
 */
export function bounded(response: Response, url: URL, exchange: Exchange | undefined): Response {
  const isStream = response.headers.get('content-type')?.includes('text/event-stream') ?? false
  const isShallow = depthGuard(isStream)
  let bytes = 0
  let resumable = false
  const over = (): void => {
    // The SDK resumes a stream whose events have ids.
    if (!resumable) completed(exchange)
  }
  if (response.body === null) {
    over()
    return response
  }
  const reader = response.body.getReader()
  const body = new ReadableStream<Uint8Array>({
    pull: async controller => {
      const { done, value } = await reader.read().catch((error: unknown) => {
        over()
        throw error
      })
      if (done) {
        over()
        return controller.close()
      }
      const text = isStream ? Buffer.from(value) : undefined
      resumable ||= text !== undefined && /^id:/m.test(text.toString('latin1'))
      const gap = text?.lastIndexOf('\n\n') ?? -1
      bytes = gap === -1 ? bytes + value.byteLength : value.byteLength - gap
      const isTaken = bytes <= TOOL_ANSWER_BYTES_MAX
      if (isTaken && isShallow(value)) return controller.enqueue(value)
      const isMade = exchange?.method === 'tools/call' && response.ok
      const error = refused(isTaken ? 'answer_too_deep' : 'answer_too_large', url, isMade)
      if (exchange !== undefined) exchange.failure = error
      exchange?.ending.abort()
      await reader.cancel().catch(() => undefined)
      controller.error(error)
    },
    cancel: reason => reader.cancel(reason),
  })
  const { status, statusText, headers } = response
  return new Response(body, { status, statusText, headers })
}

function refused(code: 'answer_too_deep' | 'answer_too_large', url: URL, isMade: boolean): AgentError {
  const what =
    code === 'answer_too_large'
      ? `more than ${TOOL_ANSWER_BYTES_MAX} bytes`
      : `an answer that is nested more than ${ANSWER_DEPTH_MAX} deep`
  const made = isMade ? 'The call was made; its answer was not taken.' : 'It was not taken.'
  return new AgentError(code, { detail: `${url.origin} sent ${what}. ${made}`, local: true })
}
