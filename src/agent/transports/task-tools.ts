/**
 * Owns which tools of a server run as tasks alone (MCP 2025-11-25, `execution.taskSupport: required`), and
 * the refusal to call one. Contract: "Single-use grant": the call would spend the grant, and the requests
 * that fetch its result would need another, so nobody is asked about it.
 */
import { isJsonObject, type Json } from '../../wire/json.ts'
import { AgentError } from '../agent-error.ts'
import { readRpcAnswer, rpcHeaders, rpcRequest, type ToolCall } from './mcp.ts'
import type { Sessions } from './mcp-session.ts'
import type { Profile } from '../profile.ts'
import { DOCUMENT_SECONDS_MAX, open } from './transport.ts'

const PAGES_MAX = 20

/** Whether a listed tool runs as a task alone. */
export function isTaskOnly(tool: Json): boolean {
  const { execution } = isJsonObject(tool) ? tool : {}
  return isJsonObject(execution) && execution['taskSupport'] === 'required'
}

/** `task_required`. `tool` is its name as the caller knows it. */
export function taskRequired(tool: string): AgentError {
  return new AgentError('task_required', {
    detail: `The server runs ${tool} as a task alone, which usher does not do. The tool did not run, and the owner was not asked.`,
    local: true,
  })
}

/**
 * Fails with `task_required` if the server lists the tool as one that runs as a task alone. If the list
 * cannot be read, nothing is known against the call. Only MCP 2025-11-25 has such tools.
 */
export async function refuseTaskOnly(
  profile: Profile,
  sessions: Sessions,
  { url, call, signal }: { url: URL; call: ToolCall; signal: AbortSignal | undefined },
): Promise<void> {
  if (sessions.versionOf(url) !== '2025-11-25') return
  const listed = await listedTool(profile, sessions, { url, call, signal }).catch((error: unknown) => {
    if (!(error instanceof AgentError) || error.code === 'aborted') throw error
    return undefined
  })
  if (listed !== undefined && isTaskOnly(listed)) throw taskRequired(call.tool)
}

/** The tool as the server lists it; undefined if it is on none of the pages. */
async function listedTool(
  profile: Profile,
  sessions: Sessions,
  { url, call, signal }: { url: URL; call: ToolCall; signal: AbortSignal | undefined },
): Promise<Json | undefined> {
  const method = 'tools/list'
  const version = sessions.versionOf(url)
  const headers = { ...rpcHeaders(version, method), ...(await sessions.headersFor(url, signal)) }
  let cursor: Json | undefined
  for (let page = 0; page < PAGES_MAX; page++) {
    const id = crypto.randomUUID()
    const body = JSON.stringify(rpcRequest(id, method, cursor === undefined ? {} : { cursor }, version))
    const timeoutSeconds = DOCUMENT_SECONDS_MAX
    const response = await open({ method: 'POST', url, headers, body, timeoutSeconds, signal })
    const { rpc } = await readRpcAnswer(response, id, { url, signal, parse: profile.parseAnswer })
    if (rpc?.kind !== 'result' || !isJsonObject(rpc.result)) return undefined
    const { tools, nextCursor } = rpc.result
    const found = Array.isArray(tools)
      ? tools.find(tool => isJsonObject(tool) && tool['name'] === call.tool)
      : undefined
    if (found !== undefined) return found
    if (typeof nextCursor !== 'string' || nextCursor === '') return undefined
    cursor = nextCursor
  }
  return undefined
}
