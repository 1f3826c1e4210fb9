/**
 * Owns the signature over a request that is about to be sent, in the one profile that every party uses.
 * Contract: "Authentication" (request signatures): the query is covered if there is one, and so are
 * `authorization` and the digest of the body; RFC 9421 §3.1.
 */
import { signRequest } from './http-signature.ts'
import type { PrivateKey } from './keys.ts'
import type { SigningOptions } from './request-signing.ts'

/** A request as it will be sent. */
export interface SentRequest {
  method: string
  url: URL
  /** Header fields by lower-case names. A request that covers its body has a `content-digest`. */
  headers: Readonly<Record<string, string>>
  /** The scheme and authority that are signed, if not those of `url`. */
  origin?: URL
}

const COVERED_FIELDS = ['authorization', 'content-digest'] as const

/** The two header fields that sign it. */
export function signSent(
  { method, url, headers, origin = url }: SentRequest,
  key: PrivateKey,
  options: Pick<SigningOptions, 'created' | 'nonce' | 'keyid'>,
): { signature: string; 'signature-input': string } {
  const query = url.search === '' ? undefined : url.search.slice(1)
  const message = {
    method,
    scheme: origin.protocol === 'http:' ? ('http' as const) : ('https' as const),
    authority: origin.host,
    path: url.pathname,
    query,
    headers: new Map(Object.entries(headers).map(([name, value]) => [name, [value]])),
  }
  const components = [
    '@method',
    '@authority',
    '@path',
    ...(query === undefined ? [] : ['@query']),
    ...COVERED_FIELDS.filter(name => headers[name] !== undefined),
  ]
  return signRequest(message, key, { ...options, components })
}
