/**
 * Owns the three assurance axes: which level each has follows from the checks that ran, and from nothing the
 * agent says. Contract: "Policy vocabulary and tiers" (assurance), "Operator documents".
 */
import type { AssuranceFacts } from './conditions.ts'

/** The checks that ran on one agreement. A check that could not run is one that failed. */
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

/** Levels of an agent's assurance; every one of them is known. */
export interface Assurance extends AssuranceFacts {
  readonly binding: 0 | 1
  readonly provenance: 0 | 1
  readonly accountability: 0 | 1 | 2
}

/**
 * The levels: binding 1 signed; provenance 0 self-made, 1 vouched for by an issuer; accountability 0 none, 1
 * the client document claims its own URL, 2 the operator's directory lists the key. Each axis stands alone:
 * no check moves another's.
 */
export function assuranceOf(checks: AssuranceChecks): Assurance {
  return {
    binding: checks.signed ? 1 : 0,
    provenance: checks.issuerVouches ? 1 : 0,
    accountability: checks.directoryListsKey ? 2 : checks.clientDocumentClaimsItsUrl ? 1 : 0,
  }
}
