/**
 * Owns one call from beat 1 to its answer, over any transport: with a kept grant if one fits, otherwise
 * without. If it is challenged, the agent negotiates once. Contract: "What the service does" (beats 1 to 4)
 * and "Single-use grant".
 */
import { AgentError, fail } from './agent-error.ts'
import type { Challenge } from '../wire/negotiation/negotiation.ts'
import type { CallAnswer } from './answer.ts'
import { namedBy, needName, toolOf, type ToolCall } from './transports/mcp.ts'
import type { Directory } from './negotiation/metadata.ts'
import { negotiate } from './negotiation/negotiate.ts'
import type { Profile } from './profile.ts'
import type { Grant, StoredReceipt } from './store.ts'
import { pauseBeforeRetry } from './negotiation/token.ts'

/** A call, and the way to send it. */
export interface AuthorizedCallRequest<T> {
  resource: string
  call: ToolCall
  signal: AbortSignal | undefined
  /** Sends it once, under this RPT if any. */
  send(accessToken: string | undefined): Promise<CallAnswer<T>>
  /**
   * Finds out everything that must be known before a grant is requested or used; an outage may keep it from
   * that, and it is called again.
   */
  beforeGrant?: (() => Promise<void>) | undefined
  /** Fails if the call could not be made under any grant, so that nobody is asked about it. */
  beforeAsking?: (() => Promise<void>) | undefined
}

/** The result. */
export interface Performed<T> {
  outcome: T
  /** The grant under which it was made, if one was needed. */
  grant: Grant | undefined
  /** The receipt of the negotiation that it needed. */
  receipt?: StoredReceipt
}

const RETRIES_MAX = 3
/** A grant that ends while the call is on its way is useless. */
const SECONDS_LEFT_MIN = 2

/**
 * Performs a call. Fails with `AgentError`: with the code of a refusal, or with what the agent itself found
 * wrong.
 */
export async function performCall<T>(
  profile: Profile,
  directory: Directory,
  request: AuthorizedCallRequest<T>,
): Promise<Performed<T>> {
  const { resource, call, signal } = request
  const storedGrant = await findGrant(profile, request)
  const first = await attempt(profile, request, { grant: storedGrant, name: storedGrant ? 'kept' : 'none' })
  if (first.kind === 'result')
    return answered(profile, request, { outcome: first.result, grant: storedGrant })
  const { challenge } = first
  await request.beforeGrant?.().catch(unlessOutage)
  const again = await callAsNamed(profile, request, { challenge, storedGrant })
  if (again !== undefined) return answered(profile, request, again)
  await request.beforeAsking?.()
  const { grant, receipt } = await negotiate(profile, directory, { resource, call, challenge, signal })
  const second = await attempt(profile, request, { grant, name: 'fresh' })
  if (second.kind === 'result') return answered(profile, request, { outcome: second.result, grant, receipt })
  await profile.store.dropGrant(grant)
  return fail('challenged_again', 'The resource challenges the very grant that was negotiated for this call.')
}

/** What an outage keeps from being found out now is asked again when the grant is used. */
function unlessOutage(error: unknown): void {
  if (!(error instanceof AgentError) || error.code !== 'temporarily_unavailable') throw error
}

/**
 * Sends a challenged call again under the kept grant of the tool that its challenge names: of the part of
 * this tool that it is about, or of the tool to which the resource maps this method, such as the tool that
 * gave the link to what is read. Undefined if there is none, or it is not enough; then the grants that the
 * challenge shows to be over are dropped.
 */
async function callAsNamed<T>(
  profile: Profile,
  request: AuthorizedCallRequest<T>,
  { challenge, storedGrant }: { challenge: Challenge; storedGrant: Grant | undefined },
): Promise<Performed<T> | undefined> {
  const { resource, call } = request
  const tool = toolOf(namedBy(call, challenge))
  const isMethod = call.method !== undefined
  const named = tool === needName(call) ? undefined : await findGrant(profile, { resource, call: { tool } })
  const grant = named?.jti === storedGrant?.jti ? undefined : named
  const again = grant && (await attempt(profile, request, { grant, name: 'kept' }))
  if (again?.kind === 'result') return { outcome: again.result, grant }
  // The grant of a tool may be good for its calls all the same, and that of another part lives on.
  if (grant && !isMethod) await profile.store.dropGrant(grant)
  const isOver = isMethod || tool === needName(call) || named?.jti === storedGrant?.jti
  if (storedGrant && isOver) await profile.store.dropGrant(storedGrant)
  return undefined
}

/**
 * Sends the call, and retries only while the answer is `temporarily_unavailable`. Under a grant for one use,
 * it retries only if that answer proves that the grant is unspent; otherwise it fails with `outcome_unknown`.
 * Any other refusal ends a kept grant.
 */
export async function attempt<T>(
  profile: Profile,
  request: AuthorizedCallRequest<T>,
  using: { grant: Grant | undefined; name: 'none' | 'kept' | 'fresh' },
): Promise<CallAnswer<T>> {
  const { resource, call, signal } = request
  profile.tell({ type: 'calling', resource, call, grant: using.name })
  for (let sent = 1; ; sent++) {
    try {
      if (using.grant !== undefined) await request.beforeGrant?.()
      const answer = await request.send(using.grant?.access_token)
      if (answer.kind === 'result') await heed(profile, using.grant, answer.refusal)
      return answer
    } catch (thrown) {
      if (!(thrown instanceof AgentError)) throw thrown
      const error = asUse(using.grant, thrown)
      if (error.code !== 'temporarily_unavailable' || sent > RETRIES_MAX) {
        // If a grant cannot be dropped, it will be refused again later. The caller still gets the answer to
        // this call.
        await heed(profile, using.grant, error).catch(() => undefined)
        throw error
      }
      await pauseBeforeRetry(error, sent, {
        signal,
        onRetry: (code, afterSeconds) => profile.tell({ type: 'retrying', code, afterSeconds }),
      })
    }
  }
}

/** JSON-RPC 2.0 §5.1: the server did not read the request, or does not know it. */
const PROTOCOL_ERRORS: ReadonlySet<number> = new Set([-32_700, -32_600, -32_601])
/** Streamable HTTP: this server does not accept the request. */
const PROTOCOL_STATUSES: ReadonlySet<number | undefined> = new Set([400, 404, 405, 406, 415])

/** Whether the server refused the request itself, before any tool ran. */
function isProtocolError({ code, status, rpc }: AgentError): boolean {
  if (rpc !== undefined && code === 'rpc_error')
    return PROTOCOL_ERRORS.has(rpc.code) || PROTOCOL_STATUSES.has(status)
  return code === 'unexpected_answer' && PROTOCOL_STATUSES.has(status)
}

/** The same error, which also says that the approval of the call is spent on it. */
function spentOnProtocol(error: AgentError): AgentError {
  const { code, status, terminal, rpc, local } = error
  const detail = `${error.detail} The server did not take the request, so the tool did not run; the grant for this one call is spent all the same, and the owner must be asked again. If the server speaks another revision of MCP, name it first.`
  return new AgentError(code, { detail, status, terminal, rpc, local, cause: error })
}

const OUTAGES: ReadonlySet<string> = new Set(['temporarily_unavailable', 'unreachable'])

/**
 * What an outage means for the grant of the call. Contract, "Errors": a grant for one use may be spent even
 * if `/consume` gave no answer. So an outage says that the call was not made only if the grant is known to be
 * unspent.
 */
function asUse(grant: Grant | undefined, error: AgentError): AgentError {
  if (grant?.single_use !== true || error.unspent) return error
  if (isProtocolError(error)) return spentOnProtocol(error)
  if (!OUTAGES.has(error.code)) return error
  return new AgentError('outcome_unknown', {
    detail: `The call was sent under a grant for one use, and nobody said whether it was made: ${error.detail}`,
    status: error.status,
    local: true,
    cause: error,
  })
}

/** The live standing grants that are kept for a resource; ended ones are deleted. */
export async function standingGrants({ store, now }: Profile, resource: string): Promise<Grant[]> {
  const until = now() + SECONDS_LEFT_MIN
  const grants = await store.grants(resource)
  for (const grant of grants) if (grant.exp <= until) await store.dropGrant(grant)
  return grants.filter(grant => grant.exp > until && !grant.single_use)
}

/** Deletes the grant of a call if the refusal of the call ends it. */
export async function heed(
  { store }: Profile,
  grant: Grant | undefined,
  refusal: AgentError | undefined,
): Promise<void> {
  if (grant !== undefined && refusal !== undefined && endsGrant(refusal)) await store.dropGrant(grant)
}

/**
 * A refusal is terminal for the presented token. A fault that the agent found, or an error of the tool, does
 * not change the token.
 */
function endsGrant(error: AgentError): boolean {
  return error.terminal && !error.local && error.code !== 'rpc_error'
}

/** A live standing grant for what this tool needed before; undefined if it has not been called yet. */
async function findGrant(
  profile: Profile,
  { resource, call }: Pick<AuthorizedCallRequest<unknown>, 'resource' | 'call'>,
): Promise<Grant | undefined> {
  const need = await profile.store.need(resource, needName(call))
  if (!need) return undefined
  return (await standingGrants(profile, resource)).find(grant => covers(grant, need))
}

/** Whether a grant permits what a tool needed before. */
export function covers(grant: Grant, need: { resource_id: string; scopes: string[] }): boolean {
  return grant.permissions.some(
    permission =>
      permission.resource_id === need.resource_id &&
      need.scopes.every(scope => permission.resource_scopes.includes(scope)),
  )
}

function answered<T>(
  profile: Profile,
  { resource, call }: AuthorizedCallRequest<T>,
  performed: Performed<T>,
): Performed<T> {
  profile.tell({ type: 'answered', resource, call })
  return performed
}
