/**
 * Resource servers as an authorization server knows them: who asks at the protection API, and on whose
 * behalf. Contract: "Resource server registration", "Protection access token (PAT)".
 */
import type { RegistrationState } from '../rules/registration.ts'
import type { ClientId, Owner } from '../wire/identifiers.ts'

/** An owner's record of a resource server, as it is now. */
export interface ResourceServer {
  owner: Owner
  client_id: ClientId
  resource_uri: string
  status: RegistrationState
  /** Counted up by each withdrawal; a PAT is good only under the one it was issued under. */
  generation: number
  auth: 'secret' | 'signature'
  secret_sha256: Buffer | null
}

export interface ResourceServers {
  /** undefined where no such owner is served, or she has no such resource server. */
  read(owner: Owner, client_id: ClientId): Promise<ResourceServer | undefined>
}

/** Those whose resource stands at an origin. */
export interface ResourceServersByOrigin {
  /**
   * Those that registered themselves and that she has not withdrawn; two are enough to tell that it is not
   * one.
   */
  atOrigin(owner: Owner, origin: string): Promise<readonly ResourceServer[]>
}

/** Runs `work`, and whatever it awaits, on behalf of an owner: what it takes of the store counts as hers. */
export type OnBehalfOf = <T>(owner: Owner, work: () => T) => T
