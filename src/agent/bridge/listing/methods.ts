/**
 * Owns what the bridge serves beside tools: resources, prompts and completion of the servers behind it, each
 * request under the grant that the server's enforcement point asks for. Contract: "Authorized call"; the
 * client is unmodified and knows nothing of it.
 */
import {
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import { ANSWER_META } from '../answers/answers.ts'
import { answerCall, type Client } from '../negotiation/completion.ts'
import type { Bridge } from '../core.ts'
import { ANY_OBJECT, LIST_METHODS, type ListMethod } from './entries.ts'
import type { Leg } from '../questions/conversations.ts'
import { methodDefinition } from './objects.ts'
import { whyChanged } from '../answers/unchanged.ts'

/** What a request of such a method is answered with. */
export interface MethodParts {
  bridge: Bridge
  holdSeconds: number
  ownerConsole: URL | undefined
  /** How a person at the client can be asked now, and told of the wait. */
  client: Pick<Client, 'askNow' | 'showNow'>
  leg: Pick<Leg, 'signal' | 'onDelivered' | 'onProgress' | 'onLog' | 'waited'>
  /** What the client says about the sending alone. */
  meta: JsonObject | undefined
}

/** The capabilities of a server that has such methods; what its resources lack is empty. */
export const METHOD_CAPABILITIES = { prompts: { listChanged: true }, completions: {} } as const

/** What a list or an answer says of its age to clients of 2026-07-28. */
const UNCACHED = { ttlMs: 0, cacheScope: 'private' } as const

/** Adds them to the server of one client. `partsOf` reads who asks, and by which abilities. */
export function addMethods(
  server: Server,
  modern: boolean,
  partsOf: (context: ServerContext) => MethodParts,
  withSdkErrors: <T>(outcome: Promise<T>) => Promise<T>,
): void {
  for (const method of Object.keys(LIST_METHODS) as ListMethod[]) {
    handle(server, method, async (_params, context) => {
      const entries = await withSdkErrors(partsOf(context).bridge.objects.list(method))
      return { [LIST_METHODS[method].member]: entries, ...(modern ? UNCACHED : {}) }
    })
  }
  handle(server, 'resources/read', async (params, context) => {
    const parts = partsOf(context)
    const place = await withSdkErrors(foundPlace(parts, textIn(params, 'uri')))
    const result = await withSdkErrors(ask(parts, place, 'resources/read', params))
    return modern ? { ...UNCACHED, ...result } : result
  })
  handle(server, 'prompts/get', async (params, context) => {
    const parts = partsOf(context)
    const found =
      (await withSdkErrors(parts.bridge.objects.promptOf(textIn(params, 'name')))) ?? unknown('prompt')
    return withSdkErrors(ask(parts, found.resource, 'prompts/get', { ...params, name: found.name }))
  })
  handle(server, 'completion/complete', async (params, context) => {
    const parts = partsOf(context)
    const { ref } = params
    if (!isJsonObject(ref)) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Send ref as an object.')
    if (ref['type'] === 'ref/prompt') {
      const found =
        (await withSdkErrors(parts.bridge.objects.promptOf(textIn(ref, 'name')))) ?? unknown('prompt')
      const there = { ...params, ref: { ...ref, name: found.name } }
      return withSdkErrors(ask(parts, found.resource, 'completion/complete', there))
    }
    const place = await withSdkErrors(foundPlace(parts, textIn(ref, 'uri')))
    return withSdkErrors(ask(parts, place, 'completion/complete', params))
  })
}

type MethodHandler = (params: JsonObject, context: ServerContext) => Promise<JsonObject>

/** Adds a method whose request must have arrived as it was written. */
export function handle(server: Server, method: string, handler: MethodHandler): void {
  server.setRequestHandler(method, { params: ANY_OBJECT }, async (params, context) => {
    const changed = whyChanged(context.mcpReq._meta)
    if (changed !== undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, changed)
    return handler(params as JsonObject, context)
  })
}

/** The server that lists a resource of MCP. */
export async function foundPlace({ bridge }: MethodParts, uri: string): Promise<string> {
  return (await bridge.objects.placeOf(uri)) ?? unknown('resource')
}

/** The member of the request, which must be a text. */
export function textIn(params: JsonObject, member: string): string {
  const text = params[member]
  if (typeof text === 'string' && text !== '') return text
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Send ${member} as a text.`)
}

function unknown(what: string): never {
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no such ${what}.`)
}

/**
 * The server's own result. Words of the bridge in its place (the owner decides, nobody agreed to the terms)
 * are an error here: only a tool's result can carry them.
 */
export async function ask(
  { bridge, holdSeconds, ownerConsole, client, leg, meta }: MethodParts,
  resource: string,
  method: string,
  request: JsonObject,
): Promise<JsonObject> {
  const { _meta: _clientMeta, ...params } = request
  const call: ToolCall = { tool: method, method, params }
  const { signal, onDelivered, onProgress, onLog, waited } = leg
  const answer = (await answerCall(bridge.calls, {
    name: method,
    resource,
    call,
    definition: methodDefinition(method),
    meta,
    structured: false,
    signal,
    holdSeconds,
    ownerConsole,
    client: { ...client, form: false, url: false, words: {}, progress: waited, sealed: noState },
    onProgress,
    onLog,
    onDelivered,
  })) as JsonObject
  const { _meta: marks, content } = answer
  if (isJsonObject(marks) && marks[ANSWER_META.reason] !== undefined)
    throw new ProtocolError(ProtocolErrorCode.InternalError, wordsIn(content), marks)
  if (answer['resultType'] === 'input_required')
    throw new AgentError('unexpected_answer', {
      detail: `The server asks a question before it answers ${method}, which the bridge passes on for tools alone.`,
      local: true,
    })
  return answer
}

/** Nothing is asked in rounds here. */
const noState = (): Promise<string> => Promise.reject(new Error('a method asks in no rounds'))

function wordsIn(content: Json | undefined): string {
  const [first] = Array.isArray(content) ? content : []
  return isJsonObject(first) && typeof first['text'] === 'string' ? first['text'] : 'Nothing was done.'
}
