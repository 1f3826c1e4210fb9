/**
 * Owns the three assurance axes: the level of each follows from the checks that ran, and from nothing that
 * the agent says. Contract: "Policy vocabulary and tiers" (assurance), "Operator documents".
 */
import type { AssuranceFacts } from './conditions.ts'

/** The checks that ran on one agreement. A check that could not run counts as failed. */
export interface AssuranceChecks {
  /** The agreement is signed by the key that the grant will be bound to. */
  readonly signed: boolean
  /** A listed issuer vouches for that key by an agent token. */
  readonly issuerVouches: boolean
  /** The client document was found at its URL and claims it. */
  readonly clientDocumentClaimsItsUrl: boolean
  /** The operator's key directory, at the origin of client_id, lists the signing key. */
  readonly directoryListsKey: boolean
}

/** The levels of an agent's assurance; all of them are known. */
export interface Assurance extends AssuranceFacts {
  readonly binding: 0 | 1
  readonly provenance: 0 | 1
  readonly accountability: 0 | 1 | 2
}

/**
 * The levels: binding 1 signed; provenance 0 self-made, 1 vouched for by an issuer; accountability 0 none, 1
 * the client document claims its own URL, 2 the operator's directory lists the key. Each axis is independent:
 * no check changes another axis.
 */
export function assuranceOf(checks: AssuranceChecks): Assurance {
  return {
    binding: checks.signed ? 1 : 0,
    provenance: checks.issuerVouches ? 1 : 0,
    accountability: checks.directoryListsKey ? 2 : checks.clientDocumentClaimsItsUrl ? 1 : 0,
  }
}
