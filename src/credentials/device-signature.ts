/**
 * The RFC 9421 signature of a request by a person's device key: what it must cover, and which key made it.
 * Contract: "Authentication" (owner at the owner API: a required body digest on any request with a body).
 */
import { verifyRequest, type SignedMessage } from '../wire/signatures/http-signature.ts'
import type { PublicKey } from '../wire/signatures/keys.ts'
import { Refusal } from '../wire/refusal.ts'
import { refusedSignature, type Space } from './presentation.ts'

const KEYIDS_MAX = 4

/** When it is judged, in seconds since the epoch, and the address that the request came to. */
export interface SignatureContext {
  now: number
  space: Space
}

/**
 * The keyids that the signatures name: the verifier reports which keys it would look up if it is given no
 * key.
 */
export function namedKeyids(message: SignedMessage, judged: SignatureContext): string[] {
  const named = new Set<string>()
  try {
    verifyDeviceSignature(message, judged, keyid => void named.add(keyid))
  } catch (error) {
    if (named.size === 0) throw error
  }
  return [...named].slice(0, KEYIDS_MAX)
}

/**
 * The one signature by a key that `find` knows. Throws 401 `invalid_credential`, saying what is wrong and the
 * `@authority` expected.
 */
export function verifyDeviceSignature(
  message: SignedMessage,
  { now, space }: SignatureContext,
  find: (keyid: string) => PublicKey | undefined | void,
): { key: PublicKey; signature: Buffer } {
  try {
    return verifyRequest(message, {
      requiredComponents: ['@method', '@authority', '@path'],
      mustCoverDigest: true,
      absentAuthorizationIsEmpty: true,
      keyidRequired: true,
      now,
      findKey: keyid => (keyid === undefined ? undefined : (find(keyid) ?? undefined)),
    })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    // The configured address, which every discovery document names, because a signature over another address
    // is the most common fault.
    const signed = `The @authority to sign is ${message.authority}.`
    throw refusedSignature(space, error.detail === undefined ? signed : `${error.detail} ${signed}`, error)
  }
}
