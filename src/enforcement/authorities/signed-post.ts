/**
 * Owns the requests that a resource server signs with the key that it publishes: to its owner's authority,
 * and to an organization above her. Contract: "Resource server establishment: POST `/rs/register`" and
 * "Authentication" (resource server at the token endpoint, enforcement point at the organization).
 */
import type { OutboundRequest } from '../../http/outbound/outbound.ts'
import type { PrivateKey } from '../../wire/signatures/keys.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'

/**
 * A POST that covers method, authority, path, the body's digest, and `authorization`, which it sends empty.
 * `clock` is in milliseconds since the epoch.
 */
export function signedPost(
  request: { url: string; contentType: string; body: string },
  key: PrivateKey,
  clock: () => number,
): OutboundRequest {
  const { url, contentType, body } = request
  const fields = { 'content-type': contentType, accept: 'application/json', authorization: '' }
  const sent = { method: 'POST', url: new URL(url), headers: fields, body }
  const headers = signedFields(sent, key, { created: secondsOf(clock) })
  // A server that accepts such a request accepts it again within its window, and changes nothing the second
  // time.
  return { method: 'POST', url, headers, body, repeatable: true }
}

/** A GET that covers method, authority and path. `clock` is in milliseconds since the epoch. */
export function signedGet(url: string, key: PrivateKey, clock: () => number): OutboundRequest {
  const sent = { method: 'GET', url: new URL(url), headers: { accept: 'application/json' } }
  return { method: 'GET', url, headers: signedFields(sent, key, { created: secondsOf(clock) }) }
}

function secondsOf(clock: () => number): number {
  return Math.floor(clock() / 1000)
}
