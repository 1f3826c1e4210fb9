/**
 * Owns the step from a received request to the message whose RFC 9421 signature is checked. Contract:
 * "Authorized call": the signature base is rebuilt from configured values, never from Host or forwarded
 * headers.
 */
import type { SignedMessage } from '../../wire/signatures/http-signature.ts'

/** What signatures cover at this listener: the scheme and authority of the party's public URL. */
export interface SignatureBase {
  scheme: 'http' | 'https'
  authority: string
}

/** A request as Node received it; `rawBody` are its body's bytes, undefined if there is none. */
export interface SignedRequest {
  raw: { method?: string | undefined; url?: string | undefined; rawHeaders: string[] }
  rawBody?: Buffer | undefined
}

/**
 * Scheme and authority of a configured URL; the authority in lower case, without a default port (RFC 9421
 * §2.2.3).
 */
export function signatureBase(publicUrl: string): SignatureBase {
  const { protocol, host } = new URL(publicUrl)
  return { scheme: protocol === 'http:' ? 'http' : 'https', authority: host }
}

/**
 * The message as it was signed: method, raw path and query, header lines as they came, body bytes; scheme and
 * authority are the configured ones.
 */
export function signedMessage(request: SignedRequest, base: SignatureBase): SignedMessage {
  const target = request.raw.url ?? '/'
  const at = target.indexOf('?')
  return {
    method: request.raw.method ?? '',
    ...base,
    path: at < 0 ? target : target.slice(0, at),
    ...(at < 0 ? {} : { query: target.slice(at + 1) }),
    headers: headerLines(request.raw.rawHeaders),
    ...(request.rawBody === undefined ? {} : { body: request.rawBody }),
  }
}

function headerLines(rawHeaders: string[]): Map<string, string[]> {
  const lines = new Map<string, string[]>()
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase()
    const values = lines.get(name)
    if (values === undefined) lines.set(name, [rawHeaders[i + 1]!])
    else values.push(rawHeaders[i + 1]!)
  }
  return lines
}
