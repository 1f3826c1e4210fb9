/**
 * Owns one request to a tool, with or without a grant. Contract: "Authorized call": the original call is
 * retried with `Authorization: PoP <RPT>` and a signature over it.
 */
import { isJsonObject, type JsonObject } from '../../wire/json.ts'
import { AgentError, fail, unsent } from '../agent-error.ts'
import { interpret, interpretApi, type CallAnswer } from '../answer.ts'
import { apiRequest, readApiAnswer, type HttpCall } from './api.ts'
import { readRpcAnswer, rpcHeaders, rpcRequest, requestOf, type ToolCall } from './mcp.ts'
import type { Sessions } from './mcp-session.ts'
import type { Profile } from '../profile.ts'
import { signedHeaders } from './proof.ts'
import { resumedAnswer } from './resumption.ts'
import { open } from './transport.ts'

/** One request to a resource: which tool, and with which RPT, if any. */
export interface TransportCallRequest {
  /** The resource as it was named, and as it is called. */
  url: URL
  call: ToolCall
  /** How the tool is called if the resource is a plain API; left out for MCP. */
  http?: HttpCall | undefined
  accessToken?: string | undefined
  signal?: AbortSignal | undefined
}

/** Sends a call once, and answers as `interpret` or `interpretApi` does. */
export function sendCall(
  profile: Profile,
  sessions: Sessions,
  request: TransportCallRequest,
): Promise<CallAnswer> {
  const { http } = request
  return http === undefined ? sendToolCall(profile, sessions, request) : sendApiCall(profile, http, request)
}

async function sendApiCall(
  profile: Profile,
  http: HttpCall,
  { url: base, call, accessToken, signal }: TransportCallRequest,
): Promise<CallAnswer> {
  const { method, url, body, headers } = apiRequest(base, call, http)
  const proof = accessToken === undefined ? {} : signedHeaders({ method, url, body, accessToken }, profile)
  const response = await open({
    method,
    url,
    headers: { ...headers, ...proof },
    ...(body === undefined ? {} : { body }),
    timeoutSeconds: profile.callSecondsMax,
    signal,
  })
  return interpretApi(
    profile,
    response,
    await readApiAnswer(response, { url, signal, parse: profile.parseAnswer }),
  )
}

/**
 * A tools/call, in a session if the server keeps one. Its JSON-RPC id is random, so no two calls have one
 * signature.
 */
async function sendToolCall(
  profile: Profile,
  sessions: Sessions,
  request: TransportCallRequest,
): Promise<CallAnswer> {
  const { url, call, accessToken, signal } = request
  const session = await sessions.headersFor(url, signal).catch((error: unknown) => {
    throw error instanceof AgentError ? unsent(error) : error
  })
  const version = sessions.versionOf(url)
  const id = crypto.randomUUID()
  const { method, params } = requestOf(call)
  const body = JSON.stringify(rpcRequest(id, method, params, version))
  const headers = { ...rpcHeaders(version, method, nameIn(params)), ...session }
  if (accessToken !== undefined) {
    Object.assign(headers, signedHeaders({ method: 'POST', url, body, accessToken }, profile))
  }
  const timeoutSeconds = profile.callSecondsMax
  const response = await open({ method: 'POST', url, headers, body, timeoutSeconds, signal })
  if (response.status === 404) sessions.forget(url)
  const {
    rpc,
    body: plain,
    text,
    broken,
  } = await readRpcAnswer(response, id, { url, signal, parse: profile.parseAnswer })
  const isSuccess = response.ok && rpc === undefined
  if (isSuccess && broken !== undefined) {
    const rest = { ...rpcHeaders(version, method, nameIn(params)), ...session }
    const answer = await resumedAnswer(profile, { url, id, headers: rest, accessToken, signal }, broken)
    return interpret(profile, response, { rpc: answer, body: undefined })
  }
  if (isSuccess && !(isJsonObject(plain) && plain['error'] !== undefined))
    fail('outcome_unknown', `${url.origin} took the call, and did not say what became of it.`, {
      status: response.status,
    })
  return interpret(profile, response, { rpc, body: plain, text })
}

/** What MCP 2026-07-28 repeats in `Mcp-Name`, if the method is about something that has a name. */
function nameIn({ name, uri, taskId }: JsonObject): string | undefined {
  return [name, uri, taskId].find(one => typeof one === 'string')
}
