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
import { ANSWER_META } from '../answers/answers.ts'
import { answerCall, type Answer, type Client } from '../negotiation/completion.ts'
import type { Bridge } from '../core.ts'
import { ANY_OBJECT, LIST_METHODS, type ListMethod } from './entries.ts'
import type { LedRequest } from '../questions/conversations.ts'
import type { ToolsOwn } from '../questions/round-state.ts'
import { methodDefinition } from './objects.ts'
import { whyChanged } from '../answers/unchanged.ts'

/** What a request of such a method is answered with. */
export interface MethodParts {
  bridge: Bridge
  holdSeconds: number
  ownerConsole: URL | undefined
  /** How a person at the client can be asked now. */
  client: Pick<Client, 'askNow' | 'showNow'>
  /** What the client says about the sending alone. */
  meta: JsonObject | undefined
  /**
   * Leads the request until it is answered, or its server asks the client. `about`: the request as the client
   * repeats it; `mayAskBack`: its answer may be a question (MCP 2026-07-28).
   */
  answer: (
    request: { about: Json; mayAskBack: boolean },
    run: (led: LedMethod) => Promise<Answer>,
  ) => Promise<Answer>
}

/** What the client is asked by, and what it brings for the server. */
type LedMethod = LedRequest & { own: ToolsOwn }

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
    return modern && !asksBack(result) ? { ...UNCACHED, ...result } : result
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

/** The methods whose answer may be a question (MCP 2026-07-28, multi-round-trip requests). */
const ASKING_BACK: ReadonlySet<string> = new Set(['resources/read', 'prompts/get'])

const asksBack = (answer: JsonObject): boolean => answer['resultType'] === 'input_required'

/**
 * The server's own result, or what it asks before that. Words of the bridge in its place (the owner decides,
 * nobody agreed to the terms) are an error here: only a tool's result can carry them.
 */
export async function ask(
  { bridge, holdSeconds, ownerConsole, client, meta, answer }: MethodParts,
  resource: string,
  method: string,
  request: JsonObject,
): Promise<JsonObject> {
  const { _meta: _clientMeta, ...params } = request
  const mayAskBack = ASKING_BACK.has(method)
  const result = (await answer({ about: { resource, method, params }, mayAskBack }, led =>
    answerCall(bridge.calls, {
      name: method,
      resource,
      call: { tool: method, method, params: { ...params, ...led.own } },
      definition: methodDefinition(method),
      meta,
      structured: false,
      signal: led.signal,
      holdSeconds,
      ownerConsole,
      client: { ...client, form: false, url: false, words: {}, progress: led.waited, sealed: noState },
      onProgress: led.onProgress,
      onLog: led.onLog,
      ask: led.ask,
      onDelivered: led.onDelivered,
    }),
  )) as JsonObject
  const { _meta: marks, content } = result
  if (isJsonObject(marks) && marks[ANSWER_META.reason] !== undefined)
    throw new ProtocolError(ProtocolErrorCode.InternalError, wordsIn(content), marks)
  if (asksBack(result) && !mayAskBack)
    throw new AgentError('unexpected_answer', {
      detail: `The server asks a question before it answers ${method}, and MCP has no place for one there.`,
      local: true,
    })
  return result
}

/** Terms and waiting are asked about in no rounds here. */
const noState = (): Promise<string> => Promise.reject(new Error('a method asks in no rounds'))

function wordsIn(content: Json | undefined): string {
  const [first] = Array.isArray(content) ? content : []
  return isJsonObject(first) && typeof first['text'] === 'string' ? first['text'] : 'Nothing was done.'
}
