/**
 * Owns how the agent says no: one error class and the words of its own that it adds to the wire's refusal
 * codes. Contract: "Errors" and "Grant (RPT) liveness": every refusal value except `temporarily_unavailable`
 * is terminal.
 */
import { Refusal } from '../wire/refusal.ts'

/**
 * What the agent itself finds wrong, beside the refusal codes that others send it. `*_untrusted`: what was
 * received does not agree with what it must agree with, so nothing was signed or kept.
 */
export type LocalErrorCode =
  | 'aborted'
  | 'address_refused'
  | 'answer_malformed'
  | 'answer_too_large'
  | 'challenge_untrusted'
  | 'challenged_again'
  | 'grant_untrusted'
  | 'identity_required'
  | 'identity_untrusted'
  | 'identity_unusable'
  | 'introduction_failed'
  | 'not_challenged'
  | 'outcome_unknown'
  | 'redirect_refused'
  | 'request_invalid'
  | 'rpc_error'
  | 'state_unusable'
  | 'terms_declined'
  | 'terms_unanswered'
  | 'terms_untrusted'
  | 'ticket_not_rotated'
  | 'unexpected_answer'
  | 'unreachable'
  | 'unsupported_claim'
  | 'waiting_timed_out'

/** What is known about a failure beside its code. `status` is the HTTP status of the answer that said it. */
export interface AgentErrorDetails {
  detail: string
  status?: number | undefined
  terminal?: boolean
  retryAfterSeconds?: number | undefined
  /** A JSON-RPC error as the tool sent it, with code `rpc_error`. */
  rpc?: { code: number; message: string; data?: unknown }
  /** Found by the agent itself; otherwise the word of somebody else. */
  local?: boolean
  cause?: unknown
}

/**
 * A call, or a negotiation, that came to nothing. `code` is a word of the wire (`access_revoked`,
 * `request_denied`, …) or a `LocalErrorCode`; `detail` a sentence for a person, which may quote the other
 * side: escape it before it reaches a terminal. `terminal`: the same call must not be sent again with the
 * same token.
 */
export class AgentError extends Error {
  override readonly name = 'AgentError'
  readonly code: string
  readonly status: number | undefined
  readonly detail: string
  readonly terminal: boolean
  readonly retryAfterSeconds: number | undefined
  readonly rpc: AgentErrorDetails['rpc']
  readonly local: boolean

  constructor(code: string, details: AgentErrorDetails) {
    super(`${code}: ${details.detail}`, details.cause === undefined ? {} : { cause: details.cause })
    this.code = code
    this.status = details.status
    this.detail = details.detail
    this.terminal = details.terminal ?? code !== 'temporarily_unavailable'
    this.retryAfterSeconds = details.retryAfterSeconds
    this.rpc = details.rpc
    this.local = details.local ?? false
  }
}

/** Throws an `AgentError` with a word of our own. */
export function fail(
  code: LocalErrorCode,
  detail: string,
  details: Omit<AgentErrorDetails, 'detail'> = {},
): never {
  throw new AgentError(code, { ...details, detail, local: true })
}

/**
 * What `check` answers; a `Refusal` of the wire code (its parsers throw nothing else) becomes an `AgentError`
 * of the given code, its sentence behind `lead`.
 */
export function reading<T>(code: LocalErrorCode, lead: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return fail(code, `${lead}: ${error.detail ?? error.code}`, { cause: error })
  }
}

/**
 * RFC 6749 §5.2 gives `error` this alphabet; a word outside it, or of another type, is not one we could know.
 */
const ERROR_WORD = /^[\x21\x23-\x5b\x5d-\x7e]{1,64}$/

/** The refusal word of an answer: the one received, or `unknown_refusal` where it is no word at all. */
export function refusalWord(value: unknown): string {
  return typeof value === 'string' && ERROR_WORD.test(value) ? value : 'unknown_refusal'
}

const DETAIL_LENGTH_MAX = 1000

/** A received sentence, bounded. */
export function receivedSentence(value: unknown, otherwise: string): string {
  if (typeof value !== 'string' || value.trim() === '') return otherwise
  return value.length > DETAIL_LENGTH_MAX ? `${value.slice(0, DETAIL_LENGTH_MAX)}…` : value
}
