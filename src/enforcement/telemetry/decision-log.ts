/**
 * Owns the one log line that each decision leaves. Contract: "Events" and "Authentication": who asked for
 * what and why it was answered so; no token, ticket, signature or parameter.
 */
import type { Logger } from '../../http/telemetry/log.ts'
import type { Call, Denied, Outcome } from '../call.ts'
import type { OwnerEnds } from '../../wire/documents/owner-ends.ts'
import type { Family, Handle, Owner } from '../../wire/identifiers.ts'

/** How far a call came. It is filled in step by step. */
export interface Trace {
  step: 'route' | 'request' | 'introspect' | 'permission' | 'signature' | 'operation' | 'consume' | 'allow'
  /** Called when each step begins. */
  onStep?: ((step: Trace['step']) => void) | undefined
  /** Milliseconds since the epoch. */
  startedAt: number
  owner?: Owner
  tool?: string
  family?: Family
  handle?: Handle
  /** Judged by what the authority said of an earlier call, under a lease. */
  leased?: true
  /** Who issued the grant, and found it live when asked. */
  issuer?: string
  /** When the grant was issued, in seconds since the epoch. */
  issuedAt?: number | undefined
  /** What the authority knew when it judged the grant, or spent it. */
  judged?: OwnerEnds | undefined
  /** The authority's word, if it says more than the code that was answered. */
  reason?: string
  /** Why a check could not be made, for the person who must fix it. */
  detail?: string | undefined
}

/** A separate step for calls that were never judged. */
export type Step = Trace['step'] | 'read'

/** Records that a call has reached a step of the order. */
export function enterStep(trace: Trace, step: Trace['step']): void {
  trace.step = step
  trace.onStep?.(step)
}

/** Writes one line, with the same members at every ending, even if a wait ended at its deadline. */
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

interface LogLine {
  call: Call | undefined
  outcome: Outcome
  trace: Omit<Partial<Trace>, 'step'> & { step: Step; ms: number }
}

function writeLine(logger: Logger, { call, outcome, trace }: LogLine): void {
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
      ...(trace.leased === undefined ? {} : { leased: true }),
      ...(trace.issuer === undefined ? {} : { issuer: trace.issuer }),
      ...(trace.judged === undefined ? {} : { iat: trace.issuedAt ?? null, judged: trace.judged }),
      ...(trace.detail === undefined ? {} : { detail: trace.detail }),
      ...(call?.requestId === undefined ? {} : { request_id: call.requestId.slice(0, 128) }),
      ...(call?.traceparent === undefined ? {} : { traceparent: call.traceparent.slice(0, 128) }),
    },
    'decided',
  )
}
