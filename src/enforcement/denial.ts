/**
 * Owns how a refusal becomes an answer of the enforcement point. Contract: "Errors": our own outage is 503
 * `temporarily_unavailable`, the only non-terminal value, and never an allow.
 */
import type { JsonObject } from '../wire/json.ts'
import { GRANT_UNSPENT } from '../wire/names.ts'
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
 * The denied outcome of anything thrown while a call was judged: a Refusal keeps its own status, code and
 * sentence; anything else becomes 503 `temporarily_unavailable` without detail. `unspent`: the grant that
 * came with the call is unspent, and an outage then says so.
 */
export function denialOf(thrown: unknown, { unspent = false } = {}): Denied {
  const refusal = thrown instanceof Refusal ? thrown : new Refusal('temporarily_unavailable')
  return {
    kind: 'deny',
    status: refusal.status,
    headers: headersOf(refusal),
    body: refusal instanceof DocumentRefusal ? refusal.document : bodyOf(refusal, unspent),
    metadata: { decision: 'deny', reason: refusal.code },
  }
}

/** After an outage the caller may try again, if it is certain that this is still the same call. */
function bodyOf(refusal: Refusal, unspent: boolean): Record<string, unknown> {
  const body = refusalBody(refusal)
  return unspent && refusal.code === 'temporarily_unavailable' ? { ...body, [GRANT_UNSPENT]: true } : body
}

/** Every 401 names its scheme (RFC 9110 §15.5.2). A challenge without a negotiation names `PoP`. */
function headersOf(refusal: Refusal): [name: string, value: string][] {
  const { status, code } = refusal
  const lines = Object.entries(refusalHeaders(refusal))
  if (status !== 401 || lines.some(([name]) => name === 'www-authenticate')) return lines
  return [...lines, ['www-authenticate', `PoP error="${code}"`]]
}

/**
 * A denial as an HTTP answer: lower-case field names, a JSON body, never to be cached. Callers that speak MCP
 * 2026-07-28 get it as a JSON-RPC error: status and header fields are the same, but these clients show
 * nothing else. `forGateway`: the status tells a gateway whether the call passes, so it is that of the
 * denial.
 */
export function denialMessage(
  outcome: Denied,
  { forGateway = false } = {},
): {
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
  const status = forGateway ? outcome.status : (outcome.rpc?.status ?? outcome.status)
  return { status, headers, body: JSON.stringify(shownBody(outcome)) }
}

function shownBody(outcome: Denied): object {
  const { rpc, body } = outcome
  return rpc === undefined || 'jsonrpc' in body
    ? body
    : { jsonrpc: '2.0', id: rpc.id, error: rpcDenial(outcome) }
}
