/**
 * Owns how the agent refuses: one error class, and the codes that it adds to the wire's refusal codes.
 * Contract: "Errors" and "Grant (RPT) liveness": every refusal value except `temporarily_unavailable` is
 * terminal.
 */
import { Refusal } from '../wire/refusal.ts'

const LOCAL_CODES = [
  'aborted',
  'address_refused',
  'answer_malformed',
  'answer_too_deep',
  'answer_too_large',
  'challenge_untrusted',
  'challenged_again',
  'grant_untrusted',
  'identity_required',
  'identity_untrusted',
  'identity_unusable',
  'introduction_failed',
  'not_challenged',
  'outcome_unknown',
  'redirect_refused',
  'request_invalid',
  'rpc_error',
  'state_unusable',
  'task_required',
  'terms_declined',
  'terms_unanswered',
  'terms_untrusted',
  'ticket_not_rotated',
  'unexpected_answer',
  'unreachable',
  'unsupported_claim',
  'waiting_timed_out',
] as const

/**
 * The faults that the agent itself finds, besides the refusal codes that others send it. `*_untrusted`: the
 * received data contradicts what it must agree with, so nothing was signed or kept.
 */
export type LocalErrorCode = (typeof LOCAL_CODES)[number]

/** The known facts of a failure besides its code. `status` is the HTTP status of the answer that said it. */
export interface AgentErrorDetails {
  detail: string
  status?: number | undefined
  terminal?: boolean
  retryAfterSeconds?: number | undefined
  /** The ticket with which the negotiation continues after an outage. */
  ticket?: string | undefined
  /** A JSON-RPC error as the tool sent it, with code `rpc_error`. */
  rpc?: { code: number; message: string; data?: unknown } | undefined
  /** The agent itself found the fault; otherwise another party reported it. */
  local?: boolean
  /** The source of the detail, if another party wrote it: for example `resource` or `authority`. */
  by?: string | undefined
  /**
   * The call was certainly not made: it was never sent, or the enforcement point says that the grant is
   * unspent.
   */
  unspent?: boolean
  cause?: unknown
}

/**
 * A failed call or negotiation. `code` is a code of the wire (`access_revoked`, `request_denied`, …) or a
 * `LocalErrorCode`; `detail` a sentence for a person, which may quote the other side: escape it before it
 * reaches a terminal. `terminal`: the same call must not be sent again with the same token.
 */
export class AgentError extends Error {
  override readonly name = 'AgentError'
  readonly code: string
  readonly status: number | undefined
  readonly detail: string
  readonly terminal: boolean
  readonly retryAfterSeconds: number | undefined
  readonly ticket: string | undefined
  readonly rpc: AgentErrorDetails['rpc']
  readonly local: boolean
  readonly by: string | undefined
  readonly unspent: boolean

  constructor(code: string, details: AgentErrorDetails) {
    super(`${code}: ${details.detail}`, details.cause === undefined ? {} : { cause: details.cause })
    this.code = code
    this.status = details.status
    this.detail = details.detail
    this.terminal = details.terminal ?? code !== 'temporarily_unavailable'
    this.retryAfterSeconds = details.retryAfterSeconds
    this.ticket = details.ticket
    this.rpc = details.rpc
    this.local = details.local ?? false
    this.by = details.by
    this.unspent = details.unspent ?? false
  }
}

/** Throws an `AgentError` with a code of our own. */
export function fail(
  code: LocalErrorCode,
  detail: string,
  details: Omit<AgentErrorDetails, 'detail'> = {},
): never {
  throw new AgentError(code, { ...details, detail, local: true })
}

/** The same error, for a step before the call is sent, so that the grant of the call is unspent. */
export function unsent(error: AgentError): AgentError {
  const { code, detail, status, terminal, retryAfterSeconds, rpc, local, by } = error
  const same = { detail, status, terminal, retryAfterSeconds, rpc, local, by }
  return new AgentError(code, { ...same, unspent: true, cause: error })
}

/**
 * Returns the answer of `check`; a `Refusal` of the wire code (its parsers throw nothing else) becomes an
 * `AgentError` of the given code, its sentence behind `lead`.
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
 * RFC 6749 §5.2 gives `error` this alphabet; a code outside it, or of another type, is not one that we could
 * know.
 */
const ERROR_WORD = /^[\x21\x23-\x5b\x5d-\x7e]{1,64}$/

/**
 * The agent and its bridge report their own findings with these codes, so they are not accepted from anybody
 * else.
 */
const OWN_WORDS: ReadonlySet<string> = new Set([
  ...LOCAL_CODES,
  'approved',
  'client_error',
  'in_progress',
  'waiting',
])

/** Whether an answer has a refusal code there, known or not. */
export function isRefusalWord(value: unknown): value is string {
  return typeof value === 'string' && ERROR_WORD.test(value)
}

/**
 * The refusal code of an answer: the one received, or `unknown_refusal` if it is no code at all, or one that
 * only we use.
 */
export function refusalWord(value: unknown): string {
  return isRefusalWord(value) && !OWN_WORDS.has(value) ? value : 'unknown_refusal'
}

const DETAIL_LENGTH_MAX = 1000

/** A received sentence, bounded. */
export function receivedSentence(value: unknown, otherwise: string): string {
  if (typeof value !== 'string' || value.trim() === '') return otherwise
  return value.length > DETAIL_LENGTH_MAX ? `${value.slice(0, DETAIL_LENGTH_MAX)}…` : value
}
