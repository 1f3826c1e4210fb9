/**
 * Owns which revision of MCP a server speaks, and the sessions of servers of 2025-11-25. Both are settled
 * before a grant is used, so that no grant is spent on a call that the server refuses because of them.
 * Contract: "Single-use grant". Later revisions have no sessions.
 */
import { isJsonObject, type Json } from '../../wire/json.ts'
import { challengeIn, gatewayOutage, interpret, refusalIn } from '../answer.ts'
import { AgentError, fail, unsent } from '../agent-error.ts'
import { readRpcAnswer, rpcHeaders, rpcRequest, type McpVersion } from './mcp.ts'
import type { Profile } from '../profile.ts'
import { bodyChunks, DOCUMENT_SECONDS_MAX, open } from './transport.ts'

/** The sessions of one agent, one per resource. */
export interface Sessions {
  /**
   * The header fields of every request to a resource; opens a session if the revision has them.
   */
  headersFor(url: URL, signal: AbortSignal | undefined): Promise<Record<string, string>>
  /**
   * Asks the server once which revision it speaks, unless that was given, and opens a session if that
   * revision has sessions. If the revision cannot be found out, the newest is assumed. Fails if the caller
   * gives up, and with `temporarily_unavailable` if nobody can tell now: an outage settles nothing.
   */
  learnVersion(url: URL, signal: AbortSignal | undefined): Promise<void>
  /** The revision to speak with a resource, if it is known. */
  versionOf(url: URL): McpVersion
  /** The server has ended the session: the next call opens another. */
  forget(url: URL): void
}

const SESSION_ID = /^[\x21-\x7e]{1,1024}$/
const VERSION = /^\d{4}-\d{2}-\d{2}$/

const OUTAGE = 'temporarily_unavailable'

const NEWEST: McpVersion = '2026-07-28'
const WITH_SESSIONS: McpVersion = '2025-11-25'

/** The sessions of an agent; none if a revision is stateless. */
export function createSessions(profile: Profile): Sessions {
  const opened = new Map<string, Record<string, string>>()
  const versions = new Map<string, McpVersion>()
  const versionOf = (url: URL): McpVersion => profile.mcpVersion ?? versions.get(url.href) ?? NEWEST
  return {
    versionOf,
    learnVersion: async (url, signal) => {
      if (profile.mcpVersion !== undefined || versions.has(url.href)) return
      const version = await unlessFailed(askForVersion(profile, url, signal).catch(unlessDropped))
      if (version === WITH_SESSIONS) {
        const session = await unlessFailed(openSession(profile, url, signal))
        // A server that knows neither method may still accept calls.
        if (session === undefined) return
        opened.set(url.href, session)
      }
      if (version !== undefined) versions.set(url.href, version)
    },
    headersFor: async (url, signal) => {
      if (versionOf(url) === NEWEST) return {}
      const known = opened.get(url.href) ?? (await openSession(profile, url, signal))
      opened.set(url.href, known)
      return known
    },
    forget: url => void opened.delete(url.href),
  }
}

/**
 * Asks by `server/discover`, which enforcement points pass without a grant. Servers before 2026-07-28 have
 * never seen it, and answer whatever they like: with anything that is not about the question, the server is
 * asked by `initialize` next. Undefined if an enforcement point answered instead: it would answer that too.
 */
async function askForVersion(
  profile: Profile,
  url: URL,
  signal: AbortSignal | undefined,
): Promise<McpVersion | undefined> {
  const id = crypto.randomUUID()
  const method = 'server/discover'
  const body = JSON.stringify(rpcRequest(id, method, {}, NEWEST))
  const headers = rpcHeaders(NEWEST, method)
  const timeoutSeconds = DOCUMENT_SECONDS_MAX
  const response = await open({ method: 'POST', url, headers, body, timeoutSeconds, signal })
  if (challengeIn(profile, response) !== undefined) return undefined
  const answer = await readRpcAnswer(response, id, { url, signal, parse: profile.parseAnswer })
  const { rpc, body: plain, text } = answer
  const refusal = refusalIn(profile, response, plain) ?? gatewayOutage(profile, response, text)
  if (refusal?.code === OUTAGE) throw unsent(refusal)
  if (refusal !== undefined) return undefined
  if (rpc === undefined) return WITH_SESSIONS
  if (rpc.kind === 'result') return response.ok ? offered(rpc.result) : WITH_SESSIONS
  const { data } = rpc.error
  // A refusal code comes from the enforcement point, and says nothing about the server behind it.
  if (isJsonObject(data) && typeof data['error'] === 'string') return undefined
  const supported = isJsonObject(data) ? data['supported'] : undefined
  return Array.isArray(supported) && supported.includes(NEWEST) ? NEWEST : WITH_SESSIONS
}

/** Some servers drop what they have never seen: they close the connection on it, or never answer. */
function unlessDropped(error: unknown): McpVersion {
  if (error instanceof AgentError && error.code === 'unreachable' && !error.unspent) return WITH_SESSIONS
  throw error
}

/** Undefined if it failed, for any reason except that the caller gave up, or an outage. */
async function unlessFailed<T>(step: Promise<T>): Promise<T | undefined> {
  try {
    return await step
  } catch (error) {
    if (!(error instanceof AgentError) || error.code === 'aborted') throw error
    if (error.code === OUTAGE) throw unsent(error)
    return undefined
  }
}

/** A result that names no revision was made for another question. */
function offered(result: Json): McpVersion {
  const versions = isJsonObject(result) ? result['supportedVersions'] : undefined
  return Array.isArray(versions) && versions.includes(NEWEST) ? NEWEST : WITH_SESSIONS
}

async function openSession(
  profile: Profile,
  url: URL,
  signal: AbortSignal | undefined,
): Promise<Record<string, string>> {
  const version: McpVersion = '2025-11-25'
  const id = crypto.randomUUID()
  const clientInfo = { name: 'usher-agent', version: '1.0' }
  const params = { protocolVersion: version, capabilities: {}, clientInfo }
  const post = (headers: Record<string, string>, message: object): Promise<Response> =>
    open({
      method: 'POST',
      url,
      headers: { ...rpcHeaders(version, 'initialize'), ...headers },
      body: JSON.stringify(message),
      timeoutSeconds: profile.callSecondsMax,
      signal,
    })
  const response = await post({}, rpcRequest(id, 'initialize', params, version))
  const answer = interpret(
    profile,
    response,
    await readRpcAnswer(response, id, { url, signal, parse: profile.parseAnswer }),
  )
  if (answer.kind !== 'result' || !isJsonObject(answer.result)) {
    return fail('unexpected_answer', 'The server does not open a session.', { status: response.status })
  }
  const headers = sessionHeaders(response.headers.get('mcp-session-id'), answer.result['protocolVersion'])
  const acknowledged = await post(headers, { jsonrpc: '2.0', method: 'notifications/initialized' })
  for await (const _ of bodyChunks(acknowledged, { bytesMax: 65_536, url, signal }));
  return headers
}

/** Both are used as the server says, if a header field can carry them. */
function sessionHeaders(session: string | null, version: unknown): Record<string, string> {
  return {
    ...(session !== null && SESSION_ID.test(session) ? { 'mcp-session-id': session } : {}),
    ...(typeof version === 'string' && VERSION.test(version) ? { 'mcp-protocol-version': version } : {}),
  }
}
