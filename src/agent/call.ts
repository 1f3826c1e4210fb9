/**
 * Owns one request to a tool, with or without a grant. contract, "Authorized call": the original call is retried with
 * `Authorization: PoP <RPT>` and a signature over it.
 */
import { contentDigest } from '../wire/encoding.ts'
import { signRequest } from '../wire/http-signature.ts'
import type { PrivateKey } from '../wire/keys.ts'
import { POP } from '../wire/names.ts'
import { interpret, type CallAnswer } from './answer.ts'
import { readRpcAnswer, rpcHeaders, rpcRequest, toolCallParams, type ToolCall } from './mcp.ts'
import type { Sessions } from './mcp-session.ts'
import type { Profile } from './profile.ts'
import { open } from './transport.ts'

/** One request to a resource: which tool, and with which RPT, if any. */
export interface CallRequest {
  /** The resource as it was named, and as it is called. */
  url: URL
  call: ToolCall
  accessToken?: string | undefined
  signal?: AbortSignal | undefined
}

/** Sends a tools/call once, in a session where the server keeps one, and answers as `interpret` does. */
export async function sendCall(
  profile: Profile,
  sessions: Sessions,
  request: CallRequest,
): Promise<CallAnswer> {
  const { url, call, accessToken, signal } = request
  const session = await sessions.headersFor(url, signal)
  const id = crypto.randomUUID()
  const body = JSON.stringify(rpcRequest(id, 'tools/call', toolCallParams(call), profile.mcpVersion))
  const headers = { ...rpcHeaders(profile.mcpVersion, 'tools/call', call.tool), ...session }
  if (accessToken !== undefined) {
    Object.assign(headers, signedHeaders({ url, body, accessToken, key: profile.key, now: profile.now() }))
  }
  const timeoutSeconds = profile.callSecondsMax
  const response = await open({ method: 'POST', url, headers, body, timeoutSeconds, signal })
  if (response.status === 404) sessions.forget(url)
  return interpret(profile, response, await readRpcAnswer(response, id, { url, signal }))
}

/**
 * The grant and its proof: the four components of the profile, the query where there is one, and the body's digest. The body's
 * JSON-RPC id is random, so no two calls have one digest, nor one signature.
 */
function signedHeaders(call: {
  url: URL
  body: string
  accessToken: string
  key: PrivateKey
  now: number
}): Record<string, string> {
  const { url, body, accessToken, key, now } = call
  const authorization = `${POP} ${accessToken}`
  const digest = contentDigest(body)
  const query = url.search === '' ? undefined : url.search.slice(1)
  const components = ['@method', '@authority', '@path', 'authorization', 'content-digest']
  if (query !== undefined) components.splice(3, 0, '@query')
  const signature = signRequest(
    {
      method: 'POST',
      scheme: url.protocol === 'http:' ? 'http' : 'https',
      authority: url.host,
      path: url.pathname,
      query,
      headers: new Map([
        ['authorization', [authorization]],
        ['content-digest', [digest]],
      ]),
    },
    key,
    { components, created: now, keyid: key.thumbprint },
  )
  return { authorization, 'content-digest': digest, ...signature }
}
