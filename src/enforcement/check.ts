/**
 * Owns what stands around the enforcement order: room for the body, the deadline, one log line, the access
 * report, and that whatever is thrown becomes a denial. Contract: "Authorized call" and "Errors". The order
 * itself is `order.ts`.
 */
import type { Logger } from '../http/log.ts'
import type { Tracing } from '../http/tracing.ts'
import { canonicalize } from '../wire/json.ts'
import { Refusal } from '../wire/refusal.ts'
import { readRptClaims } from '../wire/tokens.ts'
import type { AccessReports } from './authorities/access-reports.ts'
import type { Call, Denied, Outcome } from './call.ts'
import { answerTimeMs, deadlineOf, outage, tooLate } from './deadline.ts'
import { denialOf } from './denial.ts'
import { judge, type Judged, type OrderOptions, type Use } from './order.ts'
import type { AccessReport } from './reports/outbox.ts'
import { createBodyBudget, type BodyBudget } from './request/body-budget.ts'
import { rpcCaller } from './request/mcp-mirrors.ts'
import type { RouteTable } from './request/routes.ts'
import { traceCheck } from './telemetry/check-tracing.ts'
import { recordDecision, type Trace } from './telemetry/decision-log.ts'

export interface CheckOptions extends OrderOptions {
  routes: RouteTable
  reports: AccessReports
  logger: Logger
  /** Most bytes of bodies held at a time. */
  bodiesBytesMax: number
  /** Report the call's arguments, cut to 1 KiB, instead of their hash. */
  reportArguments: boolean
  /** Time for a check whose caller names no deadline. */
  deadlineMs: number
  /** How long before the caller's deadline every wait ends. */
  deadlineMarginMs: number
  /** Told of every call before it is judged. */
  onBegin?: () => void
  onDecision?: (outcome: Outcome, trace: Trace) => void
  /** Left out, nothing is traced. */
  tracing?: Tracing | undefined
}

const SUMMARY_CHARACTERS_MAX = 256 // at most 1,024 bytes of UTF-8

/** The check of one enforcement point: judges a call, never throws, and writes one log line per decision. */
export function createCheck(options: CheckOptions): (call: Call) => Promise<Outcome> {
  const { clock, logger, tracing } = options
  const bodies = createBodyBudget(options.bodiesBytesMax)
  const begin = (): Trace => ({ step: 'route', startedAt: clock(), waitedMs: 0 })
  const check = async (call: Call, trace: Trace = begin()): Promise<Outcome> => {
    options.onBegin?.()
    let judgement: Judgement
    try {
      judgement = await judgeWithin(bodies, { call, trace }, options)
    } catch (thrown) {
      judgement = { outcome: denial(thrown, trace, logger) }
    }
    // Past this time the door has answered for us. What is decided then was told to nobody, and is not what
    // is logged.
    const isLate = answerTimeMs(call, options.deadlineMarginMs, clock()) <= 0
    const judged = isLate ? denial(tooLate(), trace, logger) : reported(judgement, trace, logger)
    const outcome = asSpoken(judged, call, options)
    recordDecision(logger, call, outcome, { ...trace, ms: clock() - trace.startedAt })
    options.onDecision?.(outcome, trace)
    return { ...outcome, waitedMs: trace.waitedMs }
  }
  if (tracing === undefined) return call => check(call)
  return call => traceCheck(call, { trace: begin(), check, tracing })
}

/**
 * An outcome as this caller is told of it: a denial as a JSON-RPC error, where the resource speaks MCP and
 * the caller its newest revision.
 */
function asSpoken(outcome: Outcome, call: Call, { routes }: Pick<CheckOptions, 'routes'>): Outcome {
  if (outcome.kind === 'allow') return outcome
  const rpc = speaksMcp(call, routes) ? rpcCaller(call) : undefined
  return rpc === undefined ? outcome : { ...outcome, rpc }
}

function speaksMcp(call: Call, routes: RouteTable): boolean {
  try {
    return routes.find(call).api === undefined
  } catch {
    return false
  }
}

/**
 * What came of judging. `report` tells the owner of the call, once it is sure that it is let through; it
 * throws where that cannot be kept.
 */
interface Judgement {
  outcome: Outcome
  report?: () => void
}

/** The outcome, once the report of it is kept: what cannot be reported is not let through. */
function reported({ outcome, report }: Judgement, trace: Trace, logger: Logger): Outcome {
  try {
    report?.()
    return outcome
  } catch (thrown) {
    return denial(thrown, trace, logger)
  }
}

/** Judges a call whose body there is room for. What is turned away has cost no more than its receipt. */
async function judgeWithin(
  bodies: BodyBudget,
  { call, trace }: { call: Call; trace: Trace },
  options: CheckOptions,
): Promise<Judgement> {
  if (!bodies.take(call))
    throw outage('More is asked with large bodies than can be held at a time: try again.')
  try {
    const route = options.routes.find(call)
    trace.owner = route.owner
    const judged: Judged = { call, route, trace, deadline: deadlineOf(call, trace, options) }
    const { outcome, use } = await judge(judged, options)
    return use === undefined ? { outcome } : { outcome, report: () => report(judged, use, options) }
  } finally {
    bodies.release(call)
  }
}

/** Has the report kept, and sent later. Throws 503 where it cannot be kept. */
function report(judged: Judged, use: Use, options: CheckOptions): void {
  const { route, trace } = judged
  const made = reportOf(use, options)
  if (made instanceof Error) {
    // No report of it is possible, with this authority: its grant has no name. The grant may be spent by now,
    // so the call goes through.
    options.logger.error({ err: made, step: trace.step }, 'an allowed call could not be reported')
  } else options.reports.add(route.client, made)
}

function reportOf(
  { token, grant, request }: Use,
  { reportArguments, clock }: CheckOptions,
): AccessReport | Error {
  try {
    return {
      family: grant.family,
      jti: grant.jti ?? readRptClaims(token).jti,
      tool: request.tool,
      summary: reportArguments
        ? canonicalize(request.params).slice(0, SUMMARY_CHARACTERS_MAX).toWellFormed()
        : request.params_s256,
      at: Math.floor(clock() / 1000),
    }
  } catch (error) {
    return error as Error
  }
}

/**
 * The whole reason, for the log: what the caller is told names no address and no word of the operating
 * system.
 */
function withCauses(refusal: Refusal): string {
  const { cause } = refusal
  const told = refusal.detail ?? refusal.code
  return cause instanceof Error ? `${told} (${cause.message.slice(0, 500)})` : told
}

function denial(thrown: unknown, trace: Trace, logger: Logger): Denied {
  // What is no refusal is a fault of ours: told in the log, and to nobody else.
  if (!(thrown instanceof Refusal)) logger.error({ err: thrown, step: trace.step }, 'a check failed')
  else if (thrown.code === 'temporarily_unavailable') trace.detail = withCauses(thrown)
  const { metadata, ...denied } = denialOf(thrown)
  const { reason, family, handle } = trace
  return {
    ...denied,
    metadata: {
      ...metadata,
      ...(reason === undefined ? {} : { reason }),
      ...(family === undefined ? {} : { family }),
      ...(handle === undefined ? {} : { handle }),
    },
  }
}
