/**
 * Owns what receives notifications in tests: a server that records what came, the verification and reading of
 * it by other code than ours, and the setting that makes an authority send any.
 */
import { createDecipheriv, createECDH, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importJWK, jwtVerify } from 'jose'
import { afterAll } from 'vitest'
import { generateNotificationJwk } from '../../src/wire/owner/notification-key.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import type { Received } from './scripted-http.ts'

/** The settings of an authority that notifies, towards receivers on this machine. */
export function notifying(): Record<string, string> {
  const directory = mkdtempSync(join(tmpdir(), 'usher-notification-'))
  const file = join(directory, 'notification.json')
  writeFileSync(file, JSON.stringify(generateNotificationJwk()), { mode: 0o600 })
  afterAll(() => rmSync(directory, { recursive: true }))
  return { UMA_DEV_LOOPBACK: 'true', UMA_AS_NOTIFICATION_KEY_FILE: file }
}

/** What a webhook's receiver reads, once it has verified it. Fails if it is not signed with the secret. */
export function verifiedWebhook(secret: string, { headers, body }: Received): JsonObject {
  const id = String(headers['webhook-id'])
  const at = String(headers['webhook-timestamp'])
  if (Math.abs(Number(at) - Date.now() / 1_000) > 300) throw new Error('the time is another')
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${at}.${body.toString()}`).digest('base64')
  if (headers['webhook-signature'] !== `v1,${signature}`) throw new Error('the signature is another')
  return JSON.parse(body.toString()) as JsonObject
}

/** A browser that subscribed: what it tells of itself, and how it reads a push message. */
export function testBrowser() {
  const own = createECDH('prime256v1')
  own.generateKeys()
  const auth = randomBytes(16)
  const keys = { p256dh: own.getPublicKey('base64url'), auth: auth.toString('base64url') }
  const read = ({ body }: Pick<Received, 'body'>): JsonObject => {
    const [salt, sender, sealed] = [body.subarray(0, 16), body.subarray(21, 86), body.subarray(86)]
    const derive = (secret: Buffer, of: Buffer, info: Buffer, length: number) =>
      Buffer.from(hkdfSync('sha256', secret, of, info, length))
    const info = Buffer.concat([Buffer.from('WebPush: info\0'), own.getPublicKey(), sender])
    const secret = derive(own.computeSecret(sender), auth, info, 32)
    const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16)
    const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12)
    const opening = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(sealed.subarray(-16))
    const text = Buffer.concat([opening.update(sealed.subarray(0, -16)), opening.final()])
    if (text.at(-1) !== 2) throw new Error('the record does not end')
    return JSON.parse(text.subarray(0, -1).toString()) as JsonObject
  }
  return { keys, read }
}

/** The claims that a push service reads of who sends, once it has verified them (RFC 8292). */
export async function verifiedSender({ headers }: Received): Promise<{ claims: JsonObject; key: string }> {
  const [, token, key] = /^vapid t=([\w.-]+), k=([\w-]+)$/.exec(headers.authorization ?? '') ?? []
  const point = Buffer.from(key!, 'base64url')
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')]
  const jwk = await importJWK({ kty: 'EC', crv: 'P-256', x, y }, 'ES256')
  const { payload } = await jwtVerify(token!, jwk, { algorithms: ['ES256'] })
  return { claims: payload as JsonObject, key: key! }
}
