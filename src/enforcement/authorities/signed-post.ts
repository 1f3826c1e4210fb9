/**
 * Owns the requests that a resource server signs: to its owner's authority, with the key that it publishes. contract,
 * "Resource server establishment: POST `/rs/register`" and "Authentication" (resource server at the token endpoint).
 */
import type { OutboundRequest } from '../../http/outbound.ts'
import { contentDigest } from '../../wire/encoding.ts'
import { signRequest } from '../../wire/http-signature.ts'
import type { PrivateKey } from '../../wire/keys.ts'

/**
 * A POST that covers method, authority, path, the body's digest, and `authorization`, which it sends empty: a verifier that wants
 * that field covered need not know how an absent one reads. `clock` is in milliseconds since the epoch.
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
  const { protocol, host, pathname } = new URL(url)
  const signed = signRequest(
    {
      method: 'POST',
      scheme: protocol === 'http:' ? 'http' : 'https',
      authority: host,
      path: pathname,
      headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
      body: Buffer.from(body),
    },
    key,
    {
      components: ['@method', '@authority', '@path', 'authorization', 'content-digest'],
      created: Math.floor(clock() / 1000),
    },
  )
  // Whoever takes such a request takes it again within its window, and changes nothing the second time.
  return { method: 'POST', url, headers: { ...headers, ...signed }, body, repeatable: true }
}
