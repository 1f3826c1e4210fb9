/**
 * Owns the one log line that each decision leaves. Contract: "Events" and "Authentication": who asked for
 * what and why it was answered so; no token, ticket, signature or parameter.
 */
import type { Logger } from '../../http/log.ts'
import type { Call, Denied, Outcome } from '../call.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/** How far a call came, filled in on its way. */
export interface Trace {
  step: 'route' | 'request' | 'introspect' | 'permission' | 'signature' | 'operation' | 'consume' | 'allow'
  /** Told of each step as it begins. */
  onStep?: ((step: Trace['step']) => void) | undefined
  /** Milliseconds since the epoch. */
  startedAt: number
  /** Milliseconds, so far, of waiting for the authority. */
  waitedMs: number
  owner?: Owner
  tool?: string
  family?: Family
  handle?: Handle
  /** The authority's word, where it says more than the code that was answered. */
  reason?: string
  /** Why a check could not be made, for whoever must mend it. */
  detail?: string | undefined
}

/** A step of its own for what never came to be judged. */
export type Step = Trace['step'] | 'read'

/** Notes that a call has come to a step of the order. */
export function enterStep(trace: Trace, step: Trace['step']): void {
  trace.step = step
  trace.onStep?.(step)
}

/** Writes one line, with the same members at every ending, also where a wait ended at its deadline. */
export function recordDecision(
  logger: Logger,
  call: Call,
  outcome: Outcome,
  trace: Trace & { ms: number },
): void {
  writeLine(logger, { call, outcome, trace })
}

/** The same line for a denial of a call that could not be read, or came too late to be judged. */
export function recordUnjudged(logger: Logger, denied: Denied, call: Call | undefined): void {
  writeLine(logger, { call, outcome: denied, trace: { step: 'read', ms: 0 } })
}

interface Line {
  call: Call | undefined
  outcome: Outcome
  trace: Omit<Partial<Trace>, 'step'> & { step: Step; ms: number }
}

function writeLine(logger: Logger, { call, outcome, trace }: Line): void {
  logger.info(
    {
      decision: outcome.kind,
      reason: outcome.metadata.reason,
      status: outcome.kind === 'deny' ? outcome.status : 200,
      step: trace.step,
      owner: trace.owner ?? null,
      tool: trace.tool?.slice(0, 128) ?? null,
      family: trace.family ?? null,
      handle: trace.handle ?? null,
      ms: Math.round(trace.ms),
      peer: call?.peer ?? null,
      ...(trace.detail === undefined ? {} : { detail: trace.detail }),
      ...(call?.requestId === undefined ? {} : { request_id: call.requestId.slice(0, 128) }),
      ...(call?.traceparent === undefined ? {} : { traceparent: call.traceparent.slice(0, 128) }),
    },
    'decided',
  )
}
