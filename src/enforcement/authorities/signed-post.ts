/**
 * Owns the requests that a resource server signs with the key that it publishes: to its owner's authority,
 * and to an organization above her. Contract: "Resource server establishment: POST `/rs/register`" and
 * "Authentication" (resource server at the token endpoint, enforcement point at the organization).
 */
import type { OutboundRequest } from '../../http/outbound.ts'
import { contentDigest } from '../../wire/encoding.ts'
import type { PrivateKey } from '../../wire/keys.ts'
import { signSent } from '../../wire/sent-request.ts'

/**
 * A POST that covers method, authority, path, the body's digest, and `authorization`, which it sends empty: a
 * verifier that wants that field covered need not know how an absent one reads. `clock` is in milliseconds
 * since the epoch.
 */
export function signedPost(
  request: { url: string; contentType: string; body: string },
  key: PrivateKey,
  clock: () => number,
): OutboundRequest {
  const { url, contentType, body } = request
  const headers: Record<string, string> = {
    'content-type': contentType,
    accept: 'application/json',
    authorization: '',
    'content-digest': contentDigest(body),
  }
  const signed = signSent({ method: 'POST', url: new URL(url), headers }, key, { created: secondsOf(clock) })
  // Whoever takes such a request takes it again within its window, and changes nothing the second time.
  return { method: 'POST', url, headers: { ...headers, ...signed }, body, repeatable: true }
}

/** A GET that covers method, authority and path. `clock` is in milliseconds since the epoch. */
export function signedGet(url: string, key: PrivateKey, clock: () => number): OutboundRequest {
  const headers = { accept: 'application/json' }
  const signed = signSent({ method: 'GET', url: new URL(url), headers }, key, { created: secondsOf(clock) })
  return { method: 'GET', url, headers: { ...headers, ...signed } }
}

function secondsOf(clock: () => number): number {
  return Math.floor(clock() / 1000)
}
