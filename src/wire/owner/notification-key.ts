/**
 * Owns the key of an installation's notifications: a P-256 key that identifies it to push services
 * (RFC 8292), and from which the secret of each webhook is derived, so that none is stored. Contract: "Owner
 * API", "Algorithms" (nothing of the contract is signed with it).
 */
import { createECDH, createPrivateKey, generateKeyPairSync, hkdfSync, type KeyObject } from 'node:crypto'
import { isJsonObject } from '../json.ts'
import { refuse } from '../refusal.ts'

/** A private P-256 key as its file has it. */
export interface NotificationJwk {
  kty: 'EC'
  crv: 'P-256'
  x: string
  y: string
  d: string
}

export interface NotificationKey {
  readonly privateKey: KeyObject
  /** The public point, uncompressed, 65 bytes: a browser gets it as `applicationServerKey`. */
  readonly publicBytes: Buffer
  /** The key from which secrets of webhooks are derived. */
  readonly root: Buffer
}

/** A new one. */
export function generateNotificationJwk(): NotificationJwk {
  const { x, y, d } = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })
  return { kty: 'EC', crv: 'P-256', x: x!, y: y!, d: d! }
}

/**
 * The key of a private JWK. Refuses (`invalid_request`) another kind of key, and a point that does not belong
 * to `d`.
 */
export function importNotificationKey(jwk: unknown): NotificationKey {
  if (!isJsonObject(jwk) || jwk['kty'] !== 'EC' || jwk['crv'] !== 'P-256')
    refuse('invalid_request', 'Give a private P-256 key as a JWK: kty EC, crv P-256.')
  const [x, y, d] = [bytesOf(jwk['x']), bytesOf(jwk['y']), bytesOf(jwk['d'])]
  const publicBytes = Buffer.concat([Buffer.of(4), x, y])
  try {
    // Node takes d and the point of a JWK as they come, without checking that they belong together.
    const derived = createECDH('prime256v1')
    derived.setPrivateKey(d)
    if (!derived.getPublicKey().equals(publicBytes)) throw new Error('another point')
    const key = { kty: 'EC', crv: 'P-256', x: text(x), y: text(y), d: text(d) }
    return { privateKey: createPrivateKey({ key, format: 'jwk' }), publicBytes, root: d }
  } catch (cause) {
    return refuse('invalid_request', 'Give the `x` and `y` that belong to `d`.', { cause })
  }
}

const text = (bytes: Buffer): string => bytes.toString('base64url')

function bytesOf(member: unknown): Buffer {
  const bytes = typeof member === 'string' ? Buffer.from(member, 'base64url') : Buffer.alloc(0)
  if (bytes.length !== 32 || text(bytes) !== member)
    refuse('invalid_request', 'Give `x`, `y` and `d` as 32 bytes of unpadded base64url.')
  return bytes
}

/** The secret of one webhook, in the form that its receiver gets: `whsec_` and 32 bytes in base64. */
export function webhookSecret({ root }: NotificationKey, owner: string, id: string): string {
  const info = JSON.stringify(['usher webhook secret', owner, id])
  return `whsec_${Buffer.from(hkdfSync('sha256', root, Buffer.alloc(0), info, 32)).toString('base64')}`
}
