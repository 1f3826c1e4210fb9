/**
 * Owns the header fields in which MCP 2026-07-28 repeats parts of the body, `Mcp-Method` and `Mcp-Name`. contract,
 * "Authorized call", and docs/choices.md: the body is what is authorized, and a mirror that disagrees is refused, because something
 * between here and the tool may route by it.
 */
import { isUtf8 } from 'node:buffer'
import { isJsonObject, type Json } from '../wire/json.ts'
import { refuse } from '../wire/refusal.ts'
import { DocumentRefusal } from './denial.ts'
import type { HeaderLines } from './header-lines.ts'
import type { McpMessage } from './mcp-message.ts'

const DETAIL = 'Send Mcp-Method and Mcp-Name once each, saying what the body says.'
const HEADER_MISMATCH = -32020
const FIRST_MIRRORING_VERSION = '2026-07-28'

/**
 * Refuses 400 `header_body_mismatch` where a mirror stands several times, cannot be decoded, or differs from the body. The answer
 * is the JSON-RPC error -32020 for a caller that speaks MCP 2026-07-28 or later. An absent mirror is left to the tool.
 */
export function checkMirrors(headers: HeaderLines, message: McpMessage): void {
  const agrees =
    mirrors(headers.get('mcp-method'), [message.method]) && mirrors(headers.get('mcp-name'), namesOf(message))
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

/** A tool's name; for other methods whichever member names what they act on. */
function namesOf({ method, params }: McpMessage): (Json | undefined)[] {
  return method === 'tools/call' ? [params?.name] : [params?.name, params?.uri, params?.taskId]
}

/** Plain text, or UTF-8 in canonical base64 between `=?base64?` and `?=`; undefined for a spelling that is neither. */
function decodeMirror(text: string): string | undefined {
  const encoded = /^=\?base64\?(.*)\?=$/.exec(text)?.[1]
  if (encoded === undefined) return text
  const bytes = Buffer.from(encoded, 'base64')
  return bytes.toString('base64') === encoded && isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

function speaksMirrors(headers: HeaderLines, { params }: McpMessage): boolean {
  const meta = params?._meta
  const declared = isJsonObject(meta) ? meta['io.modelcontextprotocol/protocolVersion'] : undefined
  return [headers.get('mcp-protocol-version')?.[0], declared].some(
    version =>
      typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && version >= FIRST_MIRRORING_VERSION,
  )
}
