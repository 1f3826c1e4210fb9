/**
 * Owns compact JWS signed with Ed25519, and the checks every signed document shares. Contract: "Algorithms";
 * RFC 7515, 7519, 8725. `typ` distinguishes the kinds, so that one kind never passes for another. Keys come
 * from the caller, never from `jku`/`x5u`.
 */
import { decodeBase64url, encodeBase64url } from '../encoding.ts'
import { parseJsonObject, type JsonObject } from '../json.ts'
import { signEd25519, verifyEd25519, type PrivateKey, type PublicKey } from './keys.ts'
import { refuse } from '../refusal.ts'

declare const verified: unique symbol

/** A value whose signature was checked; only this folder makes one. */
export type Verified<T> = T & { readonly [verified]: true }

/**
 * The parts of a signature. `header` members follow `alg`, `typ`, `kid`; `kid: false` leaves the kid out.
 */
export interface JwsContent {
  typ?: string
  kid?: string | false
  header?: object
  payload: object
}

/** A parsed compact JWS, not verified yet. `signingInput` is `protectedText` + `.` + the payload as sent. */
export interface UnverifiedJws {
  readonly compact: string
  readonly header: JsonObject
  readonly payload: JsonObject
  readonly protectedText: string
  readonly signingInput: string
  readonly signature: Buffer
}

/** A JWS whose signature was made by `key`. */
export interface VerifiedJws {
  readonly compact: string
  readonly header: JsonObject
  readonly payload: JsonObject
  readonly key: PublicKey
}

/** Finds the key that should have signed, from a header and payload that are not verified yet. */
export type KeyFinder = (header: JsonObject, payload: JsonObject) => PublicKey | undefined

/**
 * `typ` is compared without regard to case and to an `application/` prefix; `typAlias` is another name of the
 * same kind; `typOptional` allows it to be absent, but not to be different.
 */
export interface JwsExpectation {
  typ: string
  typAlias?: string | undefined
  typOptional?: boolean
  maxBytes?: number
}

const COMPACT_BYTES_MAX = 32 * 1024

/**
 * The compact JWS of a JSON payload. The header has `alg` as the key names it, `typ`, `kid`, then the rest as
 * given.
 */
export function signJws(content: JwsContent, key: PrivateKey): string {
  const header = {
    alg: key.alg,
    ...(content.typ === undefined ? {} : { typ: content.typ }),
    ...(content.kid === false ? {} : { kid: content.kid ?? key.kid }),
    ...content.header,
  }
  const signingInput = `${encodeBase64url(JSON.stringify(header))}.${encodeBase64url(JSON.stringify(content.payload))}`
  return `${signingInput}.${encodeBase64url(signEd25519(Buffer.from(signingInput), key))}`
}

/**
 * The parts of a compact JWS (RFC 7515 §7.1), each strictly decoded. Refuses (`invalid_request`) another
 * number of parts, lax base64url or JSON, a payload that is no object, `crit`, `b64`, an `alg` other than
 * `Ed25519`/`EdDSA`, a signature not of 64 bytes, and more than `maxBytes` (default 32 KiB).
 */
export function parseJws(compact: string, maxBytes = COMPACT_BYTES_MAX): UnverifiedJws {
  if (compact.length > maxBytes)
    refuse('invalid_request', `Keep the signed document within ${maxBytes} bytes.`)
  const parts = compact.split('.', 4)
  const [protectedText, payloadText, signatureText] = parts
  if (parts.length !== 3)
    refuse('invalid_request', 'Send a compact JWS: three base64url parts joined by dots.')
  const header = parseJsonObject(decodeBase64url(protectedText!))
  checkHeader(header)
  const signature = decodeBase64url(signatureText!)
  if (signature.length !== 64) refuse('invalid_request', 'Sign with Ed25519: the signature has 64 bytes.')
  return {
    compact,
    header,
    payload: parseJsonObject(decodeBase64url(payloadText!)),
    protectedText: protectedText!,
    signingInput: `${protectedText}.${payloadText}`,
    signature,
  }
}

/**
 * The document, once its `typ` is the expected one and its signature is by the key given or found. Refuses
 * with `invalid_request`; checks no claim (see `checkClaims`).
 */
export function verifyJws(
  jws: string | UnverifiedJws,
  keyOrFinder: PublicKey | KeyFinder,
  expected: JwsExpectation,
): Verified<VerifiedJws> {
  const parsed = typeof jws === 'string' ? parseJws(jws, expected.maxBytes) : jws
  const { header, payload, compact } = parsed
  if (!isExpectedTyp(header['typ'], expected))
    refuse('invalid_request', `Send a signed document of typ ${expected.typ}.`)
  const key = typeof keyOrFinder === 'function' ? keyOrFinder(header, payload) : keyOrFinder
  if (!key) refuse('invalid_request', 'Sign with a key the signer publishes, and name it by kid.')
  if (!verifyEd25519(Buffer.from(parsed.signingInput), parsed.signature, key)) {
    refuse(
      'invalid_request',
      `Sign the ${expected.typ} document with the key it is bound to: the signature does not verify.`,
    )
  }
  const document: VerifiedJws = { compact, header, payload, key }
  return document as Verified<VerifiedJws>
}

/**
 * A finder over published keys: by `kid` if the header names one, otherwise the only key that there is.
 * Several keys under one `kid` find nothing.
 */
export function findByKid(keys: readonly (PublicKey & { kid: string | undefined })[]): KeyFinder {
  return header => {
    const kid = header['kid']
    const named = kid === undefined ? keys : keys.filter(key => key.kid === kid)
    return named.length === 1 ? named[0] : undefined
  }
}

/** The values that `checkClaims` compares a payload with. Times are seconds since the epoch. */
export interface ClaimExpectation {
  iss?: string
  aud?: string
  now: number
  skewSeconds?: number
  requireExp?: boolean
}

/**
 * The registered claims of RFC 7519 §4.1. `iss` must equal, `aud` (string or array) must contain the expected
 * one; a token is refused from the second of `exp` on, with no allowance; `nbf` and `iat` may be
 * `skewSeconds` (default
 * 60) ahead, for clocks that differ. A time that is present must be a finite number. Refuses with
 * `invalid_request`.
 */
export function checkClaims(payload: JsonObject, expected: ClaimExpectation): void {
  const { iss, aud, now, skewSeconds = 60, requireExp = false } = expected
  if (iss !== undefined && payload['iss'] !== iss)
    refuse('invalid_request', `Send a document issued by ${iss}.`)
  if (aud !== undefined && !isAudience(payload['aud'], aud))
    refuse('invalid_request', `Send a document for the audience ${aud}.`)
  const exp = timeClaim(payload, 'exp')
  if (requireExp && exp === undefined) refuse('invalid_request', 'Put an exp into the document.')
  if (exp !== undefined && now >= exp) refuse('invalid_request', 'Get a new document: this one has expired.')
  for (const name of ['nbf', 'iat']) {
    const time = timeClaim(payload, name)
    if (time !== undefined && time > now + skewSeconds)
      refuse('invalid_request', `Send a document whose ${name} is not ahead of time.`)
  }
}

/**
 * The value of a time claim; undefined if it is absent. Refuses (`invalid_request`) anything but a finite
 * number.
 */
export function timeClaim(payload: JsonObject, name: string): number | undefined {
  const value = Object.hasOwn(payload, name) ? payload[name] : undefined
  if (value === undefined) return undefined
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    refuse('invalid_request', `Give ${name} as a number of seconds since the epoch.`)
  }
  return value
}

function checkHeader(header: JsonObject): void {
  const { alg, typ, kid } = header
  if (alg !== 'Ed25519' && alg !== 'EdDSA') refuse('invalid_request', 'Sign with alg EdDSA or Ed25519.')
  if (Object.hasOwn(header, 'crit') || Object.hasOwn(header, 'b64')) {
    refuse('invalid_request', 'Leave crit and b64 out of the JWS header: no extension is understood here.')
  }
  if (typ !== undefined && typeof typ !== 'string') refuse('invalid_request', 'Give typ as a string.')
  if (kid !== undefined && typeof kid !== 'string') refuse('invalid_request', 'Give kid as a string.')
}

/** Whether the `typ` of a header is the expected one, for a reader that has no key to verify with. */
export function isExpectedTyp(typ: unknown, expected: JwsExpectation): boolean {
  if (typ === undefined) return expected.typOptional === true
  if (typeof typ !== 'string') return false
  const kind = typ.toLowerCase().replace(/^application\//, '')
  return kind === expected.typ.toLowerCase() || kind === expected.typAlias?.toLowerCase()
}

function isAudience(claim: unknown, aud: string): boolean {
  return (
    claim === aud ||
    (Array.isArray(claim) && claim.every(one => typeof one === 'string') && claim.includes(aud))
  )
}
