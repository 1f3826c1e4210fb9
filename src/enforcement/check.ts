/**
 * Owns the decision about one call: the enforcement order, once, for every door. contract, "Authorized call", "Enforcement order
 * (normative)". A refusal at any step before 5 leaves the grant unspent; whatever is thrown becomes a denial.
 */
import { randomUUID } from 'node:crypto'
import type { Logger } from '../http/log.ts'
import type { Tracing } from '../http/tracing.ts'
import { consumeReaction, reactTo } from '../rules/liveness.ts'
import { matchPermission, worseConsequence } from '../rules/permission.ts'
import { canonicalize } from '../wire/json.ts'
import { verifyRequestApart, type SignedMessage, type VerifiedSignature } from '../wire/http-signature.ts'
import { Refusal, refuse } from '../wire/refusal.ts'
import { readRptClaims } from '../wire/tokens.ts'
import type { AccessReports } from './authorities/access-reports.ts'
import { createBodyBudget, type BodyBudget } from './request/body-budget.ts'
import type { Call, Denied, Outcome } from './call.ts'
import type { ToolCall } from './request/call-request.ts'
import { traceCheck } from './telemetry/check-tracing.ts'
import { sourceOf } from './challenge-limit.ts'
import { challengeFor, tooManyCalls, type ChallengeOptions } from './challenges.ts'
import { deadlineOf, outage, tooLate, type Deadline } from './deadline.ts'
import { recordDecision, type Trace } from './telemetry/decision-log.ts'
import { denialOf } from './denial.ts'
import type { Introspection, LiveGrant } from './introspection.ts'
import { checkOperation } from './operation.ts'
import type { Route, RouteTable, Tool } from './request/routes.ts'
import { allowCall, presentedGrant } from './upstream.ts'

export interface CheckOptions extends ChallengeOptions {
  routes: RouteTable
  reports: AccessReports
  logger: Logger
  /** Milliseconds since the epoch. */
  clock: () => number
  keepCredentials: boolean
  requireContentDigest: boolean
  /** Most bytes of bodies held at a time. */
  bodiesBytesMax: number
  /** Report the call's arguments, cut to 1 KiB, instead of their hash. */
  reportArguments: boolean
  /** Time for a check whose caller names no deadline. */
  deadlineMs: number
  /** How long before the caller's deadline every wait ends. */
  deadlineMarginMs: number
  onDecision?: (outcome: Outcome, trace: Trace) => void
  /** Left out, nothing is traced. */
  tracing?: Tracing | undefined
}

/** One call on its way through the order. */
interface Judged {
  call: Call
  route: Route
  deadline: Deadline
  trace: Trace
}

const REQUIRED_COMPONENTS = ['@method', '@authority', '@path', 'authorization']
const SUMMARY_CHARACTERS_MAX = 256 // at most 1,024 bytes of UTF-8

/** The check of one enforcement point: judges a call, never throws, and writes one log line per decision. */
export function createCheck(options: CheckOptions): (call: Call) => Promise<Outcome> {
  const { tracing } = options
  const bodies = createBodyBudget(options.bodiesBytesMax)
  const check = async (call: Call, trace: Trace): Promise<Outcome> => {
    const judgement = await judgeWithin(bodies, { call, trace, options }).catch(
      (thrown: unknown): Judgement => ({ outcome: denial(thrown, trace, options) }),
    )
    const { outcome, report } = cameInTime(call, options)
      ? judgement
      : { outcome: denial(tooLate(), trace, options) }
    report?.()
    recordDecision(options.logger, call, outcome, { ...trace, ms: options.clock() - trace.startedAt })
    options.onDecision?.(outcome, trace)
    return { ...outcome, waitedMs: trace.waitedMs }
  }
  const begin = (): Trace => ({ step: 'route', startedAt: options.clock(), waitedMs: 0 })
  if (tracing === undefined) return call => check(call, begin())
  return call => traceCheck(call, { trace: begin(), check, tracing })
}

/** Judges a call whose body there is room for. What is turned away has cost no more than its receipt. */
async function judgeWithin(
  bodies: BodyBudget,
  { call, trace, options }: { call: Call; trace: Trace; options: CheckOptions },
): Promise<Judgement> {
  if (!bodies.take(call))
    throw outage('More is asked with large bodies than can be held at a time: try again.')
  try {
    return await judge(call, trace, options)
  } finally {
    bodies.release(call)
  }
}

/** The door answers for us half a margin before the deadline: what is decided after that was not told to anybody, and is not what is logged. */
function cameInTime({ deadlineAt }: Call, { clock, deadlineMarginMs }: CheckOptions): boolean {
  return deadlineAt === undefined || clock() < deadlineAt - deadlineMarginMs / 2
}

/** What came of judging. `report` tells the owner of the call, once it is sure that it was let through. */
interface Judgement {
  outcome: Outcome
  report?: () => void
}

async function judge(call: Call, trace: Trace, options: CheckOptions): Promise<Judgement> {
  const { clock, deadlineMs, deadlineMarginMs: marginMs } = options
  const route = options.routes.find(call)
  trace.owner = route.owner
  const at = call.deadlineAt ?? clock() + deadlineMs
  const onWaited = (ms: number): void => void (trace.waitedMs += ms)
  const judged: Judged = { call, route, trace, deadline: deadlineOf({ at, marginMs, clock, onWaited }) }

  trace.step = 'request'
  const request = route.readRequest(call)
  if (request.kind === 'pass') return { outcome: allowCall(call, options) }
  const tool = request.kind === 'tool' ? findTool(route, request, trace) : undefined
  const token = presentedGrant(call)
  if (token === undefined) return challenge(judged, tool, { hasToken: false }, options)

  trace.step = 'introspect' // 1. Is the token live, and does the connection stand?
  const answer = await introspect(judged, token, options)
  if (!answer.active) return refuseInactive(judged, tool, answer.reason, options)
  const { grant } = answer
  trace.family = grant.family
  trace.handle = grant.sub

  trace.step = 'permission' // 2. The tool's resource and scopes, inside the permission's own window.
  if (tool !== undefined && matchPermission(grant.permissions, tool, seconds(options)) === undefined) {
    return challenge(judged, tool, { hasToken: true }, options)
  }

  trace.step = 'signature' // 3. The request is signed by the key the grant is bound to; nothing was re-declared worse.
  const signature = await checkSignature(judged, grant, options)
  if (worseConsequence(tool?.consequence, grant.consequence)) {
    refuse(
      'consequence_changed',
      'Negotiate again: the operation is now declared graver than the grant was given for.',
    )
  }

  if (grant.single_use) {
    trace.step = 'operation' // 4. A single-use grant is for one operation with exactly these parameters.
    if (request.kind !== 'tool')
      refuse('operation_mismatch', 'Use this grant for the operation it was approved for.')
    checkOperation(grant, request, {
      body: call.body,
      digestCovered: signature.covered.includes('content-digest'),
    })

    trace.step = 'consume' // 5. Spent only now; the one line that changes anything.
    await spend(judged, token)
  }

  trace.step = 'allow'
  const outcome = allowCall(call, {
    grant,
    ...(tool === undefined ? {} : { tool: tool.tool }),
    keepCredentials: options.keepCredentials,
  })
  if (request.kind !== 'tool') return { outcome }
  return { outcome, report: () => report(judged, { token, grant, request }, options) }
}

function findTool(route: Route, request: ToolCall, trace: Trace): Tool {
  trace.tool = request.tool
  const tool = route.tools.get(request.tool)
  if (tool === undefined) refuse('unknown_tool', 'Call a tool that the resource metadata lists.')
  return tool
}

/** Asks about a token, where its source has something left of its share or the token needs none. */
async function introspect(
  { call, route, deadline }: Judged,
  token: string,
  { limit, trustedHops }: CheckOptions,
): Promise<Introspection> {
  const taken = limit.takeFor(token, sourceOf(call, trustedHops))
  if (taken.waitSeconds > 0) throw tooManyCalls(taken.waitSeconds)
  const answer = await route.client.introspect(token, deadline)
  taken.told(answer.active)
  return answer
}

/** A fresh challenge for a tool; a method that is no tool has no resource to negotiate about. */
async function challenge(
  judged: Judged,
  tool: Tool | undefined,
  { hasToken }: { hasToken: boolean },
  options: CheckOptions,
): Promise<never> {
  if (tool === undefined) {
    refuse(
      'invalid_token',
      'Present a live grant: this method needs one, and a call of a tool is how to get it.',
    )
  }
  throw await challengeFor({ ...judged, tool, hasToken }, options)
}

/** Contract, "Grant (RPT) liveness": by reason a fresh challenge, or the end. */
async function refuseInactive(
  judged: Judged,
  tool: Tool | undefined,
  reason: unknown,
  options: CheckOptions,
): Promise<never> {
  judged.trace.reason =
    typeof reason === 'string' && /^[a-z_]{1,64}$/.test(reason) ? reason : 'unreadable_reason'
  if (reactTo(reason) === 'terminal') {
    refuse(
      'access_revoked',
      'The owner or her organization has ended this access: do not call again with this grant.',
    )
  }
  return challenge(judged, tool, { hasToken: true }, options)
}

function checkSignature(
  { call, route }: Judged,
  grant: LiveGrant,
  options: CheckOptions,
): Promise<VerifiedSignature> {
  const message: SignedMessage = {
    method: call.method,
    ...route.signatureBase,
    path: call.path,
    query: call.query,
    headers: call.headers,
    body: call.body.state === 'complete' ? call.body.bytes : undefined,
  }
  return verifyRequestApart(message, {
    requiredComponents: REQUIRED_COMPONENTS,
    now: seconds(options),
    findKey: keyid => (keyid === undefined || grant.keyNames.includes(keyid) ? grant.key : undefined),
    keyidRequired: false,
    mustCoverDigest: options.requireContentDigest,
  })
}

/** Consumes, if there is time for the answer to arrive and somebody to take it. */
async function spend({ call, route, deadline, trace }: Judged, token: string): Promise<void> {
  if (deadline.remainingMs() <= 0) throw outage('There was no time left to use the grant: it is unspent.')
  if (call.isCancelled()) throw outage('The caller has gone away: the grant is unspent.')
  const consumption = await route.client.consume(token, deadline)
  if (consumption.consumed) return
  const code = consumeReaction(consumption.error)
  trace.reason = code
  refuse(code, 'The grant could not be used: negotiate again.')
}

/** Queues the access report. Never throws: the grant may be spent by now, so the call must go through. */
function report(
  { route, trace }: Judged,
  used: { token: string; grant: LiveGrant; request: ToolCall },
  options: CheckOptions,
): void {
  const { token, grant, request } = used
  try {
    options.reports.add(route.client, {
      id: randomUUID(),
      family: grant.family,
      jti: grant.jti ?? readRptClaims(token).jti,
      tool: request.tool,
      summary: options.reportArguments
        ? canonicalize(request.params).slice(0, SUMMARY_CHARACTERS_MAX).toWellFormed()
        : request.params_s256,
      at: seconds(options),
    })
  } catch (error) {
    options.logger.error({ err: error, step: trace.step }, 'an allowed call could not be reported')
  }
}

function denial(thrown: unknown, trace: Trace, { logger }: CheckOptions): Denied {
  // What is no refusal is a fault of ours: told in the log, and to nobody else.
  if (!(thrown instanceof Refusal)) logger.error({ err: thrown, step: trace.step }, 'a check failed')
  else if (thrown.code === 'temporarily_unavailable') trace.detail = thrown.detail
  const outcome = denialOf(thrown)
  const headers = outcome.status === 401 && !outcome.headers.some(([name]) => name === 'www-authenticate')
  return {
    ...outcome,
    ...(headers
      ? { headers: [...outcome.headers, ['www-authenticate', `PoP error="${outcome.metadata.reason}"`]] }
      : {}),
    metadata: {
      ...outcome.metadata,
      ...(trace.reason === undefined ? {} : { reason: trace.reason }),
      ...(trace.family === undefined ? {} : { family: trace.family }),
      ...(trace.handle === undefined ? {} : { handle: trace.handle }),
    },
  }
}

function seconds({ clock }: Pick<CheckOptions, 'clock'>): number {
  return Math.floor(clock() / 1000)
}
