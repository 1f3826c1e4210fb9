/**
 * Owns one call from beat 1 to its answer, however it is carried: with a kept grant where one fits, else
 * bare; a challenge is negotiated about, once. Contract: "What the service does" (beats 1 to 4) and
 * "Single-use grant".
 */
import { AgentError, fail } from './agent-error.ts'
import type { CallAnswer } from './answer.ts'
import type { ToolCall } from './mcp.ts'
import type { Directory } from './metadata.ts'
import { negotiate } from './negotiate.ts'
import type { Profile } from './profile.ts'
import type { Grant, KeptReceipt } from './store.ts'
import { pauseBeforeRetry } from './token.ts'

/** A call, and the way to send it. */
export interface Asked<T> {
  resource: string
  call: ToolCall
  signal: AbortSignal | undefined
  /** Sends it once, under this RPT if any. */
  send(accessToken: string | undefined): Promise<CallAnswer<T>>
}

/** What it came to. */
export interface Performed<T> {
  outcome: T
  /** What it was made under, if a grant was needed. */
  grant: Grant | undefined
  /** Of the negotiation that it took. */
  receipt?: KeptReceipt
}

const RETRIES_MAX = 3
/** A grant that ends while the call is on its way is no use. */
const SECONDS_LEFT_MIN = 2

/**
 * Performs a call. Fails with `AgentError`: with the word of a refusal, or with what the agent itself found
 * wrong.
 */
export async function performCall<T>(
  profile: Profile,
  directory: Directory,
  asked: Asked<T>,
): Promise<Performed<T>> {
  const { resource, call, signal } = asked
  const kept = await keptGrant(profile, asked)
  const first = await attempt(profile, asked, { grant: kept, name: kept ? 'kept' : 'none' })
  if (first.kind === 'result') return answered(profile, asked, { outcome: first.result, grant: kept })
  if (kept) await profile.store.dropGrant(kept)
  const { challenge } = first
  const { grant, receipt } = await negotiate(profile, directory, { resource, call, challenge, signal })
  const second = await attempt(profile, asked, { grant, name: 'fresh' })
  if (second.kind === 'result') return answered(profile, asked, { outcome: second.result, grant, receipt })
  await profile.store.dropGrant(grant)
  return fail('challenged_again', 'The resource challenges the very grant that was negotiated for this call.')
}

/**
 * Sends the call, again only while the answer is `temporarily_unavailable`; any other refusal ends a kept
 * grant.
 */
export async function attempt<T>(
  profile: Profile,
  asked: Asked<T>,
  using: { grant: Grant | undefined; name: 'none' | 'kept' | 'fresh' },
): Promise<CallAnswer<T>> {
  const { resource, call, signal } = asked
  profile.tell({ type: 'calling', resource, call, grant: using.name })
  for (let sent = 1; ; sent++) {
    try {
      const answer = await asked.send(using.grant?.access_token)
      if (answer.kind === 'result') await heed(profile, using.grant, answer.refusal)
      return answer
    } catch (error) {
      if (!(error instanceof AgentError)) throw error
      if (error.code !== 'temporarily_unavailable' || sent > RETRIES_MAX) {
        await heed(profile, using.grant, error)
        throw error
      }
      await pauseBeforeRetry(error, sent, {
        signal,
        onRetry: (code, afterSeconds) => profile.tell({ type: 'retrying', code, afterSeconds }),
      })
    }
  }
}

/** The live standing grants for a resource that are kept; ended ones are forgotten. */
export async function standingGrants({ store, now }: Profile, resource: string): Promise<Grant[]> {
  const until = now() + SECONDS_LEFT_MIN
  const grants = await store.grants(resource)
  for (const grant of grants) if (grant.exp <= until) await store.dropGrant(grant)
  return grants.filter(grant => grant.exp > until && !grant.single_use)
}

/** Forgets the grant that a call was made under where its refusal ends it. */
export async function heed(
  { store }: Profile,
  grant: Grant | undefined,
  refusal: AgentError | undefined,
): Promise<void> {
  if (grant !== undefined && refusal !== undefined && endsGrant(refusal)) await store.dropGrant(grant)
}

/**
 * A refusal is terminal for the token presented; what the agent itself found, or the tool says, leaves it as
 * it was.
 */
function endsGrant(error: AgentError): boolean {
  return error.terminal && !error.local && error.code !== 'rpc_error'
}

/**
 * A live standing grant for what this tool was found to need before; undefined where it has not been called
 * yet.
 */
async function keptGrant(
  profile: Profile,
  { resource, call }: Pick<Asked<unknown>, 'resource' | 'call'>,
): Promise<Grant | undefined> {
  const need = await profile.store.need(resource, call.tool)
  if (!need) return undefined
  return (await standingGrants(profile, resource)).find(grant => covers(grant, need))
}

/** Whether a grant permits what a tool was found to need. */
export function covers(grant: Grant, need: { resource_id: string; scopes: string[] }): boolean {
  return grant.permissions.some(
    permission =>
      permission.resource_id === need.resource_id &&
      need.scopes.every(scope => permission.resource_scopes.includes(scope)),
  )
}

function answered<T>(profile: Profile, { resource, call }: Asked<T>, performed: Performed<T>): Performed<T> {
  profile.tell({ type: 'answered', resource, call })
  return performed
}
