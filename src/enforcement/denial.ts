/**
 * Owns how a refusal becomes an answer of the enforcement point. Contract: "Errors": our own outage is 503
 * `temporarily_unavailable`, the only non-terminal value, and never an allow.
 */
import type { JsonObject } from '../wire/json.ts'
import { Refusal, refusalBody, refusalHeaders, type RefusalCode } from '../wire/refusal.ts'
import type { Denied } from './call.ts'
import { rpcDenial } from './json-rpc-denial.ts'

/**
 * A refusal whose body is not `{error, error_description}` but a document that the caller's protocol
 * prescribes.
 */
export class DocumentRefusal extends Refusal {
  readonly document: JsonObject

  constructor(code: RefusalCode, detail: string, document: JsonObject) {
    super(code, detail)
    this.document = document
  }
}

/**
 * The denied outcome of anything thrown while a call was judged: a Refusal with its own status, code and
 * sentence; whatever else as 503 `temporarily_unavailable` without detail.
 */
export function denialOf(thrown: unknown): Denied {
  const refusal = thrown instanceof Refusal ? thrown : new Refusal('temporarily_unavailable')
  return {
    kind: 'deny',
    status: refusal.status,
    headers: headersOf(refusal),
    body: refusal instanceof DocumentRefusal ? refusal.document : refusalBody(refusal),
    metadata: { decision: 'deny', reason: refusal.code },
  }
}

/** Every 401 names its scheme (RFC 9110 §15.5.2): a challenge that asks for no negotiation is by `PoP`. */
function headersOf(refusal: Refusal): [name: string, value: string][] {
  const { status, code } = refusal
  const lines = Object.entries(refusalHeaders(refusal))
  if (status !== 401 || lines.some(([name]) => name === 'www-authenticate')) return lines
  return [...lines, ['www-authenticate', `PoP error="${code}"`]]
}

/**
 * A denial as an HTTP answer: lower-case field names, the body as JSON, never to be kept. Who speaks MCP
 * 2026-07-28 gets it as a JSON-RPC error: status and header fields are the same, but such a client shows
 * nothing else.
 */
export function denialMessage(outcome: Denied): {
  status: number
  headers: [name: string, value: string][]
  body: string
} {
  const headers = outcome.headers.map(([name, value]): [string, string] => [name.toLowerCase(), value])
  for (const [name, value] of [
    ['content-type', 'application/json'],
    ['cache-control', 'no-store'],
  ] as const) {
    if (!headers.some(([known]) => known === name)) headers.push([name, value])
  }
  return { status: outcome.status, headers, body: JSON.stringify(shownBody(outcome)) }
}

function shownBody(outcome: Denied): object {
  const { rpc, body } = outcome
  return rpc === undefined || 'jsonrpc' in body
    ? body
    : { jsonrpc: '2.0', id: rpc.id, error: rpcDenial(outcome) }
}
