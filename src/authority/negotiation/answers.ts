/**
 * The answers of the token endpoint as values: `need_info` and `request_submitted` are answers, never thrown.
 * Contract: "Token endpoint", "Errors".
 */
export interface Answer {
  status: number
  body: object
}

/** Why an agreement is refused. */
export interface Refused {
  code: string
  sentence: string
  /** Set where nobody's signature was verified, so that the handle is only claimed. */
  unverified?: { handle: string | undefined }
  /** Kept in the ledger beside the reason. */
  data?: Record<string, unknown>
}

/** A refusal of the negotiation, with a sentence for the agent's developer. Ends the negotiation. */
export function denied(description: string): Answer {
  return { status: 403, body: { error: 'request_denied', error_description: description } }
}

/** The pending queue is full: 429, with the reason (contract, "Errors"). */
export function tooMany(description: string): Answer {
  return { status: 429, body: { error: 'request_denied', error_description: description } }
}
