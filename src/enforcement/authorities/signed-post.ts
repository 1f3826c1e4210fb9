/**
 * Owns the requests that a resource server signs with the key that it publishes: to its owner's authority,
 * and to an organization above her. Contract: "Resource server establishment: POST `/rs/register`" and
 * "Authentication" (resource server at the token endpoint, enforcement point at the organization).
 */
import type { OutboundRequest } from '../../http/outbound.ts'
import { contentDigest } from '../../wire/encoding.ts'
import { signRequest } from '../../wire/http-signature.ts'
import type { PrivateKey } from '../../wire/keys.ts'

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
  const signed = signatureOf(
    { method: 'POST', url, headers, body: Buffer.from(body) },
    ['@method', '@authority', '@path', 'authorization', 'content-digest'],
    { key, clock },
  )
  // Whoever takes such a request takes it again within its window, and changes nothing the second time.
  return { method: 'POST', url, headers: { ...headers, ...signed }, body, repeatable: true }
}

/** A GET that covers method, authority and path. `clock` is in milliseconds since the epoch. */
export function signedGet(url: string, key: PrivateKey, clock: () => number): OutboundRequest {
  const headers = { accept: 'application/json' }
  const signed = signatureOf({ method: 'GET', url, headers }, ['@method', '@authority', '@path'], {
    key,
    clock,
  })
  return { method: 'GET', url, headers: { ...headers, ...signed } }
}

function signatureOf(
  {
    method,
    url,
    headers,
    body,
  }: { method: string; url: string; headers: Record<string, string>; body?: Buffer },
  components: string[],
  { key, clock }: { key: PrivateKey; clock: () => number },
): Record<string, string> {
  const { protocol, host, pathname } = new URL(url)
  const message = {
    method,
    scheme: protocol === 'http:' ? ('http' as const) : ('https' as const),
    authority: host,
    path: pathname,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
    ...(body === undefined ? {} : { body }),
  }
  return { ...signRequest(message, key, { components, created: Math.floor(clock() / 1000) }) }
}
