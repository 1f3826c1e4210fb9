/**
 * The answers of the token endpoint as values: `need_info` and `request_submitted` are answers, never thrown.
 * Contract: "Token endpoint", "Errors".
 */
export interface Answer {
  status: number
  body: object
}

/** A refusal of the negotiation, with a sentence for the agent's developer. 429 where the party has no room for it now. */
export function denied(description: string, status: 403 | 429 = 403): Answer {
  return { status, body: { error: 'request_denied', error_description: description } }
}
