/**
 * Owns the file in which others pin an owner's public keys, `{"keys": [JWK, …]}`. Contract: "Algorithms" and
 * "Owner API" (`/owner/pending/{family}/decision`); docs/choices.md. Her authority has no part in it: the
 * keeper of the file got the keys from her.
 */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { sha256 } from '../encoding.ts'
import { isJsonObject, parseJsonObject, type Json } from '../json.ts'
import { importPublicJwk, isCanonical32, type PublicKey } from './keys.ts'
import { asObject, optionalText, textMember, textsMember } from '../json-members.ts'
import { thumbprintInput } from '../passkeys/passkey-claims.ts'
import { refuse } from '../refusal.ts'

/**
 * The `surface` of a key that was made in a page which the authority serves, so that code of the authority
 * could use it.
 */
export const SERVED = 'served'

/** `id` is its credential id, `thumbprint` that of RFC 7638; it signs only at `origins` and for `rp_id`. */
export interface PinnedPasskey {
  readonly id: string
  readonly thumbprint: string
  readonly keyObject: KeyObject
  readonly rp_id: string
  readonly origins: readonly string[]
}

/** The keys of one file; `served` are the thumbprints of keys that code served by the authority can use. */
export interface PinnedKeys {
  readonly devices: readonly PublicKey[]
  readonly passkeys: readonly PinnedPasskey[]
  readonly served: readonly string[]
}

/** The keys of a file without any. */
export const NO_PINNED_KEYS: PinnedKeys = { devices: [], passkeys: [], served: [] }

/**
 * Reads a whole file: Ed25519 keys, and P-256 ones with `kid`, `rp_id` and `origins`; each may say `surface`.
 * Refuses (`invalid_request`) a file without a key, and one in which any key cannot be used, because a
 * mistyped key belongs to nobody.
 */
export function parsePinnedKeys(bytes: string | Uint8Array): PinnedKeys {
  const { keys } = parseJsonObject(bytes)
  if (!Array.isArray(keys) || keys.length === 0) refuse('invalid_request', 'Give {"keys": [public JWK, …]}.')
  const devices: PublicKey[] = []
  const passkeys: PinnedPasskey[] = []
  const served: string[] = []
  for (const jwk of keys) {
    if (!isJsonObject(jwk)) refuse('invalid_request', 'Give each key as a JWK object.')
    const key = jwk['kty'] === 'EC' ? readPasskey(jwk) : importPublicJwk(jwk)
    if ('rp_id' in key) passkeys.push(key)
    else devices.push(key)
    if (optionalText(jwk, 'surface') === SERVED) served.push(key.thumbprint)
  }
  return { devices, passkeys, served }
}

/**
 * The passkeys among the members of a JWKS; other members are ignored. Refuses (`invalid_request`) one that
 * cannot be used.
 */
export function readPasskeys(jwks: Json): PinnedPasskey[] {
  const keys = isJsonObject(jwks) && Array.isArray(jwks['keys']) ? jwks['keys'] : []
  return keys
    .filter(key => isJsonObject(key) && key['kty'] === 'EC' && Object.hasOwn(key, 'rp_id'))
    .map(readPasskey)
}

/** One of them. Refuses (`invalid_request`) what is no P-256 key with `kid`, `rp_id` and `origins`. */
export function readPasskey(value: Json): PinnedPasskey {
  const jwk = asObject(value, 'a passkey')
  if (jwk['crv'] !== 'P-256') refuse('invalid_request', 'Give a passkey as kty EC, crv P-256.')
  if (Object.hasOwn(jwk, 'd')) refuse('invalid_request', 'Give only the public half of a passkey.')
  const [x, y] = [textMember(jwk, 'x'), textMember(jwk, 'y')]
  if (![x, y].every(isCanonical32))
    refuse('invalid_request', 'Give `x` and `y` as 32 bytes of canonical unpadded base64url each.')
  const origins = textsMember(jwk, 'origins')
  if (origins.length === 0) refuse('invalid_request', 'Give the origins at which the passkey signs.')
  return {
    id: textMember(jwk, 'kid'),
    thumbprint: sha256(thumbprintInput({ x, y })).toString('base64url'),
    keyObject: importPoint(x, y),
    rp_id: textMember(jwk, 'rp_id'),
    origins,
  }
}

function importPoint(x: string, y: string): KeyObject {
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' })
  } catch (cause) {
    return refuse('invalid_request', 'Give a point of the curve P-256.', { cause })
  }
}
