/**
 * Owns who may ask for an owner's resources. Contract: "Authentication": the owner's authority, by an RFC
 * 9421 signature made with a key it publishes.
 */
import type { JwksCache } from '../../http/outbound/jwks-cache.ts'
import { verifyByPublishedKeys } from '../../http/servers/published-keys.ts'
import { signedMessage, type SignatureBase, type SignedRequest } from '../../http/servers/signed-request.ts'
import type { SignedMessage } from '../../wire/signatures/http-signature.ts'
import { AUTHORITY_PATH } from '../../wire/names.ts'
import { Refusal } from '../../wire/refusal.ts'
import { outage } from '../outage.ts'

export interface AuthorityGuardOptions {
  jwks: JwksCache
  signatureBase: SignatureBase
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** Returns which of the authorities signed the request. Refuses 401 `invalid_token` if none did. */
export type AuthorityGuard = (request: SignedRequest, authorities: readonly string[]) => Promise<string>

/** A guard that fetches the keys of configured authorities, and of nobody else. */
export function createAuthorityGuard(options: AuthorityGuardOptions): AuthorityGuard {
  return async (request, authorities) => {
    const message = signedMessage(request, options.signatureBase)
    let refusal: Refusal | undefined
    let unreachable: unknown
    for (const authority of authorities) {
      try {
        await verifyAs(message, authority, options)
        return authority
      } catch (error) {
        if (error instanceof Refusal) refusal = error
        else unreachable = error
      }
    }
    // The authority that could not be checked may be the signer.
    if (unreachable !== undefined)
      throw outage('The keys of an authority could not be fetched: ask again.', unreachable)
    throw refusal ?? new Refusal('invalid_token', "Sign the request with a key of the owner's authority.")
  }
}

function verifyAs(
  message: SignedMessage,
  authority: string,
  { jwks, clock }: AuthorityGuardOptions,
): Promise<unknown> {
  const url = authority + AUTHORITY_PATH.jwks
  const source = { keys: () => jwks.keys(url), find: (kid: string) => jwks.find(url, kid) }
  return verifyByPublishedKeys(message, source, { now: Math.floor(clock() / 1000) })
}
