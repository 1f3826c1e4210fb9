/**
 * Owns the verification of a request with keys that its sender publishes. Contract: "Authentication": the
 * signature names a key; an unknown key may have been rotated in, so the keys are fetched once more.
 */
import {
  verifyRequest,
  type SignedMessage,
  type VerificationOptions,
  type VerifiedSignature,
} from '../../wire/signatures/http-signature.ts'
import { keyNamed, type PublishedKey } from '../../wire/signatures/keys.ts'

export interface KeySource {
  /** The published keys, as known. Throws what fetching them threw. */
  keys(): Promise<readonly PublishedKey[]>
  /** The key with this kid or thumbprint after another fetch, if one is due; undefined if there is none. */
  find(kid: string): Promise<PublishedKey | undefined>
}

/** Requirements for the signature; the components are those of every request between servers. */
export type PublishedKeyOptions = Pick<VerificationOptions, 'now'>

/**
 * The verified signature of a request between servers: `@method`, `@authority`, `@path`, a body's digest, and
 * a keyid. Refuses `invalid_token`, 401; throws what `source` throws.
 */
export async function verifyByPublishedKeys(
  message: SignedMessage,
  source: KeySource,
  options: PublishedKeyOptions,
): Promise<VerifiedSignature> {
  const missing = new Set<string>()
  try {
    return verifyWith(await source.keys(), missing, message, options)
  } catch (error) {
    // An unknown keyid may be a key that was just rotated in.
    const looked = await Promise.all([...missing].map(kid => source.find(kid)))
    const rotatedIn = looked.filter(key => key !== undefined)
    if (rotatedIn.length === 0) throw error
    return verifyWith(rotatedIn, new Set(), message, options)
  }
}

function verifyWith(
  keys: readonly PublishedKey[],
  missing: Set<string>,
  message: SignedMessage,
  { now }: PublishedKeyOptions,
): VerifiedSignature {
  return verifyRequest(message, {
    requiredComponents: ['@method', '@authority', '@path'],
    now,
    keyidRequired: true,
    absentAuthorizationIsEmpty: true,
    mustCoverDigest: true,
    findKey: keyid => {
      const found = keyid === undefined ? undefined : keyNamed(keys, keyid)
      if (found === undefined && keyid !== undefined) missing.add(keyid)
      return found
    },
  })
}
