/**
 * Owns the codes by which people join an organization. contract, "The organization's authority" (join by invitation or shared code).
 */
import { createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { encodeBase64url } from './encoding.ts'
import type { PrivateKey } from './keys.ts'

const CODE_ID_BYTES = 12
const SECRET_BYTES = 32

/** A name for a new invitation. */
export function newCodeId(): string {
  return encodeBase64url(randomBytes(CODE_ID_BYTES))
}

/**
 * The code of an invitation, made from its name and a signing key (HKDF, HMAC): so that only its hash is kept, and it can still be told to
 * the authority of the person who was invited.
 */
export function invitationCode(code_id: string, key: PrivateKey): string {
  const seed = key.privateKeyObject.export({ format: 'der', type: 'pkcs8' })
  const secret = Buffer.from(hkdfSync('sha256', seed, 'usher invitation v1', key.thumbprint, SECRET_BYTES))
  return `inv_${code_id}.${encodeBase64url(createHmac('sha256', secret).update(code_id).digest())}`
}

/** A new shared code. */
export function newJoinCode(): string {
  return `join_${encodeBase64url(randomBytes(SECRET_BYTES))}`
}
