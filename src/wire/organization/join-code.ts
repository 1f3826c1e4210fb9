/**
 * Owns the codes by which people join an organization. Contract: "The organization's authority" (join by
 * invitation or shared code).
 */
import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { encodeBase64url, sha256 } from '../encoding.ts'
import type { PrivateKey } from '../signatures/keys.ts'

const CODE_FORM = /^inv_([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{43})$/
const CODE_ID_BYTES = 12
const SECRET_BYTES = 32

/** A name for a new invitation. */
export function newCodeId(): string {
  return encodeBase64url(randomBytes(CODE_ID_BYTES))
}

/**
 * The code of an invitation, made from its name and a signing key (HKDF, HMAC). So only its hash is kept, and
 * it can still be given to the authority of the invited person.
 */
export function invitationCode(code_id: string, key: PrivateKey): string {
  const seed = key.privateKeyObject.export({ format: 'der', type: 'pkcs8' })
  const secret = Buffer.from(hkdfSync('sha256', seed, 'usher invitation v1', key.thumbprint, SECRET_BYTES))
  return `inv_${code_id}.${encodeBase64url(createHmac('sha256', secret).update(code_id).digest())}`
}

/**
 * The invitation that a code belongs to, by its form alone; undefined for any other text, which may be the
 * shared code.
 */
export function codeIdOf(code: string): string | undefined {
  return CODE_FORM.exec(code)?.[1]
}

/** A new shared code. */
export function newJoinCode(): string {
  return `join_${encodeBase64url(randomBytes(SECRET_BYTES))}`
}

/** Whether a code has this hash; the comparison always takes the same time. */
export function isCode(code: string, hash: Buffer): boolean {
  return timingSafeEqual(sha256(code), hash)
}
