/**
 * Owns a tool call as MCP's Streamable HTTP carries it (revisions 2026-07-28 and 2025-11-25): the request
 * that is sent and the JSON-RPC answer that is read. Contract: "Authorized call": the agent retries the
 * original call, so both are formed here.
 */
import type { Challenge } from '../../wire/negotiation/challenge.ts'
import { EventStreamReader } from '../../wire/event-stream.ts'
import { inexactSentence, isJsonObject, JSON_DEPTH_MAX, type Json, type JsonObject } from '../../wire/json.ts'
import { methodParameters, toolParameters } from '../../wire/resources/tool-parameters.ts'
import { AgentError, fail, reading } from '../agent-error.ts'
import { bodyChunks, type OutgoingRequest } from './transport.ts'

export type McpVersion = '2026-07-28' | '2025-11-25'

/**
 * Which tool with which arguments; no arguments count as `{}` when they are hashed, and are then not sent
 * either.
 */
export interface ToolCall {
  tool: string
  arguments?: JsonObject | undefined
  /**
   * Answers to a tool that asked back (`resultType: input_required`), and its state as it came: a new call,
   * approved with them.
   */
  inputResponses?: Json | undefined
  requestState?: Json | undefined
  /**
   * Another method than `tools/call`, and its `params`. `tool` is then the name by which the agent knows the
   * request.
   */
  method?: string | undefined
  params?: JsonObject | undefined
  /**
   * The tool whose grant the request needs, where a challenge has named another one than `tool`: that of such
   * a method, or the part of a tool that the resource splits by its arguments.
   */
  approvedAs?: string | undefined
}

/** Why a JSON-RPC peer answered without a result. */
export interface RpcError {
  code: number
  message: string
  data?: Json
}

/** A JSON-RPC peer's answer to one request. */
export type RpcAnswer = { kind: 'result'; result: Json } | { kind: 'error'; error: RpcError }

/** The largest tool answer read, bytes. */
export const TOOL_ANSWER_BYTES_MAX = 16 * 1024 * 1024

const CLIENT = { name: 'usher-agent', version: '1.0' }

/**
 * The JSON-RPC request of a call. The 2026-07-28 revision is stateless: its `_meta` says what `initialize`
 * used to.
 */
export function rpcRequest(id: string, method: string, params: JsonObject, version: McpVersion): JsonObject {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': CLIENT,
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  return {
    jsonrpc: '2.0',
    id,
    method,
    params: version === '2026-07-28' ? { ...params, _meta: meta } : params,
  }
}

/** The `params` of a tools/call; of another method, everything that distinguishes the request. */
export function toolCallParams({ tool, approvedAs: _approvedAs, ...call }: ToolCall): JsonObject {
  const members = Object.entries(call).filter((one): one is [string, Json] => one[1] !== undefined)
  return { name: tool, ...Object.fromEntries(members) }
}

/** The JSON-RPC request of a call. */
export function requestOf(call: ToolCall): { method: string; params: JsonObject } {
  return call.method === undefined
    ? { method: 'tools/call', params: toolCallParams(call) }
    : { method: call.method, params: call.params ?? {} }
}

/** The tool and the parameters that the owner of the resource approves. */
export function operationOf(call: ToolCall): { tool: string; params: JsonObject } {
  const params =
    call.method === undefined
      ? toolParameters(toolCallParams(call))
      : methodParameters(call.method, call.params ?? {})
  return { tool: toolOf(call), params }
}

/** The tool whose grant a call needs, as far as that is known. */
export function toolOf({ tool, approvedAs }: ToolCall): string {
  return approvedAs ?? tool
}

/**
 * The name under which it is kept what a call needed. A part of a tool has its own, because the next call of
 * the tool may be one of another part.
 */
export function needName(call: ToolCall): string {
  return call.method === undefined ? toolOf(call) : call.tool
}

/**
 * The call as its challenge names it: only the resource knows the tool (`<owner>/<tool>`) whose grant it
 * needs, because it may map methods to tools, and split a tool by its arguments.
 */
export function namedBy(call: ToolCall, { authorization_remediation }: Challenge): ToolCall {
  const [detail] = authorization_remediation.authorization_details
  const named = detail?.identifier.replace(/^[^/]*\//, '')
  if (named === undefined || named === '') return call
  const { approvedAs: _before, ...bare } = call
  return call.method === undefined && named === call.tool ? bare : { ...bare, approvedAs: named }
}

/** These need no grant anywhere. */
const OPEN_METHODS: ReadonlySet<string> = new Set(['initialize', 'ping', 'tools/list', 'server/discover'])
const KEPT_NAME_LENGTH_MAX = 512

/**
 * The call that a JSON-RPC message asks for: a tools/call, or a request of another method that a resource may
 * map to a tool. Undefined for a message that asks for nothing, and for what no server could accept.
 */
export function callIn(message: Json | undefined): ToolCall | undefined {
  if (!isJsonObject(message)) return undefined
  const { method, params, id } = message
  if (typeof method !== 'string') return undefined
  if (method === 'tools/call') return toolCallOf(params)
  const isRequest = id !== undefined && id !== null
  if (!isRequest || OPEN_METHODS.has(method) || method.startsWith('notifications/')) return undefined
  if (params !== undefined && !isJsonObject(params)) return undefined
  return methodCall(method, params ?? {})
}

/** A request of a method other than `tools/call`, named by the method and by what it is about. */
function methodCall(method: string, params: JsonObject): ToolCall {
  const ref = isJsonObject(params['ref']) ? params['ref'] : params
  const object = [ref['uri'], ref['name']].find(one => typeof one === 'string')
  const name = object === undefined ? method : `${method} ${object}`
  return { tool: name.slice(0, KEPT_NAME_LENGTH_MAX), method, params: withoutMeta(params) }
}

/** What a client says about the sending alone is neither approved nor kept. */
function withoutMeta({ _meta: _clientMeta, ...params }: JsonObject): JsonObject {
  return params
}

/** The call in the `params` of a tools/call; undefined if no server could accept them. */
function toolCallOf(params: Json | undefined): ToolCall | undefined {
  if (!isJsonObject(params)) return undefined
  const { name, arguments: args, inputResponses, requestState } = params
  if (typeof name !== 'string' || name === '' || (args !== undefined && !isJsonObject(args))) return undefined
  return { tool: name, arguments: args, inputResponses, requestState }
}

/** The header fields of a JSON-RPC request; `name` is the tool's, if the method has one. */
export function rpcHeaders(version: McpVersion, method: string, name?: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
    ...(version === '2025-11-25' ? {} : { 'mcp-method': method }),
    ...(version === '2025-11-25' || name === undefined ? {} : { 'mcp-name': encodeHeaderValue(name) }),
  }
}

/**
 * A value as a header field can carry it: unchanged if it is plain ASCII, otherwise `=?base64?…?=` (MCP
 * 2026-07-28, transports).
 */
export function encodeHeaderValue(value: string): string {
  const plain = /^[\x20-\x7e]+$/.test(value) && value.trim() === value && !/^=\?base64\?.*\?=$/.test(value)
  return plain ? value : `=?base64?${Buffer.from(value, 'utf8').toString('base64')}?=`
}

/** Where a stream ended before the answer; the id is empty if it cannot go on from there. */
export interface BrokenOff {
  lastEventId: string
  retryMilliseconds?: number | undefined
}

export interface JsonReading extends Pick<OutgoingRequest, 'url' | 'signal'> {
  parse: (text: string) => Json
}

/**
 * The answer to the request `id`, from a plain JSON body or from an event stream (other messages are skipped,
 * and reading stops at the answer). `rpc` is undefined if the body is no JSON-RPC answer, and `broken` says
 * where a stream ended before it; `body` is a plain body that is
 * JSON, `text` one that is not.
 */
export async function readRpcAnswer(
  response: Response,
  id: string,
  request: JsonReading,
): Promise<{
  rpc: RpcAnswer | undefined
  body: Json | undefined
  text?: string | undefined
  broken?: BrokenOff | undefined
}> {
  const bounds = { ...request, bytesMax: TOOL_ANSWER_BYTES_MAX }
  const type = response.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type === 'text/event-stream') {
    const read = await readEvents(response, id, bounds)
    return 'kind' in read ? { rpc: read, body: undefined } : { rpc: undefined, body: undefined, broken: read }
  }
  const chunks: Uint8Array[] = []
  for await (const chunk of bodyChunks(response, bounds)) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString('utf8')
  const body = parseLoosely(text, request.parse)
  return { rpc: rpcAnswer(body, id), body, ...(body === undefined ? { text } : {}) }
}

/**
 * The answer to the request `id` in an event stream, or where the stream ended before it. One that breaks off
 * has ended there too, if it can go on; otherwise that fails as `bodyChunks` does.
 */
export async function readEvents(
  response: Response,
  id: string,
  from: JsonReading & Partial<BrokenOff>,
): Promise<RpcAnswer | BrokenOff> {
  const { url, signal, parse, lastEventId, retryMilliseconds } = from
  const reader = new EventStreamReader(lastEventId, TOOL_ANSWER_BYTES_MAX)
  try {
    for await (const chunk of bodyChunks(response, { url, signal, bytesMax: TOOL_ANSWER_BYTES_MAX })) {
      const events = reading('answer_too_large', `${url.origin} sent an event too large`, () =>
        reader.read(chunk),
      )
      for (const event of events) {
        const answer = rpcAnswer(parseLoosely(event.data, parse), id)
        if (answer) return answer
      }
    }
    const rest = reader.rest()
    const answer = rest && rpcAnswer(parseLoosely(rest.data, parse), id)
    if (answer) return answer
  } catch (error) {
    const isBroken = error instanceof AgentError && error.code === 'unreachable'
    if (!isBroken || reader.lastEventId === '') throw error
  }
  return {
    lastEventId: reader.lastEventId,
    retryMilliseconds: reader.retryMilliseconds ?? retryMilliseconds,
  }
}

/**
 * A tool's answer is data for the caller, neither hashed nor authorized: read like by any JSON parser
 * it.
 */
function parseLoosely(text: string, parse: JsonReading['parse']): Json | undefined {
  try {
    return parse(text.replace(/^\uFEFF/, ''))
  } catch {
    return undefined
  }
}

/**
 * A message's answer to the request `id`; undefined if it is no answer to it. An error may come with the id
 * `null`, when its sender could not or would not read the request.
 */
export function rpcAnswer(message: Json | undefined, id: string | number): RpcAnswer | undefined {
  if (Array.isArray(message))
    return message.map(one => rpcAnswer(one, id)).find(answer => answer !== undefined)
  if (!isJsonObject(message) || (message['jsonrpc'] ?? '2.0') !== '2.0') return undefined
  const { result } = message
  const error = asRpcError(message['error'])
  if (
    error !== undefined &&
    (message['id'] === id || message['id'] === null || message['id'] === undefined)
  ) {
    return { kind: 'error', error }
  }
  return message['id'] === id && result !== undefined ? { kind: 'result', result } : undefined
}

/** The `error` member of a message, each of its members of its type; undefined if it has none. */
export function asRpcError(error: Json | undefined): RpcError | undefined {
  if (!isJsonObject(error)) return undefined
  const { code, message, data } = error
  return {
    code: typeof code === 'number' ? code : 0,
    message: typeof message === 'string' ? message : '',
    ...(data === undefined ? {} : { data }),
  }
}

/**
 * A copy of the value, which is JSON and nothing else, so that exactly what is hashed is sent. Members that
 * are undefined are left out. Fails with `request_invalid` for whatever `JSON.stringify` would make something
 * else of without a word: NaN, a bigint, a Map, a Date, an instance of a class, a hole in a list.
 */
export function plainJson(value: unknown, depth = 1): Json {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)))
    return fail('request_invalid', inexactSentence(String(value)))
  if (typeof value === 'number') return value
  if (isBoxed(value)) return plainJson(value.valueOf(), depth)
  if (depth > JSON_DEPTH_MAX) return fail('request_invalid', `Nest JSON at most ${JSON_DEPTH_MAX} deep.`)
  if (Array.isArray(value)) return Array.from(value, one => plainJson(one, depth + 1))
  if (!isPlainObject(value))
    return fail('request_invalid', `Send what JSON has: ${nameOf(value)} would be read as something else.`)
  const members = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(members.map(([name, one]) => [name, plainJson(one, depth + 1)]))
}

/** What JSON writes as the value that is inside. */
function isBoxed(value: unknown): value is object {
  return [Number, String, Boolean, BigInt].some(kind => value instanceof kind)
}

/** Made by `{}`, here or in another realm, or without a prototype. */
function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function nameOf(value: unknown): string {
  if (typeof value !== 'object' || value === null)
    return value === undefined ? 'undefined' : `a ${typeof value}`
  const { constructor } = value as { constructor?: unknown }
  return typeof constructor === 'function' ? `a ${constructor.name}` : 'an object'
}

/** The arguments of a tool, or other members of a call, as `plainJson` copies them. */
export function plainArguments(args: unknown): JsonObject | undefined {
  if (args === undefined) return undefined
  const plain = plainJson(args)
  if (!isJsonObject(plain)) fail('request_invalid', 'Give the arguments of the tool as a JSON object.')
  return plain
}
