/**
 * Owns the header fields by which a call proves its grant. Contract: "Authorized call": `Authorization: PoP
 * <RPT>` and a signature over the request with the key that the grant is bound to.
 */
import { POP } from '../../wire/names.ts'
import { signedFields } from '../../wire/signatures/sent-request.ts'
import type { Profile } from '../profile.ts'

/** A request as it will be sent. */
export interface ProvenRequest {
  method: string
  url: URL
  body?: string | Uint8Array | undefined
  accessToken: string
}

/**
 * The grant and its proof: the four components of the profile, the query if there is one, and the digest
 * of a body.
 */
export function signedHeaders(
  { method, url, body, accessToken }: ProvenRequest,
  { key, now }: Pick<Profile, 'key' | 'now'>,
): Record<string, string> {
  const headers = { authorization: `${POP} ${accessToken}` }
  return signedFields({ method, url, headers, body }, key, { created: now(), keyid: key.thumbprint })
}
