/**
 * Owns the header fields in which MCP 2026-07-28 repeats parts of the body: `Mcp-Method`, `Mcp-Name`,
 * `Mcp-Param-*`, the version. Contract: "Authorized call", and docs/choices.md: the body is what is
 * authorized, and a mirror that disagrees is refused, because something between here and the tool may route
 * by it.
 */
import { isUtf8 } from 'node:buffer'
import { isJsonObject, jsonIn, type Json, type JsonObject } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'
import type { Call } from '../call.ts'
import { DocumentRefusal } from '../denial.ts'
import type { HeaderLines } from './header-lines.ts'
import type { McpMessage } from './mcp-message.ts'

const DETAIL =
  'Send MCP-Protocol-Version, Mcp-Method, Mcp-Name and Mcp-Param fields once each, saying what the body says.'
const HEADER_MISMATCH = -32020
const FIRST_MIRRORING_VERSION = '2026-07-28'

const VERSION_META = 'io.modelcontextprotocol/protocolVersion'
const PARAM_PREFIX = 'mcp-param-'
/** The methods for which the name of their object must be repeated. */
const NAMED: ReadonlySet<string> = new Set(['tools/call', 'resources/read', 'prompts/get'])

/**
 * Refuses 400 `header_body_mismatch` if a mirror comes several times, cannot be decoded, or differs from the
 * body. Also refuses if the header says MCP 2026-07-28 or later and a mirror is missing, because the tool
 * would refuse that after a grant was spent. The answer is then the JSON-RPC error -32020. Only the tool
 * knows which argument an `Mcp-Param-*` repeats, so some argument must have its value.
 */
export function checkMirrors(headers: HeaderLines, message: McpMessage): void {
  const agrees =
    mirrors(headers.get('mcp-method'), [message.method]) &&
    mirrors(headers.get('mcp-name'), namesOf(message)) &&
    repeatsVersion(headers, message) &&
    repeatsParameters(headers, message) &&
    lacksNone(headers, message)
  if (agrees) return
  if (!speaksMirrors(headers, message)) refuse('header_body_mismatch', DETAIL)
  throw new DocumentRefusal('header_body_mismatch', DETAIL, {
    jsonrpc: '2.0',
    id: message.id ?? null,
    error: { code: HEADER_MISMATCH, message: DETAIL, data: { error: 'header_body_mismatch' } },
  })
}

function mirrors(lines: readonly string[] | undefined, values: readonly (Json | undefined)[]): boolean {
  if (lines === undefined) return true
  const decoded = lines.length === 1 ? decodeMirror(lines[0]!.trim()) : undefined
  return decoded !== undefined && values.includes(decoded)
}

/** The name of a tool; for other methods, the member that names what they act on. */
function namesOf({ method, params }: McpMessage): (Json | undefined)[] {
  return method === 'tools/call' ? [params?.name] : [params?.name, params?.uri, params?.taskId]
}

/**
 * Plain text, or UTF-8 in canonical base64 between `=?base64?` and `?=`; undefined for a spelling that is
 * neither.
 */
function decodeMirror(text: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(text)?.[1]
  if (encoded === undefined) return text
  const bytes = Buffer.from(encoded, 'base64')
  return bytes.toString('base64') === encoded && isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

function repeatsVersion(headers: HeaderLines, message: McpMessage): boolean {
  const declared = declaredVersion(message)
  const lines = headers.get('mcp-protocol-version')
  if (declared === undefined || lines === undefined) return true
  return lines.length === 1 && lines[0]!.trim() === declared
}

function repeatsParameters(headers: HeaderLines, { method, params }: McpMessage): boolean {
  if (method !== 'tools/call') return true
  for (const [name, lines] of headers) {
    if (!name.startsWith(PARAM_PREFIX)) continue
    const text = lines.length === 1 ? decodeMirror(lines[0]!.trim()) : undefined
    if (text === undefined || !leaves(params?.arguments).some(value => saysTheSame(text, value))) return false
  }
  return true
}

function leaves(value: Json | undefined): Json[] {
  if (value === undefined) return []
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(leaves) : [value]
}

function saysTheSame(text: string, value: Json): boolean {
  if (typeof value === 'number') return text.trim() !== '' && Number(text) === value
  return text === (typeof value === 'string' ? value : JSON.stringify(value))
}

function lacksNone(headers: HeaderLines, { id, method }: McpMessage): boolean {
  // Notifications and responses need no mirror.
  if (id === undefined || method === undefined || !isModern(headers.get('mcp-protocol-version')?.[0]))
    return true
  return headers.has('mcp-method') && (headers.has('mcp-name') || !NAMED.has(method))
}

function declaredVersion({ params }: Pick<McpMessage, 'params'>): Json | undefined {
  return isJsonObject(params?._meta) ? params._meta[VERSION_META] : undefined
}

function isModern(version: Json | undefined): boolean {
  return (
    typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && version >= FIRST_MIRRORING_VERSION
  )
}

function speaksMirrors(headers: HeaderLines, message: Pick<McpMessage, 'params'>): boolean {
  return [headers.get('mcp-protocol-version')?.[0], declaredVersion(message)].some(isModern)
}

const ID_CHARACTERS_MAX = 256

/**
 * Callers that get a refusal as a JSON-RPC error: those that say, in the header or in the body, that they
 * speak MCP 2026-07-28 or later. The id is that of its request, null if the body has none that can be
 * repeated. If undefined, the refusal is sent as it is.
 */
export function rpcCaller({ method, headers, body }: Call): { id: string | number | null } | undefined {
  if (method !== 'POST') return undefined
  const version = headers.get('mcp-protocol-version')?.[0]
  // A header that names an earlier version is believed: what earlier clients read has not changed.
  if (version !== undefined && !isModern(version.trim())) return undefined
  const message = body.state === 'complete' ? looseMessage(body.bytes) : undefined
  const params = isJsonObject(message?.params) ? message.params : undefined
  if (!speaksMirrors(headers, { params })) return undefined
  const id = message?.id
  return {
    id: typeof id === 'number' || (typeof id === 'string' && id.length <= ID_CHARACTERS_MAX) ? id : null,
  }
}

const METHOD_NOT_FOUND = { earlier: 200, since2026: 404 } as const

/**
 * The caller of a method that is not opened, as the server itself would answer it if it did not have the
 * method: 404 since MCP 2026-07-28, and before that 200, because 404 would say that the session has ended.
 * Undefined for a message that asks for no answer.
 */
export function unopenedRequest(call: Call): { id: string | number | null; status?: number } | undefined {
  const modern = rpcCaller(call)
  if (modern !== undefined) return { ...modern, status: METHOD_NOT_FOUND.since2026 }
  const id = call.body.state === 'complete' ? looseMessage(call.body.bytes)?.id : undefined
  if (typeof id !== 'number' && (typeof id !== 'string' || id.length > ID_CHARACTERS_MAX)) return undefined
  return { id, status: METHOD_NOT_FOUND.earlier }
}

/** Everything that can be read from a message, even if it is about to be refused. */
function looseMessage(bytes: Buffer): JsonObject | undefined {
  const value = jsonIn(bytes)
  return isJsonObject(value) ? value : undefined
}
