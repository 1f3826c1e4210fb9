/**
 * Resource servers as an authorization server knows them: the callers of the protection API, and the owners
 * they act for. Contract: "Resource server registration", "Protection access token (PAT)".
 */
import type { RegistrationState } from '../rules/registration.ts'
import type { PublicJwk } from '../wire/signatures/keys.ts'
import type { ClientId, Owner } from '../wire/identifiers.ts'

/** An owner's record of a resource server, as it is now. */
export interface ResourceServer {
  owner: Owner
  client_id: ClientId
  resource_uri: string
  status: RegistrationState
  /** Each withdrawal increments it; a PAT is valid only for the generation in which it was issued. */
  generation: number
  auth: 'secret' | 'signature'
  secret_sha256: Buffer | null
  /** A secret that is in force beside it or beside the keys, until these are used; none if left out. */
  former_secret_sha256?: Buffer | null
  /** The only keys that count, if it is by signature; if left out, those that it publishes count. */
  client_keys?: readonly PublicJwk[] | null
  /** Keys that are in force beside these or beside the secret, until these are used; none if left out. */
  former_keys?: readonly PublicJwk[] | null
}

export interface ResourceServers {
  /** undefined if no such owner is served, or she has no such resource server. */
  read(owner: Owner, client_id: ClientId): Promise<ResourceServer | undefined>
}

/** The servers whose resource is at an origin. */
export interface ResourceServersByOrigin {
  /**
   * At most two servers that registered themselves and that she has not withdrawn; two are enough to see that
   * there is not exactly one.
   */
  atOrigin(owner: Owner, origin: string): Promise<readonly ResourceServer[]>
}
