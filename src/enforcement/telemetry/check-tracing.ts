/**
 * Owns the spans of one check: the check itself, below the caller's `traceparent`, and one for each of its
 * steps, and below that the requests to the authority. Contract: "Authorized call" (the enforcement order).
 * Spans never contain a token, a ticket or a parameter.
 */
import type { Span, SpanAttributes, Tracing } from '../../http/telemetry/tracing.ts'
import type { Call, Outcome } from '../call.ts'
import type { Trace } from './decision-log.ts'

interface TracedCheck {
  trace: Trace
  check: (call: Call, trace: Trace) => Promise<Outcome>
  tracing: Tracing
}

/**
 * Runs the check. Only what the log line contains too becomes an attribute, because the trace may hold
 * anything.
 */
export function traceCheck(call: Call, { trace, check, tracing }: TracedCheck): Promise<Outcome> {
  const span = tracing.start('check', { kind: 'server', parent: call.traceparent })
  let step: Span | undefined
  const enter = (name: Trace['step']): void => {
    step?.end()
    step = tracing.start(name, { kind: 'internal', parent: span })
    tracing.activate(step)
  }
  return tracing.within(span, async () => {
    enter(trace.step)
    trace.onStep = enter
    const outcome = await check(call, trace)
    step?.end()
    span.set(attributesOf(outcome, trace))
    if (outcome.kind === 'deny' && outcome.status >= 500) span.fail(outcome.metadata.reason ?? 'unknown')
    span.end()
    return outcome
  })
}

function attributesOf(outcome: Outcome, { step, owner, tool, family }: Trace): SpanAttributes {
  return {
    'usher.decision': outcome.kind,
    'usher.reason': outcome.metadata.reason ?? 'unknown',
    'usher.step': step,
    'http.response.status_code': outcome.kind === 'deny' ? outcome.status : 200,
    ...(owner === undefined ? {} : { 'usher.owner': owner }),
    ...(tool === undefined ? {} : { 'usher.tool': tool.slice(0, 128) }),
    ...(family === undefined ? {} : { 'usher.family': family }),
  }
}
