/**
 * The answers of the token endpoint as values: `need_info` and `request_submitted` are answers, never thrown.
 * Contract: "Token endpoint", "Errors".
 */
export interface Answer {
  status: number
  body: object
}

/** A refusal of the negotiation, with a sentence for the agent's developer. Ends the negotiation. */
export function denied(description: string): Answer {
  return { status: 403, body: { error: 'request_denied', error_description: description } }
}

/** The pending queue is full: 429, with the reason (contract, "Errors"). */
export function tooMany(description: string): Answer {
  return { status: 429, body: { error: 'request_denied', error_description: description } }
}
