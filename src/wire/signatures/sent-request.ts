/**
 * Owns the signature over a request that is about to be sent, in the one profile that every party uses.
 * Contract: "Authentication" (request signatures): the query is covered if there is one, and so are
 * `authorization` and the digest of the body; RFC 9421 §3.1.
 */
import { randomBytes } from 'node:crypto'
import { contentDigest, encodeBase64url } from '../encoding.ts'
import { signRequest } from './http-signature.ts'
import type { PrivateKey } from './keys.ts'
import type { SigningOptions } from './request-signing.ts'

export interface SentRequest {
  method: string
  url: URL
  /**
   * Header fields by lower-case names. An empty `authorization` is covered, too: a verifier that wants that
   * field covered need not know how an absent one reads.
   */
  headers: Readonly<Record<string, string>>
  /** If its digest is not among the header fields. */
  body?: Uint8Array | string | undefined
  /** The scheme and authority that are signed, if not those of `url`. */
  origin?: URL
}

const COVERED_FIELDS = ['authorization', 'content-digest'] as const

interface SentOptions extends Pick<SigningOptions, 'created' | 'keyid'> {
  /**
   * With a nonce, for whoever takes each signature once: Ed25519 gives equal requests within one second equal
   * signatures.
   */
  once?: boolean
}

type SignedFields = Record<string, string> & { signature: string; 'signature-input': string }

/** Its header fields, with the digest of a body that is not empty, and with the two that sign it. */
export function signedFields(
  { method, url, headers: fields, body, origin = url }: SentRequest,
  key: PrivateKey,
  { once, ...options }: SentOptions,
): SignedFields {
  const headers: SentRequest['headers'] = body?.length
    ? { ...fields, 'content-digest': contentDigest(body) }
    : fields
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
  const nonce = once === true ? encodeBase64url(randomBytes(16)) : undefined
  return { ...headers, ...signRequest(message, key, { ...options, nonce, components }) }
}
