/** Owns MCP requests as tests write them: a Call without a proxy, and JSON-RPC messages. */
import type { Call } from '../../src/enforcement/call.ts'
import type { CallRequest } from '../../src/enforcement/request/call-request.ts'
import { readMcp, type McpSettings } from '../../src/enforcement/request/mcp.ts'

export const NOTHING_OPEN: McpSettings = {
  openMethods: new Set(),
  allowedOrigins: new Set(['https://tools.example.com']),
}
/** Settings that open some methods. */
export const opening = (...methods: string[]): McpSettings => ({
  ...NOTHING_OPEN,
  openMethods: new Set(methods),
})

/** A POST whose body came whole. */
export function post(text: string | Buffer, headers: Record<string, string | string[]> = {}): Call {
  return {
    method: 'POST',
    path: '/mcp/alice',
    headers: new Map(Object.entries(headers).map(([name, lines]) => [name, [lines].flat()])),
    body: { state: 'complete', bytes: Buffer.from(text), lossyText: false },
    context: {},
    peer: 'unknown',
    isCancelled: () => false,
  }
}

/** What a POST is read as. */
export const read = (
  text: string | Buffer,
  headers: Record<string, string | string[]> = {},
  settings = NOTHING_OPEN,
): CallRequest => readMcp(post(text, headers), settings)

/** A message as JSON; members given as undefined are left out. */
export const message = (members: Record<string, unknown>): string =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, ...members })

/** A tools/call as JSON. */
export const toolCall = (params: unknown, members: Record<string, unknown> = {}): string =>
  message({ method: 'tools/call', params, ...members })

export const TRADE = { name: 'place_trade', arguments: { symbol: 'VTI', qty: 2 } }
