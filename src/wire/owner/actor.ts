/**
 * Owns who made a decision, as it is stored and reported. Contract: "Owner API", "Events". `by` beside it
 * stays a word.
 */

/**
 * The owner, by one of her credentials; the operator of her authority; or an administrator of the
 * organization that she is a member of.
 */
export type Actor =
  | { kind: 'owner'; credential: 'device_key'; kid: string }
  | { kind: 'owner'; credential: 'login'; id: string }
  /** The holder of a passkey. It lets a device key in, and decides nothing else. */
  | { kind: 'owner'; credential: 'passkey'; id: string }
  /** The holder of the one-time code. It adds a credential, and decides nothing else. */
  | { kind: 'owner'; credential: 'enrolment_code' }
  /** The operator of her authority, by its command line, or by name at its administration. */
  | { kind: 'authority'; admin?: string }
  | { kind: 'organization'; org: string; name: string; admin: string }

/** The word that says how something ended or was decided, and who did it. */
export interface DecidedBy {
  by: string
  actor: Actor
}
