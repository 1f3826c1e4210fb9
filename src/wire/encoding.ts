/**
 * Owns the byte spellings of the protocol: strict base64url, SHA-256 identifiers (`s256:`), and body digests.
 *
 * Contract: "Challenge (beat 1)" and "RPT claims" (`s256:<hash>`); RFC 4648 §5; RFC 9530 (Content-Digest).
 * One value has one spelling here: every decoder re-encodes and compares, because Node's own decoders skip
 * junk silently.
 */
import { hash } from 'node:crypto'
import { canonicalize, type Json } from './json.ts'
import { refuse } from './refusal.ts'
import { parseDictionaryField } from './signatures/structured-fields.ts'

/** Base64url without padding (RFC 4648 §5). A string is encoded as its UTF-8 bytes. */
export function encodeBase64url(bytes: Uint8Array | string): string {
  return toBuffer(bytes).toString('base64url')
}

/**
 * The bytes of an unpadded base64url text; refuses (`invalid_request`) every other spelling of the same
 * bytes: padding, the `+/` alphabet, blanks, non-zero trailing bits. RFC 7515 §2 and the one-handle-per-key
 * rule depend on it.
 */
export function decodeBase64url(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  // Re-encoding is the whole check: its output uses only the strict alphabet, so any junk in `text` makes the
  // two differ.
  if (bytes.toString('base64url') !== text) {
    refuse('invalid_request', 'Send canonical base64url: no padding, no blanks, only A-Z a-z 0-9 - and _.')
  }
  return bytes
}

/** SHA-256 digest, 32 bytes. A string is hashed as its UTF-8 bytes. */
export function sha256(content: Uint8Array | string): Buffer {
  // A buffer of its own, which `hash` would make, costs as much again as the hash.
  return Buffer.from(hash('sha256', content, 'binary'), 'binary')
}

/** Writes the same digest into a buffer, from the byte `at` on. */
export function writeSha256(content: Uint8Array | string, into: Buffer, at: number): void {
  into.write(hash('sha256', content, 'binary'), at, 'binary')
}

/** The same digest as base64 text, for a name under which something is kept: it makes no buffer. */
export function sha256Text(content: Uint8Array | string): string {
  return hash('sha256', content, 'base64')
}

/**
 * `s256:` + unpadded base64url of SHA-256 over the bytes (contract, "RPT claims": `contract`, `params_s256`).
 */
export function s256(content: Uint8Array | string): string {
  return `s256:${hash('sha256', content, 'base64url')}`
}

/** `s256` over the RFC 8785 canonical form of a JSON value (`params_s256`, `authorization_reference`). */
export function s256Json(json: Json): string {
  return s256(canonicalize(json))
}

/** The `Content-Digest` field value for a body, `sha-256=:…:` (RFC 9530 §2). */
export function contentDigest(body: Uint8Array | string): string {
  return `sha-256=:${hash('sha256', body, 'base64')}:`
}

/**
 * Compares a `Content-Digest` field value with its body (RFC 9530 §2). Only `sha-256` and `sha-512` count: at
 * least one must be there, and each that is there must match. The deprecated algorithms prove nothing and are
 * ignored. Refuses with `invalid_request`.
 */
export function checkContentDigest(fieldValue: string, body: Uint8Array): void {
  const members = parseDictionaryField([fieldValue])
  if (!members)
    refuse('invalid_request', 'Send Content-Digest as a structured dictionary, sha-256=:…: (RFC 9530).')
  let matched = false
  for (const algorithm of ['sha-256', 'sha-512']) {
    const member = members.get(algorithm)
    if (!member) continue
    const expected = `:${hash(algorithm.replace('-', ''), body, 'base64')}:`
    if (member.raw !== expected)
      refuse('invalid_request', `The ${algorithm} digest in Content-Digest is not this body's.`)
    matched = true
  }
  if (!matched)
    refuse('invalid_request', 'Put a sha-256 or sha-512 digest of the body in Content-Digest (RFC 9530).')
}

function toBuffer(bytes: Uint8Array | string): Buffer {
  if (typeof bytes === 'string') return Buffer.from(bytes, 'utf8')
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
