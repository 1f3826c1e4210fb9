/**
 * Owns the sessions of MCP servers of the 2025-11-25 revision: they are opened before the first call, so that
 * no grant is spent on a call the server refuses for want of one. Contract: "Single-use grant". Later
 * revisions have none.
 */
import { isJsonObject } from '../wire/json.ts'
import { interpret } from './answer.ts'
import { fail } from './agent-error.ts'
import { readRpcAnswer, rpcHeaders, rpcRequest, type McpVersion } from './mcp.ts'
import type { Profile } from './profile.ts'
import { bodyChunks, open } from './transport.ts'

/** The sessions of one agent, one per resource. */
export interface Sessions {
  /**
   * The header fields that go with every request to a resource; opens a session where the revision has them.
   */
  headersFor(url: URL, signal: AbortSignal | undefined): Promise<Record<string, string>>
  /** The server has ended the session: the next call opens another. */
  forget(url: URL): void
}

const SESSION_ID = /^[\x21-\x7e]{1,1024}$/
const VERSION = /^\d{4}-\d{2}-\d{2}$/

/** The sessions of an agent; none where its revision is stateless. */
export function createSessions(profile: Profile): Sessions {
  const opened = new Map<string, Record<string, string>>()
  return {
    headersFor: async (url, signal) => {
      if (profile.mcpVersion === '2026-07-28') return {}
      const known = opened.get(url.href) ?? (await openSession(profile, url, signal))
      opened.set(url.href, known)
      return known
    },
    forget: url => void opened.delete(url.href),
  }
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
  const answer = interpret(profile, response, await readRpcAnswer(response, id, { url, signal }))
  if (answer.kind !== 'result' || !isJsonObject(answer.result)) {
    return fail('unexpected_answer', 'The server does not open a session.', { status: response.status })
  }
  const headers = sessionHeaders(response.headers.get('mcp-session-id'), answer.result['protocolVersion'])
  const acknowledged = await post(headers, { jsonrpc: '2.0', method: 'notifications/initialized' })
  for await (const _ of bodyChunks(acknowledged, { bytesMax: 65_536, url, signal }));
  return headers
}

/** The server's word on both is kept to, as long as a header field can carry it. */
function sessionHeaders(session: string | null, version: unknown): Record<string, string> {
  return {
    ...(session !== null && SESSION_ID.test(session) ? { 'mcp-session-id': session } : {}),
    ...(typeof version === 'string' && VERSION.test(version) ? { 'mcp-protocol-version': version } : {}),
  }
}
