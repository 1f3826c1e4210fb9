/**
 * Owns the bridge's side towards its client: an MCP server on the official SDK, over stdio or on the
 * loopback, in the revision that the client speaks. Contract: "What the service does": the client is
 * unmodified and knows nothing of it.
 */
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type CallToolResult,
  type ClientCapabilities,
  type McpRequestContext,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { AgentError } from '../agent-error.ts'
import { taskRequired } from '../transports/task-tools.ts'
import { errorResult, marksOf, sentence, withoutOurNames } from './answers/answers.ts'
import { asWritten } from './answers/as-written.ts'
import {
  clientSide,
  inRounds,
  legOf,
  methodParts,
  type ClientRequest,
  type ConnectedClient,
  type ServerParts,
} from './client-side.ts'
import { answerCall, type Answer } from './negotiation/completion.ts'
import type { LedRequest } from './questions/conversations.ts'
import type { Bridge } from './core.ts'
import { ANY_OBJECT } from './listing/entries.ts'
import { BRIDGE_INFO, BRIDGE_INSTRUCTIONS, IntroducingServer } from './greeting.ts'
import { passedMeta } from './answers/message-meta.ts'
import { addMethods, METHOD_CAPABILITIES, type MethodParts } from './listing/methods.ts'
import { addNotices, NOTICE_CAPABILITIES } from './notices/serve-notices.ts'
import { unusable } from './negotiation/state.ts'
import { TASKS_EXTENSION, type Tasks } from './questions/tasks.ts'
import { whyChanged } from './answers/unchanged.ts'

/** Something that runs until it is closed. */
export interface Serving {
  /** Its address on the loopback. */
  address: string | undefined
  closed: Promise<void>
  close(): Promise<void>
}

/** The server for one client, or for one request of a client if each request says who makes it. */
export function serverFor(shared: ServerParts, { era }: McpRequestContext): Server {
  const modern = era === 'modern'
  const server = new IntroducingServer(
    { ...BRIDGE_INFO },
    {
      capabilities: {
        tools: { listChanged: true },
        ...METHOD_CAPABILITIES,
        ...NOTICE_CAPABILITIES,
        resources: { listChanged: true, subscribe: true },
        ...(modern ? { extensions: { [TASKS_EXTENSION]: {} } } : {}),
      },
      instructions: BRIDGE_INSTRUCTIONS,
    },
  )
  const listening = new Set<() => void>()
  server.onclose = () => {
    for (const end of listening) end()
  }
  const sources = new WeakSet<Bridge>()
  const open = (context: ServerContext, greets = false): ConnectedClient => {
    const { name, capabilities } = clientOf(server, context, modern)
    const found = shared.clients.open(
      shared.callerName?.() ?? shared.options.clientName ?? name,
      capabilities,
      greets,
    )
    return { ...found, capabilities }
  }
  const of = (context: ServerContext): ConnectedClient => {
    const found = open(context)
    if (!(modern && shared.listening === true) && !sources.has(found.bridge)) {
      sources.add(found.bridge)
      listening.add(
        found.bridge.onChanged(list => {
          const sent = server.notification({ method: `notifications/${list}/list_changed` })
          sent.catch(() => undefined)
        }),
      )
      listening.add(notices.hear(found.bridge))
    }
    return found
  }
  server.introduce(context => {
    const introductions = open(context, true).bridge.introductions()
    shared.onIntroducing?.(introductions)
    return introductions
  })
  server.setRequestHandler('tools/list', async (_request, context) => {
    const { tools, ttlMs } = await withSdkErrors(of(context).bridge.tools())
    return { tools: tools as never, ...(modern ? { ttlMs, cacheScope: 'private' as const } : {}) }
  })
  server.setRequestHandler('tools/call', async (request, context) =>
    callTool(shared, {
      server,
      context,
      request: request.params as unknown as JsonObject,
      modern,
      notices,
      ...of(context),
    }),
  )
  const partsOf = (context: ServerContext): MethodParts =>
    methodParts(shared, { server, context, modern, notices, ...of(context) })
  addMethods(server, modern, partsOf, withSdkErrors)
  const notices = addNotices(server, modern, partsOf, withSdkErrors)
  if (modern) addTaskMethods(server, shared, context => of(context).tasks)
  return server
}

/** The bridge of a client of 2026-07-28 whose request is not served by a `Server`, by its parameters. */
export function bridgeFor({ clients, options, callerName }: ServerParts, { _meta }: JsonObject): Bridge {
  const meta = isJsonObject(_meta) ? _meta : {}
  const info = meta[CLIENT_INFO_META_KEY] as { name?: string } | undefined
  const capabilities = (meta[CLIENT_CAPABILITIES_META_KEY] ?? {}) as ClientCapabilities
  return clients.open(callerName?.() ?? options.clientName ?? info?.name, capabilities).bridge
}

async function callTool(
  shared: ServerParts,
  calling: ClientRequest & { request: JsonObject },
): Promise<never> {
  const { context, request, bridge, notices } = calling
  const changed = whyChanged(context.mcpReq._meta)
  if (changed !== undefined)
    return errorResult(
      new AgentError('request_invalid', { detail: changed, local: true }),
      undefined,
    ) as never
  const name = typeof request['name'] === 'string' ? request['name'] : ''
  const listed = await bridge.find(name).catch((error: unknown) => {
    if (error instanceof AgentError) return error
    throw error
  })
  if (listed instanceof AgentError) return errorResult(listed, undefined) as never
  if (listed === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such tool.')
  if (listed.isTaskOnly) return errorResult(taskRequired(name), undefined) as never
  const args = request['arguments']
  const about = { resource: listed.resource, tool: listed.tool, arguments: isJsonObject(args) ? args : {} }
  const side = await clientSide(calling, about)
  const { client, passed } = side
  const call = { tool: listed.tool, ...(isJsonObject(args) ? { arguments: args } : {}), ...passed }
  const run = (led: LedRequest): Promise<Answer> =>
    answerCall(bridge.calls, {
      name,
      resource: listed.resource,
      call,
      definition: listed.definition,
      meta: passedMeta(context.mcpReq._meta, notices.levelOf(context)),
      structured: listed.listed['outputSchema'] !== undefined,
      signal: led.signal,
      holdSeconds: shared.options.holdSeconds,
      ownerConsole: shared.options.ownerConsole,
      client: { ...client, progress: led.waited },
      onProgress: led.onProgress,
      onLog: led.onLog,
      ask: led.ask,
      onDelivered: led.onDelivered,
    })
  const leg = { ...legOf(shared, calling), about, sealed: client.sealed }
  const schema = listed.listed['outputSchema'] as JsonObject | undefined
  // Structured content that is no object is shown as text too, and is an object for clients of 2025-11-25.
  const shown = (answer: Answer): never =>
    calling.server.projectCallToolResult(asText(answer) as CallToolResult, schema) as never
  return shown(await withSdkErrors(answered(inRounds(calling, leg, side, run))))
}

/** Structured content that is no object is written by the SDK, so it is as it was written before that. */
function asText(answer: Answer): Answer {
  const { structuredContent } = answer as JsonObject
  if (structuredContent === undefined || isJsonObject(structuredContent)) return answer
  return { ...answer, structuredContent: asWritten(structuredContent) }
}

/** A question whose call nobody knows any more is answered in words, like every other end of a call. */
async function answered(answer: Promise<Answer>): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== 'outcome_unknown') throw error
    return errorResult(error, undefined)
  }
}

function addTaskMethods(
  server: Server,
  shared: ServerParts,
  tasksOf: (context: ServerContext) => Tasks,
): void {
  const schemas = { params: ANY_OBJECT }
  const idIn = (params: unknown): string => {
    const { taskId } = params as { taskId?: unknown }
    return typeof taskId === 'string' ? taskId : ''
  }
  const unknown = (): never => {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such task.')
  }
  server.setRequestHandler('tasks/get', schemas, async (params, context) => {
    const { id, signal } = context.mcpReq
    const onDelivered = (act: () => Promise<void>): void => {
      if (!signal.aborted) shared.whenSent(id, act)
    }
    return (await withSdkErrors(tasksOf(context).get(idIn(params), onDelivered))) ?? unknown()
  })
  server.setRequestHandler('tasks/cancel', schemas, async (params, context) =>
    (await withSdkErrors(tasksOf(context).cancel(idIn(params)))) ? {} : unknown(),
  )
  server.setRequestHandler('tasks/update', schemas, async (params, context) => {
    const changed = whyChanged(context.mcpReq._meta)
    if (changed !== undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, changed)
    const { inputResponses } = params as { inputResponses?: Json }
    return (await withSdkErrors(tasksOf(context).update(idIn(params), inputResponses))) ? {} : unknown()
  })
}

function clientOf(
  server: Server,
  context: ServerContext,
  modern: boolean,
): { name: string | undefined; capabilities: ClientCapabilities } {
  const envelope = (context.mcpReq.envelope ?? {}) as Record<string, unknown>
  const info = modern
    ? (envelope[CLIENT_INFO_META_KEY] as { name?: string } | undefined)
    : server.getClientVersion()
  const capabilities = modern
    ? (envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined)
    : server.getClientCapabilities()
  return { name: info?.name, capabilities: capabilities ?? {} }
}

/** An error of ours as the SDK tells it, with its marks for programs; the tool's own with its code. */
async function withSdkErrors<T>(outcome: Promise<T>): Promise<T> {
  try {
    return await outcome
  } catch (thrown) {
    const error = unusable(thrown)
    if (!(error instanceof AgentError)) throw thrown
    const { rpc } = error
    if (rpc !== undefined) throw new ProtocolError(rpc.code, sentence(error), withoutOurNames(rpc.data))
    throw new ProtocolError(ProtocolErrorCode.InternalError, sentence(error), marksOf(error, undefined))
  }
}
