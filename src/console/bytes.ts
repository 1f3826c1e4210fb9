/**
 * Owns the byte encodings of the page, with what browsers have. Contract: "Algorithms".
 */

/** Base64url without padding (RFC 4648 §5); a text is encoded as its UTF-8 bytes. */
export function base64url(content: Uint8Array | string): string {
  return base64(content).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** Base64 with padding, as Structured Fields have it (RFC 9651 §3.3.5). */
export function base64(content: Uint8Array | string): string {
  let binary = ''
  for (const byte of utf8(content)) binary += String.fromCharCode(byte)
  return btoa(binary)
}

/** The UTF-8 text of base64url; undefined if it is not valid. */
export function textOfBase64url(text: string): string | undefined {
  const bytes = bytesOfBase64url(text)
  try {
    return bytes && new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** The bytes of unpadded base64url; undefined for any other spelling of them. */
export function bytesOfBase64url(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    const bytes = Uint8Array.from(binary, unit => unit.charCodeAt(0))
    return base64url(bytes) === text ? bytes : undefined
  } catch {
    return undefined
  }
}

/** SHA-256, 32 bytes. */
export async function sha256(content: Uint8Array | string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', utf8(content)))
}

/** `s256:` and the hash, as the wire names documents. */
export async function s256(content: string): Promise<string> {
  return `s256:${base64url(await sha256(content))}`
}

/** This many random bytes, in base64url. */
export function randomText(bytes: number): string {
  return base64url(crypto.getRandomValues(new Uint8Array(bytes)))
}

/** The bytes of a text. */
export function utf8(content: Uint8Array | string): Uint8Array<ArrayBuffer> {
  return typeof content === 'string' ? new TextEncoder().encode(content) : Uint8Array.from(content)
}
