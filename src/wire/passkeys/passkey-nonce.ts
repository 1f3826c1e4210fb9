/**
 * Owns the nonce that a passkey signs over. Contract: "Authentication" (owner at the owner API);
 * docs/choices.md. It is a MAC, so that a stranger's request for one writes nothing; the code that accepts
 * one marks it as used.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { encodeBase64url } from '../encoding.ts'
import type { PasskeyUse } from './passkey-claims.ts'
import type { TicketKey } from '../negotiation/ticket.ts'

/** What it is for; `owner` is '' if nobody is known yet, `exp` is in seconds since the epoch. */
export interface NonceFor {
  readonly use: PasskeyUse
  readonly owner: string
  readonly exp: number
}

const RANDOM_BYTES = 16
const FORM = /^pkn_([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

/** A fresh one, `pkn_<random>.<mac>`. */
export function newPasskeyNonce(of: NonceFor, key: TicketKey): string {
  const random = encodeBase64url(randomBytes(RANDOM_BYTES))
  return `pkn_${random}.${macOf(random, of, key)}`
}

/**
 * Whether one of these keys made it for exactly this. It checks neither the time nor whether the nonce was
 * used.
 */
export function isPasskeyNonce(nonce: string, of: NonceFor, keys: readonly TicketKey[]): boolean {
  const [, random, mac] = FORM.exec(nonce) ?? []
  if (random === undefined || mac === undefined) return false
  return keys.some(key => timingSafeEqual(Buffer.from(mac), Buffer.from(macOf(random, of, key))))
}

/** A ticket's MAC covers another text, so that neither can pass for the other. */
function macOf(random: string, { use, owner, exp }: NonceFor, { secret }: TicketKey): string {
  const text = JSON.stringify(['usher passkey nonce v1', use, owner, exp, random])
  return encodeBase64url(createHmac('sha256', secret).update(text).digest())
}
