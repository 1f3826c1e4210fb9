/**
 * The agent's public API: call tools that somebody owns, on her terms. Contract: "What the service does",
 * from the requesting side. It imports no server and no database; it needs a key and `fetch`.
 */
import type { Json } from '../wire/json.ts'
import type { PublicJwk } from '../wire/signatures/keys.ts'
import type { Challenge } from '../wire/negotiation/negotiation.ts'
import type { TermsTemplate } from '../wire/negotiation/terms.ts'
import { fail } from './agent-error.ts'
import { authorizeFetch } from './transports/authorized-fetch.ts'
import { attempt, performCall, type AuthorizedCallRequest } from './authorized-call.ts'
import { authorizeTransport, type MessageTransport } from './transports/authorized-transport.ts'
import { apiParameters, publishedCall, type HttpCall } from './transports/api.ts'
import { redeemEmergency, type BreakGlassOptions } from './negotiation/break-glass.ts'
import { sendCall } from './transports/call.ts'
import { plainArguments } from './transports/mcp.ts'
import { createSessions, type Sessions } from './transports/mcp-session.ts'
import { createDirectory, type Directory } from './negotiation/metadata.ts'
import { declineTerms } from './negotiation/negotiate.ts'
import { introduce, readProfile, type AgentOptions, type Profile } from './profile.ts'
import type { Grant, StoredReceipt } from './store.ts'
import { refuseTaskOnly } from './transports/task-tools.ts'
import { checkAddress } from './transports/transport.ts'

export { AgentError, type LocalErrorCode } from './agent-error.ts'
export type { ApiAnswer, HttpCall } from './transports/api.ts'
export type { MessageTransport } from './transports/authorized-transport.ts'
export type { BreakGlassOptions as Emergency } from './negotiation/break-glass.ts'
export type { AgentEvent } from './events.ts'
export type { AssertionRequest } from './negotiation/identity.ts'
export { proveMessage, type ProvenMessage } from './transports/message.ts'
export type { McpVersion, ToolCall } from './transports/mcp.ts'
export type { AgentOptions } from './profile.ts'
export {
  fileStore,
  memoryStore,
  type AgentStore,
  type Grant,
  type StoredReceipt as KeptReceipt,
} from './store.ts'

/**
 * One tool call. `resource` is the URL of the MCP endpoint, or the base of a plain API, exactly as its
 * metadata names it.
 */
export interface CallOptions {
  resource: string
  tool: string
  /**
   * A JSON object; left out for a tool without arguments. For a plain API `{path, query, body}`, each of
   * which may be left out.
   */
  arguments?: object | undefined
  /**
   * If the tool asked back (MCP 2026-07-28: a result whose `resultType` is `input_required`), the answers,
   * and its `requestState` as it came. It is a new call: if the owner is asked, she is asked about these,
   * too.
   */
  inputResponses?: object | undefined
  requestState?: string | undefined
  /**
   * Makes it the call of a plain HTTP API below `resource`: by this method and path template, or as the
   * resource itself publishes. A body that is no JSON goes in `content`. If `http` is left out, the resource
   * is called by MCP.
   */
  http?: HttpCall | 'published' | undefined
  signal?: AbortSignal | undefined
}

/**
 * The result of a call: the tool's MCP result as it was sent (for a plain API `{status, content_type,
 * body}`), and the grant under which the call was made, if one was needed.
 */
export interface CallResult {
  result: Json
  grant: Omit<Grant, 'access_token'> | undefined
  /** The receipt of the negotiation that this call took; undefined if none was needed. */
  receipt: StoredReceipt | undefined
}

/** An agent. Everything it does fails with `AgentError`. */
export interface Agent {
  /** RFC 7638 thumbprint of its key; its pseudonymous handle is `jkt:` + this. */
  readonly thumbprint: string
  /** Calls a tool, and negotiates for it if that is needed: at most once per call. */
  call(options: CallOptions): Promise<CallResult>
  /**
   * Wraps a transport of the official MCP SDK without HTTP (stdio, in process), for a client to connect to:
   * if a JSON-RPC error challenges a tool call, the call negotiates and carries its proof. `resource` is the
   * URL that the server's metadata names. A failed negotiation is answered by the server's own error, or by
   * one with the code -32002 whose `data.error` is the `AgentError`'s.
   */
  authorize<T extends MessageTransport>(transport: T, resource: string): T
  /**
   * A `fetch` for the HTTP transports of the official MCP SDK: calls of tools at `resource` negotiate and are
   * signed, and so are, under a standing grant that is kept, the streams and ends of sessions. Anything else
   * is sent as it is. Rejects with `AgentError`.
   */
  fetchFor(resource: string): typeof fetch
  /**
   * Makes one call in an emergency, under a grant of the owner's organization that her authority accepts at
   * once: she does not decide, but is notified about all of it. The call spends the grant.
   */
  breakGlass(options: CallOptions, emergency: BreakGlassOptions): Promise<CallResult>
  /** Asks for the terms of a call and declines them, which the owner sees. Returns the terms. */
  decline(options: CallOptions): Promise<TermsTemplate>
  /** Signs an introduction of another agent's key, for one authority, good for five minutes. */
  introduce(options: { newcomer: PublicJwk; authority: string }): Promise<string>
  /** The receipts kept so far, oldest first. */
  receipts(): Promise<StoredReceipt[]>
}

/** An agent with a key of its own. Fails with `request_invalid` for a key that cannot be used. */
export function createAgent(options: AgentOptions): Agent {
  const profile = readProfile(options)
  const onRetry = retryTeller(profile)
  const directory = createDirectory({ allowLoopback: profile.allowLoopback, now: profile.now, onRetry })
  const parts = { profile, directory, sessions: createSessions(profile) }
  const read = (call: CallOptions): Read => readCall(profile, call)
  return {
    thumbprint: profile.key.thumbprint,
    call: async call => {
      const request = await resolveHttp(parts, read(call))
      const { outcome, grant, receipt } = await performCall(profile, directory, request)
      const { access_token: _withheld, ...publicGrant } = grant ?? { access_token: '' }
      return { result: outcome, grant: grant && (publicGrant as Omit<Grant, 'access_token'>), receipt }
    },
    authorize: (transport, resource) => {
      checkAddress(resource, profile.allowLoopback, 'resource')
      return authorizeTransport(transport, resource, { profile, directory })
    },
    fetchFor: resource =>
      authorizeFetch(checkAddress(resource, profile.allowLoopback, 'resource'), resource, {
        profile,
        directory,
      }),
    breakGlass: async (call, emergency) => {
      const request = await resolveHttp(parts, read(call))
      await request.beforeGrant?.()
      await request.beforeAsking?.()
      const grant = await redeemEmergency(profile, emergency, request)
      const answer = await attempt(profile, request, { grant, name: 'fresh' })
      if (answer.kind !== 'result')
        fail('challenged_again', 'The resource does not take the grant of the organization.')
      profile.tell({ type: 'answered', resource: request.resource, call: request.call })
      const { access_token: _withheld, ...publicGrant } = grant
      return { result: answer.result, grant: publicGrant, receipt: undefined }
    },
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

/** What an agent works with as long as it lives. */
interface AgentParts {
  profile: Profile
  directory: Directory
  sessions: Sessions
}

/** A call whose options are valid; for an API, it may not yet be known how it is called. */
interface Read extends Omit<AuthorizedCallRequest<Json>, 'send' | 'beforeGrant' | 'beforeAsking'> {
  url: URL
  http: HttpCall | 'published' | undefined
}

function readCall(profile: Profile, options: CallOptions): Read {
  const url = checkAddress(options.resource, profile.allowLoopback, 'resource')
  if (typeof options.tool !== 'string' || options.tool === '')
    fail('request_invalid', 'Name the tool to call.')
  const { http } = options
  const plainArgs = plainArguments(options.arguments)
  const content = http === 'published' ? undefined : http?.content
  const args = http === undefined ? plainArgs : apiParameters(plainArgs, content)
  return {
    resource: options.resource,
    url,
    call: {
      tool: options.tool,
      arguments: args,
      inputResponses: plainArguments(options.inputResponses),
      requestState: options.requestState,
    },
    http,
    signal: options.signal,
  }
}

/**
 * The call as it is sent; if the call does not say how a tool of an API is called, that is looked up in what
 * the API publishes.
 */
async function resolveHttp(
  { profile, directory, sessions }: AgentParts,
  read: Read,
): Promise<AuthorizedCallRequest<Json>> {
  const { http: choice, resource, call, url, signal } = read
  const http =
    choice === 'published' ? publishedCall(await directory.surfacesOf(resource, signal), call) : choice
  const send = (accessToken: string | undefined) =>
    sendCall(profile, sessions, { url, call, http, accessToken, signal })
  const beforeGrant = http === undefined ? untilDone(() => sessions.learnVersion(url, signal)) : undefined
  const beforeAsking =
    http === undefined ? () => refuseTaskOnly(profile, sessions, { url, call, signal }) : undefined
  return { resource, call, signal, send, beforeGrant, beforeAsking }
}

/** Work that is done once: if it fails, the next call does it again. */
function untilDone(work: () => Promise<void>): () => Promise<void> {
  let isDone = false
  return async () => {
    if (isDone) return
    await work()
    isDone = true
  }
}

/** Says to whoever listens to the agent that it waits out an outage. */
function retryTeller(profile: Profile): (code: string, afterSeconds: number) => void {
  return (code, afterSeconds) => profile.tell({ type: 'retrying', code, afterSeconds })
}

async function decline(parts: AgentParts, request: AuthorizedCallRequest<Json>): Promise<TermsTemplate> {
  const { resource, call, signal } = request
  const answer = await attempt(parts.profile, request, { grant: undefined, name: 'none' })
  if (answer.kind === 'result')
    fail('not_challenged', 'The call needs no agreement: it was made, and answered.')
  const challenge: Challenge = answer.challenge
  return declineTerms(parts.profile, parts.directory, { resource, call, challenge, signal })
}
