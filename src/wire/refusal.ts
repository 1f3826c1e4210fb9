/**
 * Owns every refusal code, in one table, and the one error class that carries them. Contract: "Errors".
 */

/**
 * How a code is answered: its usual HTTP status, whether it ends the presented token, and the row that it
 * comes from.
 */
export interface RefusalRow {
  readonly status: number
  /** True for all but `temporarily_unavailable` (contract, "Grant (RPT) liveness"). */
  readonly terminal: boolean
  /** The contract heading or RFC section that the code and its status come from. */
  readonly row: string
}

function row(status: number, source: string, terminal = true): RefusalRow {
  return { status, terminal, row: source }
}

/**
 * Every code that we answer with. If a code has two statuses, the caller gives the other one (`{ status: 429
 * }`).
 */
export const REFUSALS = {
  // The contract's own table.
  insufficient_authorization: row(401, 'contract, Errors: no sufficient grant (beat 1)'),
  need_info: row(403, 'contract, Errors: first presentation of a ticket'),
  request_submitted: row(403, 'contract, Errors: owner decision pending'),
  request_denied: row(403, 'contract, Errors: policy failure; 429 past the pending queue cap'),
  invalid_grant: row(400, 'contract, Errors: ticket; UMA 2.0 Grant §3.3.6'),
  authorization_pending: row(403, 'contract, Errors: resource server not yet approved'),
  invalid_resource_id: row(400, 'contract, Errors: /perm; UMA 2.0 Federated Authorization §4.3'),
  invalid_scope: row(400, 'contract, Errors: /perm; UMA 2.0 Federated Authorization §4.3'),
  invalid_token: row(401, 'contract, Errors: request signature fails; RFC 6750 §3.1'),
  consequence_changed: row(403, 'contract, Errors: operation declared worse than the grant'),
  organization_envelope_exceeded: row(403, 'contract, Errors: organization ceiling'),
  joint_mandate_unsatisfied: row(403, 'contract, Errors: joint mandate'),
  access_revoked: row(403, 'contract, Errors: terminal introspection reasons'),
  temporarily_unavailable: row(503, 'contract, Errors: the only non-terminal refusal', false),

  // Why a grant is not live, and why a consume was refused (contract, "Grant (RPT) liveness", "Single-use
  // grant").
  already_consumed: row(403, 'contract, Errors: consumed false'),
  not_single_use: row(403, 'contract, Errors: consumed false'),
  connection_revoked: row(403, 'contract, Grant (RPT) liveness'),
  organization_revoked: row(403, 'contract, Grant (RPT) liveness'),
  revoked: row(403, 'contract, Grant (RPT) liveness'),
  expired: row(403, 'contract, Grant (RPT) liveness'),
  unknown_token: row(403, 'contract, Grant (RPT) liveness'),
  invalid_signature: row(403, 'contract, Grant (RPT) liveness'),

  // Codes of the enforcement point (contract, "Authorized call" and "Authentication": truncated body, inputs
  // never from transport).
  operation_required: row(403, 'contract, Authorized call, order 4'),
  operation_mismatch: row(403, 'contract, Authorized call, order 4'),
  owner_approval_missing: row(403, 'contract, Authorized call, order 4; docs/choices.md'),
  unknown_tool: row(403, 'contract, What the service does, 8'),
  unknown_method: row(403, 'contract, What the service does, 8'),
  invalid_origin: row(403, 'MCP 2026-07-28, Streamable HTTP: Origin'),
  header_body_mismatch: row(400, 'contract, Authentication: inputs never from the transport'),
  request_body_too_large: row(413, 'contract, Authentication: a truncated body fails closed'),
  request_body_missing: row(400, 'contract, Authentication: a truncated body fails closed'),

  // Codes about an owner's decision (docs/choices.md).
  invalid_statement: row(400, 'contract, Owner API: decision; docs/choices.md'),
  statement_key: row(403, 'contract, Owner API: decision; docs/choices.md'),
  signature_required: row(409, 'contract, Owner API: decision; docs/choices.md'),
  statement_replayed: row(409, 'contract, Owner API: decided already; docs/choices.md'),
  item_changed: row(409, 'contract, Owner API: decided already; docs/choices.md'),

  // Plain OAuth and HTTP codes, wherever the contract adds nothing.
  invalid_request: row(400, 'RFC 6749 §5.2; contract, Versioning: stock where not listed'),
  invalid_client: row(401, 'RFC 6749 §5.2'),
  unsupported_grant_type: row(400, 'RFC 6749 §5.2'),
  access_denied: row(403, 'contract, Resource server registration: revoked'),
  invalid_credential: row(401, 'contract, Authentication: owner at the owner API'),
  not_found: row(404, 'RFC 9110 §15.5.5'),
  method_not_allowed: row(405, 'RFC 9110 §15.5.6'),
  conflict: row(409, 'RFC 9110 §15.5.10; contract, Owner API: decided already'),
  precondition_failed: row(412, 'RFC 9110 §15.5.13'),
  request_too_large: row(413, 'RFC 9110 §15.5.14'),
  unsupported_media_type: row(415, 'RFC 9110 §15.5.16'),
  server_error: row(500, 'RFC 9110 §15.6.1'),
} as const satisfies Record<string, RefusalRow>

/** A refusal code that we know. */
export type RefusalCode = keyof typeof REFUSALS

/**
 * `status` replaces the table's; `extra` are further members of the body; `headers` go with the HTTP answer.
 */
export interface RefusalOptions {
  status?: number
  extra?: Record<string, unknown>
  headers?: Record<string, string>
  cause?: unknown
}

/** A refused request. `detail` is a sentence that says what to do; it becomes `error_description`. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: RefusalCode
  readonly status: number
  readonly detail: string | undefined
  readonly extra: Record<string, unknown> | undefined
  readonly headers: Record<string, string> | undefined

  constructor(code: RefusalCode, detail?: string, options: RefusalOptions = {}) {
    super(
      detail === undefined ? code : `${code}: ${detail}`,
      options.cause === undefined ? {} : { cause: options.cause },
    )
    this.code = code
    this.status = options.status ?? REFUSALS[code].status
    this.detail = detail
    this.extra = options.extra
    this.headers = options.headers
  }
}

/** Nobody can tell now: 503 `temporarily_unavailable`, and the caller may ask again in so many seconds. */
export function unavailable(detail: string, seconds: number, cause?: unknown): Refusal {
  return new Refusal('temporarily_unavailable', detail, {
    headers: { 'retry-after': String(seconds) },
    cause,
  })
}

/** Whoever asks has had his share, and may ask again in so many seconds: 429 `temporarily_unavailable`. */
export function askLater(detail: string, seconds: number): Refusal {
  const headers = { 'retry-after': String(seconds) }
  return new Refusal('temporarily_unavailable', detail, { status: 429, headers })
}

/** Throws the `Refusal` of a code. */
export function refuse(code: RefusalCode, detail?: string, options: RefusalOptions = {}): never {
  throw new Refusal(code, detail, options)
}

/**
 * The header fields of a refusal. An outage says when to retry (RFC 9110 §10.2.3), because an immediate retry
 * would not help.
 */
export function refusalHeaders({ status, headers = {} }: Refusal): Record<string, string> {
  return status === 503 && headers['retry-after'] === undefined ? { ...headers, 'retry-after': '1' } : headers
}

/**
 * The body of a refusal, `{error, error_description?, ...extra}` (RFC 6749 §5.2); extra never replaces the
 * two.
 */
export function refusalBody(refusal: Refusal): Record<string, unknown> {
  return {
    error: refusal.code,
    ...(refusal.detail === undefined ? {} : { error_description: refusal.detail }),
    ...withoutReserved(refusal.extra),
  }
}

/**
 * Returns the result of `work`; turns a `Refusal` with `invalid_request`, which all parsers here throw, into
 * one with `code` and the same sentence. Other refusals and faults pass through.
 */
export function refusingAs<T>(code: RefusalCode, work: () => T, options: RefusalOptions = {}): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'invalid_request') throw error
    return refuse(code, error.detail, { ...options, cause: error })
  }
}

function withoutReserved(extra: Record<string, unknown> | undefined): Record<string, unknown> {
  const { error: _error, error_description: _description, ...rest } = extra ?? {}
  return rest
}
