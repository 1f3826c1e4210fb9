/**
 * Owns the enforcement order: the five steps, once, for every door. Contract: "Authorized call", "Enforcement
 * order (normative)". A refusal at any step before 5 leaves the grant unspent. The deadline, the log line and
 * the report around the order are in `check.ts`.
 */
import { consumeRefusal, INACTIVE_REASONS, inactiveReaction } from '../rules/grant-end.ts'
import { matchPermission, worseConsequence, type Permission } from '../rules/permission.ts'
import {
  verifyRequestApart,
  type SignedMessage,
  type VerifiedSignature,
} from '../wire/signatures/http-signature.ts'
import { canonicalize } from '../wire/json.ts'
import { refuse } from '../wire/refusal.ts'
import { readRptClaims } from '../wire/negotiation/tokens.ts'
import type { Mark } from './approval/use-marks.ts'
import { takeApproval } from './approval/owner-approval.ts'
import type { AccessReports } from './authorities/access-reports.ts'
import type { Allowed, Call } from './call.ts'
import { sourceOf } from './challenge-limit.ts'
import { challengeFor, NOT_PERMITTED, noGrant, tooManyCalls, type ChallengeSettings } from './challenges.ts'
import type { Deadline } from './deadline.ts'
import { UnspentOutage } from './outage.ts'
import type { Consumption, Introspection, LiveGrant } from './introspection.ts'
import { checkOperation } from './operation.ts'
import { introspectBreakGlass, isOfOrganization } from './organization/break-glass.ts'
import { checkMandate, type RouteJoint } from './joint/mandate-check.ts'
import { checkCeiling } from './organization/ceiling.ts'
import { takeEmergency } from './organization/used-emergencies.ts'
import type { AccessReport } from './reports/outbox.ts'
import type { CallRequest, ToolRequest } from './request/call-request.ts'
import type { Route, Tool } from './request/routes.ts'
import { enterStep, type Trace } from './telemetry/decision-log.ts'
import { allowCall, presentedGrant } from './upstream.ts'

export interface OrderOptions extends ChallengeSettings {
  reports: Pick<AccessReports, 'ready'>
  /** Milliseconds since the epoch. */
  clock: () => number
  keepCredentials: boolean
  requireContentDigest: boolean
  /** Reports the call's arguments, cut to 1 KiB, instead of their hash. */
  reportArguments: boolean
}

/** One call on its way through the order. */
export interface CallInOrder {
  call: Call
  route: Route
  deadline: Deadline
  trace: Trace
}

/**
 * A call that is let through. `report` is present if a tool was called: the owner gets it. `askAgain` is
 * present if the answer is a stream that stays open: whether its grant still lives.
 */
export interface AllowedCall {
  outcome: Allowed
  report?: AccessReport
  askAgain?: ((deadline: Deadline) => Promise<boolean>) | undefined
}

const SUMMARY_CHARACTERS_MAX = 256 // at most 1,024 bytes of UTF-8
const REQUIRED_COMPONENTS = ['@method', '@authority', '@path', 'authorization']

/**
 * Takes one call through the order. Throws the refusal of the first step that does not hold, or whatever
 * error occurred.
 */
export async function judge(judged: CallInOrder, options: OrderOptions): Promise<AllowedCall> {
  const { call, route, trace } = judged
  enterStep(trace, 'request')
  const request = route.readRequest(call)
  if (request.kind === 'pass')
    return { outcome: allowCall(call, { ...options, grantFields: request.grantFields }) }
  const tool = request.kind === 'tool' ? findTool(route, request, trace) : undefined
  const token = presentedGrant(call)
  if (token === undefined)
    return challenge(judged, tool, { hasToken: false, because: noGrant(call) }, options)

  enterStep(trace, 'introspect') // 1. Is the token live, and does the connection stand?
  const answer = await introspect(judged, token, options)
  if (!answer.active) return refuseInactive(judged, { tool, token, reason: answer.reason }, options)
  const { grant } = answer
  if (answer.leased === true) trace.leased = true
  trace.family = grant.family
  trace.handle = grant.sub
  trace.issuer = grant.iss
  trace.issuedAt = grant.issuedAt
  trace.judged = grant.judged

  enterStep(trace, 'permission') // 2. The tool's resource and scopes, inside the permission's own window.
  const now = secondsOf(options)
  const permission = tool && matchPermission(grant.permissions, tool, now)
  if (tool !== undefined && permission === undefined)
    return challenge(judged, tool, { hasToken: true, because: NOT_PERMITTED }, options)
  if (permission !== undefined && route.organization !== undefined)
    await underCeiling(judged, grant, permission)
  if (route.joint !== undefined) await underMandate(judged, route.joint, { token, grant, permission, now })

  enterStep(trace, 'signature') // 3. The request is signed by the key the grant is bound to; nothing was re-declared worse.
  const signature = await checkSignature(judged, grant, options)
  if (tool !== undefined && worseConsequence(tool.consequence, grantedConsequence(grant, tool.tool))) {
    refuse(
      'consequence_changed',
      'Negotiate again: the operation is now declared graver than the grant was given for.',
    )
  }

  // A call that her ledger could not tell of is not let through, and costs no grant.
  const report = request.kind === 'tool' ? reportOf(grant, request, options) : undefined
  if (report !== undefined) options.reports.ready(route.client)

  if (grant.single_use || tool?.ownerApproval !== undefined) {
    enterStep(trace, 'operation') // 4. A single-use grant is for one operation with exactly these parameters.
    if (request.kind !== 'tool')
      refuse('operation_mismatch', 'Use this grant for the operation it was approved for.')
    if (grant.single_use)
      checkOperation(grant, request, {
        body: call.body,
        digestCovered: signature.covered.includes('content-digest'),
      })
    const approval =
      tool && permission && (await ownerApproval(judged, { tool, permission, grant, request, now }))

    enterStep(trace, 'consume') // 5. Spent only now; the one line that changes anything.
    await spend(judged, token, grant, approval)
  }

  enterStep(trace, 'allow')
  const outcome = allowCall(call, {
    grant,
    ...(tool === undefined ? {} : { tool: tool.tool }),
    keepCredentials: options.keepCredentials,
  })
  const askAgain = staysOpen(call, request)
    ? (later: Deadline) =>
        isStillLive({ ...judged, deadline: later }, { token, tool, once: grant.single_use }, options)
    : undefined
  return {
    outcome,
    askAgain,
    ...(report && { report: trace.judged === undefined ? report : { ...report, judged: trace.judged } }),
  }
}

/** A request is answered by a stream on which a server says what happens later, for as long as it likes. */
function staysOpen({ method }: Call, request: Exclude<CallRequest, { kind: 'pass' }>): boolean {
  return request.kind === 'open' && method === 'GET' ? true : request.method === LISTEN
}

/** How clients of MCP 2026-07-28 ask for what earlier ones get by GET. */
const LISTEN = 'subscriptions/listen'

/**
 * Whether a stream that was let through under a grant may stay open: the first two steps once more. The
 * signature is no longer fresh, and was judged when the stream began. A grant for one use (`once`) was spent
 * by it; if it was ended as well, the authority says that. Rejects if nobody can tell now.
 */
async function isStillLive(
  judged: CallInOrder,
  { token, tool, once }: { token: string; tool: Tool | undefined; once: boolean },
  options: OrderOptions,
): Promise<boolean> {
  const answer = await askIssuer(judged, token, options)
  if (!answer.active) return once && answer.reason === 'already_consumed'
  const { grant } = answer
  const { route } = judged
  const now = secondsOf(options)
  const permission = tool && matchPermission(grant.permissions, tool, now)
  if (tool !== undefined && permission === undefined) return false
  if (permission !== undefined && route.organization !== undefined)
    await underCeiling(judged, grant, permission)
  if (route.joint !== undefined) await underMandate(judged, route.joint, { token, grant, permission, now })
  return true
}

/** What the owner is told of the call, if it is let through. */
function reportOf(
  { family, jti }: LiveGrant,
  { tool, method, params, params_s256 }: ToolRequest,
  options: OrderOptions,
): AccessReport {
  const content = options.reportArguments ? canonicalize(params) : params_s256
  const summary = (method === undefined ? content : `${method} ${content}`)
    .slice(0, SUMMARY_CHARACTERS_MAX)
    .toWellFormed()
  const at_ms = options.clock()
  return { family, jti, tool, summary, at: Math.floor(at_ms / 1_000), at_ms }
}

/** If the tool asks for her signature, checking it is a part of the fourth step. */
async function ownerApproval(
  { route, deadline, trace }: CallInOrder,
  {
    tool,
    ...facts
  }: { tool: Tool; permission: Permission; grant: LiveGrant; request: ToolRequest; now: number },
): Promise<Mark | undefined> {
  const { ownerApproval: approval } = tool
  return (
    approval &&
    takeApproval(approval, { ...facts, route, tool, deadline, note: detail => (trace.detail = detail) })
  )
}

/** The organization's ceiling is a part of the second step. */
function underCeiling(
  { route, deadline }: CallInOrder,
  grant: LiveGrant,
  permission: Permission,
): Promise<void> {
  const { organization, authority } = route
  return checkCeiling(organization!, { grant, permission, authority, deadline })
}

/** So is the mandate of those who hold an account jointly, also if a call needs no permission. */
function underMandate(
  { deadline, trace }: CallInOrder,
  joint: RouteJoint,
  facts: { token: string; grant: LiveGrant; permission: Permission | undefined; now: number },
): Promise<void> {
  return checkMandate(joint, { ...facts, deadline, note: detail => (trace.detail = detail) })
}

/**
 * The class that a grant was given for: that of this very tool if the authority distinguishes tools, or else
 * of the resource.
 */
function grantedConsequence({ consequences, consequence }: LiveGrant, tool: string): string | undefined {
  return consequences !== undefined && Object.hasOwn(consequences, tool) ? consequences[tool] : consequence
}

function findTool(route: Route, request: ToolRequest, trace: Trace): Tool {
  trace.tool = request.tool
  const tool = route.tools.get(request.tool)
  if (tool === undefined) refuse('unknown_tool', 'Call a tool that the resource metadata lists.')
  return tool
}

/** Asks about a token if its source has some of its share left, or if the token needs none. */
async function introspect(judged: CallInOrder, token: string, options: OrderOptions): Promise<Introspection> {
  const { call, route } = judged
  const { limit, trustedHops } = options
  const admission = limit.takeFor({ token, resource: route.resource }, sourceOf(call, trustedHops))
  if (admission.waitSeconds > 0) throw tooManyCalls(admission.waitSeconds)
  const answer = await askIssuer(judged, token, options)
  admission.note(answer.active)
  return answer
}

/** Asks the authority, or the organization about a grant of its own. */
function askIssuer(
  { route, deadline }: CallInOrder,
  token: string,
  options: OrderOptions,
): Promise<Introspection> {
  const { organization } = route
  return organization !== undefined && isOfOrganization(organization, token)
    ? introspectBreakGlass(organization, { token, route, deadline, now: secondsOf(options) })
    : route.client.introspect(token, deadline)
}

/** A fresh challenge for a tool; a method that is no tool has no resource to negotiate about. */
async function challenge(
  judged: CallInOrder,
  tool: Tool | undefined,
  grant: { hasToken: boolean; because: string | undefined },
  options: OrderOptions,
): Promise<never> {
  if (tool === undefined) {
    refuse(
      'invalid_token',
      'Present a live grant: this method needs one, and a call of a tool is how to get it.',
    )
  }
  throw await challengeFor({ ...judged, tool, ...grant }, options)
}

/** Contract, "Grant (RPT) liveness": by reason a fresh challenge, or the end. */
async function refuseInactive(
  judged: CallInOrder,
  { tool, token, reason }: { tool: Tool | undefined; token: string; reason: unknown },
  options: OrderOptions,
): Promise<never> {
  judged.trace.reason =
    typeof reason === 'string' && /^[a-z_]{1,64}$/.test(reason) ? reason : 'unreadable_reason'
  if (KNOWN_GRANT.has(judged.trace.reason)) nameEnded(judged.trace, token)
  const reaction = inactiveReaction(reason)
  if (reaction === 'terminal') {
    refuse(
      'access_revoked',
      'The owner or her organization has ended this access: do not call again with this grant.',
    )
  }
  return challenge(judged, tool, { hasToken: true, because: reaction.because }, options)
}

/** Reasons that an authority gives of a grant which it made. */
const KNOWN_GRANT: ReadonlySet<string> = new Set(
  INACTIVE_REASONS.filter(reason => reason !== 'unknown_token' && reason !== 'invalid_signature'),
)
/** Text that is as short and plain as the name of a live grant in a log line. */
const LOGGED = /^[\x21-\x7e]{1,128}$/

/** Whose grant it was. This is only written down: nothing follows from it. */
function nameEnded(trace: Trace, token: string): void {
  try {
    const { family, sub } = readRptClaims(token)
    if (LOGGED.test(family)) trace.family = family
    if (LOGGED.test(sub)) trace.handle = sub
  } catch {
    // The grant of an authority that says all of it in its answers need not be an RPT.
  }
}

function checkSignature(
  { call, route }: CallInOrder,
  grant: LiveGrant,
  options: OrderOptions,
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
    now: secondsOf(options),
    findKey: keyid => (keyid === undefined || grant.keyNames.includes(keyid) ? grant.key : undefined),
    keyidRequired: false,
    mustCoverDigest: options.requireContentDigest,
  })
}

/**
 * Consumes. If a call is not let through after all, the decision that she signed for it, or her authority's
 * yes to an emergency, can be used by the next.
 */
async function spend(judged: CallInOrder, token: string, grant: LiveGrant, approval?: Mark): Promise<void> {
  const marks = [approval]
  try {
    if (grant.breakGlass !== undefined) marks.push(await takeUse(judged, grant, grant.breakGlass))
    await consumeInTime(judged, token, grant)
  } catch (thrown) {
    for (const mark of marks) await mark?.release()
    throw thrown
  }
}

/** Whatever the organization answers to the consume. */
function takeUse(
  { route, deadline }: CallInOrder,
  grant: LiveGrant,
  { exp }: { exp: number },
): Promise<Mark> {
  const { authority, owner, organization } = route
  return takeEmergency(organization!.used, { authority, owner, jti: grant.jti, exp }, deadline)
}

/** Consumes, if there is time for the answer to arrive and somebody to take it. */
async function consumeInTime(
  { call, route, deadline, trace }: CallInOrder,
  token: string,
  grant: LiveGrant,
): Promise<void> {
  const whyNot = (): UnspentOutage | undefined => {
    if (deadline.remainingMs() <= 0)
      return new UnspentOutage('There was no time left to use the grant: it is unspent.')
    return call.isCancelled()
      ? new UnspentOutage('The caller has gone away: the grant is unspent.')
      : undefined
  }
  const why = whyNot()
  if (why !== undefined) throw why
  const issuer = grant.breakGlass !== undefined ? route.organization!.client : route.client
  const consume = (): Promise<Consumption> => issuer.consume(token, deadline, whyNot)
  const consumption = await (route.joint === undefined ? consume() : route.joint.spent.once(grant, consume))
  if (consumption.consumed) {
    trace.judged = consumption.judged ?? trace.judged
    return
  }
  const code = consumeRefusal(consumption.error)
  trace.reason = code
  refuse(code, 'The grant could not be used: negotiate again.')
}

function secondsOf({ clock }: Pick<OrderOptions, 'clock'>): number {
  return Math.floor(clock() / 1000)
}
