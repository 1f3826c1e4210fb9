/**
 * Owns who a decision is by, as it is stored and told. Contract: "Owner API", "Events". `by` beside it stays
 * a word.
 */

/**
 * The owner, by which of her credentials; or an administrator of the organization that she is a member of.
 */
export type Actor =
  | { kind: 'owner'; credential: 'device_key'; kid: string }
  | { kind: 'owner'; credential: 'login'; id: string }
  /** Who held the one-time code: it adds a credential, and decides nothing else. */
  | { kind: 'owner'; credential: 'enrolment_code' }
  | { kind: 'organization'; org: string; name: string; admin: string }

/** The word that says by what something ended or was decided, and who did it. */
export interface DecidedBy {
  by: string
  actor: Actor
}
