/**
 * The agent's public API: call tools that somebody owns, on her terms. contract, "What the service does", from the requesting
 * side. Reaches no server, no database; needs a key and `fetch`.
 */
import type { Json } from '../wire/json.ts'
import type { PublicJwk } from '../wire/keys.ts'
import type { Challenge } from '../wire/negotiation.ts'
import type { TermsTemplate } from '../wire/terms.ts'
import { AgentError, fail } from './agent-error.ts'
import type { CallAnswer } from './answer.ts'
import { apiParameters, publishedCall, type HttpCall } from './api.ts'
import { sendCall } from './call.ts'
import { plainArguments, type ToolCall } from './mcp.ts'
import { createSessions, type Sessions } from './mcp-session.ts'
import { createDirectory, type Directory } from './metadata.ts'
import { declineTerms, negotiate } from './negotiate.ts'
import { introduce, readProfile, type AgentOptions, type Profile } from './profile.ts'
import type { Grant, KeptReceipt } from './store.ts'
import { pauseBeforeRetry } from './token.ts'
import { checkAddress } from './transport.ts'

export { AgentError, type LocalErrorCode } from './agent-error.ts'
export type { ApiAnswer, HttpCall } from './api.ts'
export type { AgentEvent } from './events.ts'
export { proveMessage, type ProvenMessage } from './message.ts'
export type { McpVersion, ToolCall } from './mcp.ts'
export type { AgentOptions } from './profile.ts'
export { fileStore, memoryStore, type AgentStore, type Grant, type KeptReceipt } from './store.ts'

/** One tool call. `resource` is the URL of the MCP endpoint, or the base of a plain API, exactly as its metadata names it. */
export interface CallOptions {
  resource: string
  tool: string
  /** A JSON object; left out for a tool without arguments. For a plain API `{path, query, body}`, each of which may be left out. */
  arguments?: object | undefined
  /**
   * Makes it the call of a plain HTTP API below `resource`: by this method and path template, or as the resource itself publishes.
   * A body that is no JSON stands in `content`. Left out, the resource is called by MCP.
   */
  http?: HttpCall | 'published' | undefined
  signal?: AbortSignal | undefined
}

/**
 * What a call came to: the tool's MCP result as it was sent (of a plain API `{status, content_type, body}`), and the grant it was made
 * under, if one was needed.
 */
export interface CallResult {
  result: Json
  grant: Omit<Grant, 'access_token'> | undefined
  /** The receipt of the negotiation that this call took; undefined where none was needed. */
  receipt: KeptReceipt | undefined
}

/** An agent. Everything it does fails with `AgentError`. */
export interface Agent {
  /** RFC 7638 thumbprint of its key; its pseudonymous handle is `jkt:` + this. */
  readonly thumbprint: string
  /** Calls a tool, and negotiates for it where that is asked: at most once per call. */
  call(options: CallOptions): Promise<CallResult>
  /** Asks for the terms of a call and declines them, which the owner is told. Answers the terms. */
  decline(options: CallOptions): Promise<TermsTemplate>
  /** Signs an introduction of another agent's key, for one authority, good for five minutes. */
  introduce(options: { newcomer: PublicJwk; authority: string }): Promise<string>
  /** The receipts kept so far, oldest first. */
  receipts(): Promise<KeptReceipt[]>
}

/** An agent with a key of its own. Fails with `request_invalid` for a key that cannot be used. */
export function createAgent(options: AgentOptions): Agent {
  const profile = readProfile(options)
  const parts = { profile, directory: createDirectory(profile), sessions: createSessions(profile) }
  const read = (call: CallOptions): Read => readCall(profile, call)
  return {
    thumbprint: profile.key.thumbprint,
    call: async call => performCall(parts, await resolveHttp(parts, read(call))),
    decline: async call => decline(parts, await resolveHttp(parts, read(call))),
    introduce: async ({ newcomer, authority }) =>
      introduce({
        key: profile.key,
        agent_token: await profile.agentToken(),
        newcomer,
        authority,
        now: profile.now(),
      }),
    receipts: () => profile.store.receipts(),
  }
}

/** What an agent works with for as long as it lives. */
interface Parts {
  profile: Profile
  directory: Directory
  sessions: Sessions
}

/** A call whose options were found usable; of an API perhaps not yet how it is called. */
type Read = Omit<Asked, 'http'> & { http: HttpCall | 'published' | undefined }

/** A call whose options were found usable. */
interface Asked {
  resource: string
  url: URL
  call: ToolCall
  http: HttpCall | undefined
  signal: AbortSignal | undefined
}

const RETRIES_MAX = 3
/** A grant that ends while the call is on its way is no use. */
const SECONDS_LEFT_MIN = 2

function readCall(profile: Profile, options: CallOptions): Read {
  const url = checkAddress(options.resource, profile.allowLoopback, 'resource')
  if (typeof options.tool !== 'string' || options.tool === '')
    fail('request_invalid', 'Name the tool to call.')
  const { http } = options
  const given = plainArguments(options.arguments)
  const content = http === 'published' ? undefined : http?.content
  const args = http === undefined ? given : apiParameters(given, content)
  return {
    resource: options.resource,
    url,
    call: { tool: options.tool, arguments: args },
    http,
    signal: options.signal,
  }
}

/** How an API publishes that a tool is called; a call that says so itself, or is none of an API, stays as it is. */
async function resolveHttp({ directory }: Parts, asked: Read): Promise<Asked> {
  const { http, resource, call, signal } = asked
  if (http !== 'published') return { ...asked, http }
  return { ...asked, http: publishedCall(await directory.surfacesOf(resource, signal), call) }
}

/** With a kept grant where one fits, else bare; a challenge is negotiated about, once; then with the fresh grant. */
async function performCall(parts: Parts, asked: Asked): Promise<CallResult> {
  const { profile, directory } = parts
  const kept = await keptGrant(profile, asked)
  const first = await attempt(parts, asked, { grant: kept, name: kept ? 'kept' : 'none' })
  if (first.kind === 'result') return answered(profile, asked, { result: first.result, grant: kept })
  if (kept) await profile.store.dropGrant(kept)
  const { resource, call, signal } = asked
  const { grant, receipt } = await negotiate(profile, directory, {
    resource,
    call,
    challenge: first.challenge,
    signal,
  })
  const second = await attempt(parts, asked, { grant, name: 'fresh' })
  if (second.kind === 'result') return answered(profile, asked, { result: second.result, grant, receipt })
  await profile.store.dropGrant(grant)
  return fail('challenged_again', 'The resource challenges the very grant that was negotiated for this call.')
}

/** Sends the call, again only while the answer is `temporarily_unavailable`; any other refusal ends a kept grant. */
async function attempt(
  { profile, sessions }: Parts,
  asked: Asked,
  using: { grant: Grant | undefined; name: 'none' | 'kept' | 'fresh' },
): Promise<CallAnswer> {
  const { resource, url, call, http, signal } = asked
  const accessToken = using.grant?.access_token
  profile.tell({ type: 'calling', resource, call, grant: using.name })
  for (let sent = 1; ; sent++) {
    try {
      return await sendCall(profile, sessions, { url, call, http, accessToken, signal })
    } catch (error) {
      if (!(error instanceof AgentError)) throw error
      if (error.code !== 'temporarily_unavailable' || sent > RETRIES_MAX) {
        if (using.grant && endsGrant(error)) await profile.store.dropGrant(using.grant)
        throw error
      }
      await pauseBeforeRetry(error, sent, {
        signal,
        onRetry: (code, afterSeconds) => profile.tell({ type: 'retrying', code, afterSeconds }),
      })
    }
  }
}

/** A refusal is terminal for the token presented; what the agent itself found, or the tool says, leaves it as it was. */
function endsGrant(error: AgentError): boolean {
  return error.terminal && !error.local && error.code !== 'rpc_error'
}

/** A live standing grant for what this tool was found to need before; undefined where it has not been called yet. */
async function keptGrant(profile: Profile, asked: Asked): Promise<Grant | undefined> {
  const { store } = profile
  const need = await store.need(asked.resource, asked.call.tool)
  if (!need) return undefined
  const until = profile.now() + SECONDS_LEFT_MIN
  const grants = await store.grants(asked.resource)
  for (const grant of grants) if (grant.exp <= until) await store.dropGrant(grant)
  return grants.find(grant => grant.exp > until && !grant.single_use && covers(grant, need))
}

function covers(grant: Grant, need: { resource_id: string; scopes: string[] }): boolean {
  return grant.permissions.some(
    permission =>
      permission.resource_id === need.resource_id &&
      need.scopes.every(scope => permission.resource_scopes.includes(scope)),
  )
}

function answered(
  profile: Profile,
  asked: Asked,
  outcome: { result: Json; grant: Grant | undefined; receipt?: KeptReceipt },
): CallResult {
  profile.tell({ type: 'answered', resource: asked.resource, call: asked.call })
  const { access_token: _withheld, ...grant } = outcome.grant ?? { access_token: '' }
  return {
    result: outcome.result,
    grant: outcome.grant && (grant as Omit<Grant, 'access_token'>),
    receipt: outcome.receipt,
  }
}

async function decline(parts: Parts, asked: Asked): Promise<TermsTemplate> {
  const { resource, call, signal } = asked
  const answer = await attempt(parts, asked, { grant: undefined, name: 'none' })
  if (answer.kind === 'result')
    fail('not_challenged', 'The call needs no agreement: it was made, and answered.')
  const challenge: Challenge = answer.challenge
  return declineTerms(parts.profile, parts.directory, { resource, call, challenge, signal })
}
