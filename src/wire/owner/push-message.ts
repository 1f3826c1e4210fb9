/**
 * Owns Web Push messages: encrypted for one browser (RFC 8291, `aes128gcm` of RFC 8188), and sent in the name
 * of one installation (VAPID, RFC 8292). Contract: "Owner API"; a push service is not one of its parties.
 */
import { createCipheriv, createECDH, hkdfSync, randomBytes, sign } from 'node:crypto'
import { sha256 } from '../encoding.ts'
import type { NotificationKey } from './notification-key.ts'

const CURVE = 'prime256v1'
/** One record, so any size that holds it is possible; this is the size of the RFC's example. */
const RECORD_BYTES = 4096
/** Push services may refuse more than 4,096 bytes in all. */
const PLAINTEXT_BYTES_MAX = 3_000
/** Shorter than the 24 hours that the RFC allows, because clocks differ. */
const PROOF_SECONDS = 12 * 3600
/** How long a push service keeps a message for a browser that is offline. */
const PUSH_TTL_SECONDS = 86_400

/** The keys of a browser's subscription (`PushSubscription.toJSON().keys`), as bytes. */
export interface BrowserKeys {
  p256dh: Buffer
  auth: Buffer
}

/** Those bytes; undefined if no message could be encrypted for them. */
export function browserKeys({ p256dh, auth }: { p256dh: string; auth: string }): BrowserKeys | undefined {
  const keys = { p256dh: Buffer.from(p256dh, 'base64url'), auth: Buffer.from(auth, 'base64url') }
  if (keys.p256dh.length !== 65 || keys.p256dh[0] !== 4 || keys.auth.length !== 16) return undefined
  try {
    const probe = createECDH(CURVE)
    probe.generateKeys()
    probe.computeSecret(keys.p256dh)
    return keys
  } catch {
    return undefined
  }
}

/** New for each message; only tests pass it in. */
export interface Fresh {
  salt: Buffer
  privateKey: Buffer
}

/** The body of a push message that only this browser can read. */
export function encryptPush(plaintext: string, { p256dh, auth }: BrowserKeys, fresh?: Fresh): Buffer {
  const bytes = Buffer.from(plaintext)
  if (bytes.length > PLAINTEXT_BYTES_MAX) throw new RangeError('a push message is short')
  const own = createECDH(CURVE)
  if (fresh === undefined) own.generateKeys()
  else own.setPrivateKey(fresh.privateKey)
  const salt = fresh?.salt ?? randomBytes(16)
  const sender = own.getPublicKey()
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), p256dh, sender])
  const secret = derive(own.computeSecret(p256dh), { salt: auth, info, length: 32 })
  const encoded = (name: string): Buffer => Buffer.from(`Content-Encoding: ${name}\0`)
  const key = derive(secret, { salt, info: encoded('aes128gcm'), length: 16 })
  const nonce = derive(secret, { salt, info: encoded('nonce'), length: 12 })
  const cipher = createCipheriv('aes-128-gcm', key, nonce)
  const size = Buffer.alloc(4)
  size.writeUInt32BE(RECORD_BYTES)
  // The octet 2 ends the last record.
  const sealed = [cipher.update(bytes), cipher.update(Buffer.of(2)), cipher.final(), cipher.getAuthTag()]
  return Buffer.concat([salt, size, Buffer.of(sender.length), sender, ...sealed])
}

function derive(
  secret: Buffer,
  { salt, info, length }: { salt: Buffer; info: Buffer; length: number },
): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, length))
}

export interface PushHeaders {
  endpoint: string
  /** The sender, as push services reach it: an https or mailto URL. */
  contact: string
  /** Seconds since the epoch. */
  at: number
  /** Replaces a message of the same topic that was not fetched yet. */
  topic: string
}

/** The headers of a push message: its sender, how long it is kept, and what it replaces. */
export function pushHeaders(key: NotificationKey, of: PushHeaders): Record<string, string> {
  const { endpoint, contact, at, topic } = of
  const part = (json: object): string => Buffer.from(JSON.stringify(json)).toString('base64url')
  const claims = { aud: new URL(endpoint).origin, exp: at + PROOF_SECONDS, sub: contact }
  const signed = `${part({ typ: 'JWT', alg: 'ES256' })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(signed), { key: key.privateKey, dsaEncoding: 'ieee-p1363' })
  const proof = `${signed}.${signature.toString('base64url')}`
  return {
    authorization: `vapid t=${proof}, k=${key.publicBytes.toString('base64url')}`,
    'content-encoding': 'aes128gcm',
    'content-type': 'application/octet-stream',
    ttl: String(PUSH_TTL_SECONDS),
    topic: sha256(topic).toString('base64url').slice(0, 32),
    urgency: 'high',
  }
}
