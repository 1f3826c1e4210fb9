/**
 * Owns the enforcement order: the five steps, once, for every door. Contract: "Authorized call", "Enforcement
 * order (normative)". A refusal at any step before 5 leaves the grant unspent. What stands around the order
 * (deadline, log, report) is `check.ts`.
 */
import { consumeReaction, reactTo } from '../rules/liveness.ts'
import { matchPermission, worseConsequence, type Permission } from '../rules/permission.ts'
import { verifyRequestApart, type SignedMessage, type VerifiedSignature } from '../wire/http-signature.ts'
import { refuse } from '../wire/refusal.ts'
import type { AccessReports } from './authorities/access-reports.ts'
import type { Allowed, Call } from './call.ts'
import { sourceOf } from './challenge-limit.ts'
import { challengeFor, tooManyCalls, type ChallengeOptions } from './challenges.ts'
import { outage, type Deadline } from './deadline.ts'
import type { Introspection, LiveGrant } from './introspection.ts'
import { checkOperation } from './operation.ts'
import { introspectBreakGlass, isOfOrganization } from './organization/break-glass.ts'
import { checkCeiling } from './organization/ceiling.ts'
import type { ToolCall } from './request/call-request.ts'
import type { Route, Tool } from './request/routes.ts'
import { enterStep, type Trace } from './telemetry/decision-log.ts'
import { allowCall, presentedGrant } from './upstream.ts'

export interface OrderOptions extends ChallengeOptions {
  reports: Pick<AccessReports, 'ready'>
  /** Milliseconds since the epoch. */
  clock: () => number
  keepCredentials: boolean
  requireContentDigest: boolean
}

/** One call on its way through the order. */
export interface Judged {
  call: Call
  route: Route
  deadline: Deadline
  trace: Trace
}

/** What a call was let through with. */
export interface Use {
  token: string
  grant: LiveGrant
  request: ToolCall
}

/** A call that is let through. `use` is there where a tool was called, of which the owner is to be told. */
export interface Passed {
  outcome: Allowed
  use?: Use
}

const REQUIRED_COMPONENTS = ['@method', '@authority', '@path', 'authorization']

/**
 * Takes one call through the order. Throws the refusal of the first step that does not hold, or whatever
 * failed.
 */
export async function judge(judged: Judged, options: OrderOptions): Promise<Passed> {
  const { call, route, trace } = judged
  enterStep(trace, 'request')
  const request = route.readRequest(call)
  if (request.kind === 'pass') return { outcome: allowCall(call, options) }
  const tool = request.kind === 'tool' ? findTool(route, request, trace) : undefined
  const token = presentedGrant(call)
  if (token === undefined) return challenge(judged, tool, { hasToken: false }, options)

  enterStep(trace, 'introspect') // 1. Is the token live, and does the connection stand?
  const answer = await introspect(judged, token, options)
  if (!answer.active) return refuseInactive(judged, tool, answer.reason, options)
  const { grant } = answer
  trace.family = grant.family
  trace.handle = grant.sub

  enterStep(trace, 'permission') // 2. The tool's resource and scopes, inside the permission's own window.
  if (tool !== undefined) {
    const permission = matchPermission(grant.permissions, tool, secondsOf(options))
    if (permission === undefined) return challenge(judged, tool, { hasToken: true }, options)
    if (route.organization !== undefined) await underCeiling(judged, grant, permission)
  }

  enterStep(trace, 'signature') // 3. The request is signed by the key the grant is bound to; nothing was re-declared worse.
  const signature = await checkSignature(judged, grant, options)
  if (tool !== undefined && worseConsequence(tool.consequence, grantedConsequence(grant, tool.tool))) {
    refuse(
      'consequence_changed',
      'Negotiate again: the operation is now declared graver than the grant was given for.',
    )
  }

  // A call that her ledger could not tell of is not let through, and costs no grant. In an emergency the
  // organization tells her, by the consume.
  const isReported = request.kind === 'tool' && grant.breakGlass !== true
  if (isReported) options.reports.ready(route.client)

  if (grant.single_use) {
    enterStep(trace, 'operation') // 4. A single-use grant is for one operation with exactly these parameters.
    if (request.kind !== 'tool')
      refuse('operation_mismatch', 'Use this grant for the operation it was approved for.')
    checkOperation(grant, request, {
      body: call.body,
      digestCovered: signature.covered.includes('content-digest'),
    })

    enterStep(trace, 'consume') // 5. Spent only now; the one line that changes anything.
    await spend(judged, token, grant)
  }

  enterStep(trace, 'allow')
  const outcome = allowCall(call, {
    grant,
    ...(tool === undefined ? {} : { tool: tool.tool }),
    keepCredentials: options.keepCredentials,
  })
  return isReported ? { outcome, use: { token, grant, request } } : { outcome }
}

/** The organization's ceiling is a part of the second step. */
function underCeiling({ route, deadline }: Judged, grant: LiveGrant, permission: Permission): Promise<void> {
  const { organization, authority } = route
  return checkCeiling(organization!, { grant, permission, authority, deadline })
}

/**
 * The class that a grant was given for: of this very tool where the authority tells them apart, else of the
 * resource.
 */
function grantedConsequence({ consequences, consequence }: LiveGrant, tool: string): string | undefined {
  return consequences !== undefined && Object.hasOwn(consequences, tool) ? consequences[tool] : consequence
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
  options: OrderOptions,
): Promise<Introspection> {
  const { limit, trustedHops } = options
  const taken = limit.takeFor({ token, resource: route.resource }, sourceOf(call, trustedHops))
  if (taken.waitSeconds > 0) throw tooManyCalls(taken.waitSeconds)
  const { organization } = route
  const answer =
    organization !== undefined && isOfOrganization(organization, token)
      ? await introspectBreakGlass(organization, { token, route, deadline, now: secondsOf(options) })
      : await route.client.introspect(token, deadline)
  taken.told(answer.active)
  return answer
}

/** A fresh challenge for a tool; a method that is no tool has no resource to negotiate about. */
async function challenge(
  judged: Judged,
  tool: Tool | undefined,
  { hasToken }: { hasToken: boolean },
  options: OrderOptions,
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
  options: OrderOptions,
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

/** Consumes, if there is time for the answer to arrive and somebody to take it. */
async function spend(
  { call, route, deadline, trace }: Judged,
  token: string,
  grant: LiveGrant,
): Promise<void> {
  if (deadline.remainingMs() <= 0) throw outage('There was no time left to use the grant: it is unspent.')
  if (call.isCancelled()) throw outage('The caller has gone away: the grant is unspent.')
  const issuer = grant.breakGlass === true ? route.organization!.client : route.client
  const consumption = await issuer.consume(token, deadline)
  if (consumption.consumed) return
  const code = consumeReaction(consumption.error)
  trace.reason = code
  refuse(code, 'The grant could not be used: negotiate again.')
}

function secondsOf({ clock }: Pick<OrderOptions, 'clock'>): number {
  return Math.floor(clock() / 1000)
}
