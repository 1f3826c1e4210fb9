/**
 * Owns everything around the enforcement order: memory for the body, the deadline, one log line, the access
 * report. Every error that is thrown becomes a denial. Contract: "Authorized call" and "Errors". The order
 * itself is `order.ts`.
 */
import { OutboundFault, plainWords } from '../http/outbound/outbound-fault.ts'
import type { Logger } from '../http/telemetry/log.ts'
import type { Tracing } from '../http/telemetry/tracing.ts'
import { Refusal } from '../wire/refusal.ts'
import type { AccessReports } from './authorities/access-reports.ts'
import type { Call, Denied, Outcome } from './call.ts'
import { checkDeadline, type CheckDeadline } from './deadline.ts'
import { outage, pastProxyDeadline, UnspentOutage } from './outage.ts'
import { denialOf } from './denial.ts'
import { judge, type CallInOrder, type OrderOptions } from './order.ts'
import { createBodyBudget, type BodyBudget } from './request/body-budget.ts'
import { rpcCaller, unopenedRequest } from './request/mcp-mirrors.ts'
import type { RouteTable } from './request/routes.ts'
import { traceCheck } from './telemetry/check-tracing.ts'
import { recordDecision, type Trace } from './telemetry/decision-log.ts'

export interface CheckOptions extends OrderOptions {
  routes: RouteTable
  reports: AccessReports
  logger: Logger
  /** Maximum number of bytes of bodies held at a time. */
  bodiesBytesMax: number
  /** The time limit of a check whose caller names no deadline. */
  deadlineMs: number
  /** How long before that every wait ends. */
  deadlineMarginMs: number
  /** Called with every call before it is judged. */
  onBegin?: () => void
  onDecision?: (outcome: Outcome, trace: Trace) => void
  /** Left out, nothing is traced. */
  tracing?: Tracing | undefined
}

/** The check of one enforcement point: judges a call, never throws, and writes one log line per decision. */
export function createCheck(options: CheckOptions): (call: Call) => Promise<Outcome> {
  const { clock, logger, tracing } = options
  const bodies = createBodyBudget(options.bodiesBytesMax)
  const begin = (): Trace => ({ step: 'route', startedAt: clock() })
  const check = async (call: Call, trace: Trace = begin()): Promise<Outcome> => {
    options.onBegin?.()
    const deadline = call.deadline ?? ownDeadline(options)
    let judgement: Judgement
    try {
      judgement = await judgeWithin(bodies, { call, trace, deadline }, options)
    } catch (thrown) {
      judgement = { outcome: denial(thrown, trace, logger) }
    }
    // After this time the door has answered for us. A later decision reached nobody, and is not the one that
    // is logged.
    const isLate = call.deadline !== undefined && call.deadline.answerMs() <= 0
    const judged = isLate ? denial(pastProxyDeadline(), trace, logger) : reported(judgement, trace, logger)
    const outcome = asSpoken(judged, call, options)
    recordDecision(logger, call, outcome, { ...trace, ms: clock() - trace.startedAt })
    options.onDecision?.(outcome, trace)
    return { ...outcome, waitedMs: deadline.waitedMs }
  }
  if (tracing === undefined) return call => check(call)
  return call => traceCheck(call, { trace: begin(), check, tracing })
}

/** The deadline of a call whose caller waits for ever. */
function ownDeadline({ clock, deadlineMs, deadlineMarginMs: marginMs }: CheckOptions): CheckDeadline {
  return checkDeadline(clock() + deadlineMs, { clock, marginMs })
}

/**
 * An outcome in the form for this caller: if the resource speaks MCP and the caller its newest revision, a
 * denial is a JSON-RPC error. For callers of every revision, so is that of a method which is not opened.
 */
function asSpoken(outcome: Outcome, call: Call, { routes }: Pick<CheckOptions, 'routes'>): Outcome {
  if (outcome.kind === 'allow') return outcome
  const rpcOf = outcome.metadata.reason === 'unknown_method' ? unopenedRequest : rpcCaller
  const rpc = speaksMcp(call, routes) ? rpcOf(call) : undefined
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
 * The result of judging. `report` reports the call to the owner, when it is certain that it is let through.
 * It throws if the report cannot be stored.
 */
interface Judgement {
  outcome: Outcome
  report?: () => void
}

/** The outcome, after its report was stored: a call that cannot be reported is not let through. */
function reported({ outcome, report }: Judgement, trace: Trace, logger: Logger): Outcome {
  try {
    report?.()
    return outcome
  } catch (thrown) {
    return denial(thrown, trace, logger)
  }
}

/**
 * Judges a call if there is memory for its body. A body that is turned away has cost nothing but its receipt.
 */
async function judgeWithin(
  bodies: BodyBudget,
  { call, trace, deadline }: { call: Call; trace: Trace; deadline: CheckDeadline },
  options: CheckOptions,
): Promise<Judgement> {
  if (!bodies.take(call)) throw outage('Too many large bodies are being judged at the same time: try again.')
  try {
    const route = options.routes.find(call)
    trace.owner = route.owner
    const judged: CallInOrder = { call, route, trace, deadline }
    const { outcome, report, askAgain } = await judge(judged, options)
    const allowed = { ...outcome, ...(askAgain && { isStillLive: () => askAgain(ownDeadline(options)) }) }
    if (report === undefined) return { outcome: allowed }
    return { outcome: allowed, report: () => options.reports.add(route.client, report) }
  } finally {
    bodies.release(call)
  }
}

/**
 * The whole reason, for the log. The caller's answer contains no address and no words of the operating
 * system. What the answer says of the cause in plain words is replaced by the cause's own words, so that the
 * log says it once.
 */
function withCauses(refusal: Refusal): string {
  const { cause } = refusal
  const message = refusal.detail ?? refusal.code
  if (!(cause instanceof Error)) return message
  const exact = cause.message.slice(0, 500)
  if (message.includes(exact)) return message
  const plain = cause instanceof OutboundFault ? plainWords(cause) : undefined
  if (plain !== undefined && message.includes(plain)) return message.replace(plain, () => exact)
  return `${message} (${exact})`
}

/** A grant came with the call and was checked, but is not yet spent. */
const BEFORE_CONSUME: ReadonlySet<Trace['step']> = new Set([
  'introspect',
  'permission',
  'signature',
  'operation',
])

/** Whether the grant that came with the call is certainly unspent. */
function isUnspent(thrown: unknown, { step }: Trace): boolean {
  return thrown instanceof UnspentOutage || BEFORE_CONSUME.has(step)
}

function denial(thrown: unknown, trace: Trace, logger: Logger): Denied {
  // An error that is no refusal is our own fault: it goes to the log, and nowhere else.
  if (!(thrown instanceof Refusal)) logger.error({ err: thrown, step: trace.step }, 'a check failed')
  else if (thrown.code === 'temporarily_unavailable') trace.detail = withCauses(thrown)
  else if (thrown.code === 'organization_envelope_exceeded') trace.detail = thrown.detail
  const { metadata, ...denied } = denialOf(thrown, { unspent: isUnspent(thrown, trace) })
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
