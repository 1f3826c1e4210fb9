/**
 * Owns the form in which a resource's answers reach the SDK, whose schemas throw a whole answer away for one
 * odd member: an absent member that is written as null is absent, a tool that cannot be listed loses its own
 * place alone, and a part of a result that no client would take becomes words that say what it was. Contract:
 * "Errors": an answer that came is never told as none.
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { asRpcError } from '../../transports/mcp.ts'
import { asQuestion } from './as-written.ts'
import { readableResult, unreadableResult, type IsContent } from './readable-result.ts'
import { readableTool, type SpoiltTool } from './readable-tool.ts'
import { LIST_TTL_MILLISECONDS } from '../bounds.ts'
import { RPC_CODE } from '../protocol.ts'

/** The request whose answer is read. */
export interface ReadFor {
  id: Json | undefined
  method: Json | undefined
  /** Sent in the revision 2026-07-28 or a later one. */
  isModern: boolean
  isContent: IsContent
  /** Called for each tool that loses its place in the list. */
  onSpoilt?: ((tool: SpoiltTool) => void) | undefined
}

/** The message, or an array of messages, as the SDK can read it; the same object if it can already. */
export function readableMessage(message: Json, request: ReadFor): Json {
  if (Array.isArray(message)) return message.map(one => readableMessage(one, request))
  if (!isJsonObject(message)) return message
  const { method, error = null, result } = message
  // Some servers write each member that they have none for as null.
  if (method !== undefined && method !== null) return message
  const id = idOf(message['id'], request)
  const isError = isJsonObject(error) || typeof error === 'string'
  if (isError || (error !== null && (result === undefined || result === null))) {
    const { code, ...words } = asRpcError(error) ?? { code: RPC_CODE.internalError, message: wordsOf(error) }
    return {
      jsonrpc: '2.0',
      ...id,
      error: { code: Number.isInteger(code) ? code : RPC_CODE.internalError, ...words },
    }
  }
  if (result === undefined) return message
  const isOurs = id.id !== undefined && isSame(id.id, request.id)
  return { jsonrpc: '2.0', ...id, result: isOurs ? resultFor(result, request) : result }
}

/**
 * An error without an id answers a request that its sender could not read. A call's is left alone: whether it
 * was made is never guessed.
 */
function idOf(id: Json | undefined, request: ReadFor): { id?: Json } {
  if (id !== undefined && id !== null) return { id }
  return request.method === 'tools/call' || request.id === undefined ? {} : { id: request.id }
}

/** Whether an id is the one that was sent; many servers write a number as text. */
export function isSame(id: Json | undefined, ours: Json | undefined): boolean {
  return id === ours || (typeof id === 'string' && typeof ours === 'number' && id === `${ours}`)
}

function wordsOf(error: Json): string {
  return typeof error === 'string' ? error : JSON.stringify(error)
}

function resultFor(result: Json, { method, isModern, isContent, onSpoilt }: ReadFor): Json {
  switch (method) {
    case 'initialize':
    case 'server/discover':
      return complete(readableGreeting(withoutNulls(result)), isModern)
    case 'tools/list':
      return complete(readableList(result, isModern, onSpoilt), isModern)
    case 'tools/call':
      return isModern ? modernResult(result, isContent) : readableResult(result, isContent)
    default:
      return complete(result ?? {}, isModern)
  }
}

/** A result that asks back is read elsewhere; one of another kind than is known here becomes words. */
function modernResult(result: Json, isContent: IsContent): Json {
  const type = isJsonObject(result) ? (result['resultType'] ?? 'complete') : 'complete'
  if (type === 'input_required') return isJsonObject(result) ? asking(result) : result
  return complete(type === 'complete' ? readableResult(result, isContent) : unreadableResult(result), true)
}

function asking(result: JsonObject): JsonObject {
  const { inputRequests, requestState, ...rest } = result
  return {
    ...rest,
    ...(inputRequests === undefined || inputRequests === null
      ? {}
      : { inputRequests: asQuestion(inputRequests) }),
    ...(requestState === undefined || requestState === null ? {} : { requestState }),
  }
}

function complete(result: Json, isModern: boolean): Json {
  if (!isModern || !isJsonObject(result)) return result
  return typeof result['resultType'] === 'string' ? result : { ...result, resultType: 'complete' }
}

function readableList(result: Json, isModern: boolean, onSpoilt: ReadFor['onSpoilt']): Json {
  if (!isJsonObject(result)) return result
  const { tools, nextCursor, ttlMs, cacheScope, _meta, ...rest } = result
  if (tools !== undefined && tools !== null && !Array.isArray(tools)) return result
  const readable = (tools ?? []).flatMap((tool, at) => {
    const read = readableTool(tool, at, isModern)
    if ('spoilt' in read) onSpoilt?.(read.spoilt)
    return 'tool' in read ? [read.tool] : []
  })
  const isTtl = typeof ttlMs === 'number' && Number.isFinite(ttlMs) && ttlMs >= 0
  const ttl = isTtl ? { ttlMs: Math.floor(ttlMs) } : isModern ? { ttlMs: LIST_TTL_MILLISECONDS } : {}
  const isScope = cacheScope === 'public' || cacheScope === 'private'
  return {
    ...rest,
    tools: readable,
    ...cursorIn(nextCursor),
    ...ttl,
    ...(isScope ? { cacheScope } : isModern ? { cacheScope: 'private' } : {}),
    ...(isJsonObject(_meta) ? { _meta } : {}),
  }
}

function cursorIn(next: Json | undefined): { nextCursor?: string } {
  if (typeof next === 'number') return { nextCursor: `${next}` }
  return typeof next === 'string' && next !== '' ? { nextCursor: next } : {}
}

/**
 * What a server says of itself: whatever of it is optional and odd is left out, so that it costs no tool.
 * PHP writes an empty object as a list.
 */
function readableGreeting(greeting: Json): Json {
  if (!isJsonObject(greeting)) return greeting
  const { capabilities, serverInfo, instructions, _meta, ...rest } = greeting
  const { name, version, title, description, websiteUrl } = isJsonObject(serverInfo) ? serverInfo : {}
  const texts = { title, description, websiteUrl }
  return {
    ...rest,
    capabilities: objectsIn(capabilities),
    serverInfo: {
      ...Object.fromEntries(Object.entries(texts).filter(([, text]) => typeof text === 'string')),
      name: typeof name === 'string' ? name : 'unnamed',
      version: typeof version === 'string' || typeof version === 'number' ? `${version}` : '0',
    },
    ...(typeof instructions === 'string' ? { instructions } : {}),
    ...(isJsonObject(_meta) ? { _meta } : {}),
  }
}

/** The capabilities, each an object; of a member of one that says yes or no, only a boolean is kept. */
function objectsIn(json: Json | undefined): JsonObject {
  if (!isJsonObject(json)) return {}
  const read = Object.entries(json).flatMap(([name, value]): [string, Json][] => {
    if (value === true || (Array.isArray(value) && value.length === 0)) return [[name, {}]]
    if (!isJsonObject(value)) return []
    const members = Object.entries(value).filter(([, one]) => typeof one === 'boolean' || isJsonObject(one))
    return [[name, Object.fromEntries(members)]]
  })
  return Object.fromEntries(read)
}

/** In what a server says of itself, null never means anything. */
function withoutNulls(json: Json): Json {
  if (Array.isArray(json)) return json.filter(one => one !== null).map(withoutNulls)
  if (!isJsonObject(json)) return json
  const members = Object.entries(json).filter(([, value]) => value !== null)
  return Object.fromEntries(members.map(([name, value]): [string, Json] => [name, withoutNulls(value)]))
}
