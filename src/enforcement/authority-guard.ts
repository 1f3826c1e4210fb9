/**
 * Owns who may ask for an owner's resources. contract, "Authentication": the owner's authority, by an RFC 9421 signature made with a key
 * it publishes.
 */
import type { FastifyRequest } from 'fastify'
import type { JwksCache } from '../http/jwks-cache.ts'
import { signedMessage, type SignatureBase } from '../http/signed-request.ts'
import { verifyRequest, type SignedMessage } from '../wire/http-signature.ts'
import type { PublishedKey } from '../wire/keys.ts'
import { AUTHORITY_PATH } from '../wire/names.ts'
import { Refusal } from '../wire/refusal.ts'
import { outage } from './deadline.ts'

export interface AuthorityGuardOptions {
  jwks: JwksCache
  signatureBase: SignatureBase
  /** Milliseconds since the epoch. */
  clock: () => number
}

/** Answers which of the authorities signed the request. Refuses 401 `invalid_token` where none did. */
export type AuthorityGuard = (request: FastifyRequest, authorities: readonly string[]) => Promise<string>

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
    // Whoever could not be judged may have been the signer.
    if (unreachable !== undefined)
      throw outage('The keys of an authority could not be fetched: ask again.', unreachable)
    throw refusal ?? new Refusal('invalid_token', "Sign the request with a key of the owner's authority.")
  }
}

async function verifyAs(
  message: SignedMessage,
  authority: string,
  options: AuthorityGuardOptions,
): Promise<void> {
  const url = authority + AUTHORITY_PATH.jwks
  const keys = await options.jwks.keys(url)
  const missing = new Set<string>()
  try {
    verifyWith(keys, missing, message, options)
  } catch (error) {
    // A keyid that is not among them may be a key just rotated in.
    const looked = await Promise.all([...missing].map(kid => options.jwks.find(url, kid)))
    const rotatedIn = looked.filter(key => key !== undefined)
    if (rotatedIn.length === 0) throw error
    verifyWith(rotatedIn, new Set(), message, options)
  }
}

function verifyWith(
  keys: readonly PublishedKey[],
  missing: Set<string>,
  message: SignedMessage,
  { clock }: AuthorityGuardOptions,
): void {
  verifyRequest(message, {
    requiredComponents: ['@method', '@authority', '@path'],
    now: Math.floor(clock() / 1000),
    keyidRequired: true,
    absentAuthorizationIsEmpty: true,
    mustCoverDigest: true,
    findKey: keyid => {
      const found = keys.find(key => key.kid === keyid || key.thumbprint === keyid)
      if (found === undefined && keyid !== undefined) missing.add(keyid)
      return found
    },
  })
}
