/**
 * Owns Ed25519 keys: import, thumbprints, publication, and the raw signature. Contract: "Algorithms": every
 * signature is Ed25519, and the key says so, never a header; RFC 8032, 8037, 7638, 9864.
 *
 * One key has one spelling and so one handle. Node imports several spellings of `x`, and the small-order
 * points, for which anybody can sign; both are refused here, the only place where keys enter.
 */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto'
import { sha256 } from '../encoding.ts'
import { isJsonObject } from '../json.ts'
import { refuse } from '../refusal.ts'

/**
 * The names that JOSE has for Ed25519: the one of RFC 8037, which every library knows, and the newer one of
 * RFC 9864, which many do not.
 */
export type SigningAlg = 'EdDSA' | 'Ed25519'

/** A public JWK as we write it: always with `alg`, `kid` and `use` when published. */
export interface PublicJwk {
  kty: 'OKP'
  crv: 'Ed25519'
  x: string
  kid?: string
  alg: SigningAlg
  use?: 'sig'
}

/** A private JWK as we write it, with `kid` being the RFC 7638 thumbprint. */
export interface PrivateJwk extends PublicJwk {
  kid: string
  d: string
}

/** An Ed25519 public key that passed import; `x` and `thumbprint` are canonical, 43 characters each. */
export interface PublicKey {
  readonly x: string
  readonly thumbprint: string
  /** The 32 bytes of `x`. */
  readonly bytes: Uint8Array
  readonly keyObject: KeyObject
  readonly jwk: PublicJwk
}

/** A member of a JWKS: a usable key and the `kid` it was published under. */
export interface PublishedKey extends PublicKey {
  readonly kid: string | undefined
}

/** A signing key; `kid` names it in its signatures, `alg` is their name for the algorithm. */
export interface PrivateKey extends PublicKey {
  readonly privateKeyObject: KeyObject
  readonly kid: string
  readonly alg: SigningAlg
}

/** `allowTestKeys` admits the keys printed in RFCs, whose private halves everybody has. */
export interface KeyImportOptions {
  allowTestKeys?: boolean
}

/** How many imported keys are kept; the least recently used one is dropped first. */
const CACHED_KEYS_MAX = 4096
/** More than anybody of ours publishes (KEYS_MAX): others list keys of all kinds in one set. */
const JWKS_MEMBERS_MAX = 1_000

/** RFC 8037 A.1 (also RFC 8032 TEST 1), RFC 8032 TEST 2, TEST 3, TEST 1024, TEST SHA(abc), RFC 9421 B.1.4. */
const PUBLISHED_TEST_KEYS: ReadonlySet<string> = new Set([
  '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  'PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw',
  '_FHNjmIYoaONpH7QAjDwWAgW7RO6MwOsXeuRFUiQgCU',
  'J4EX_BRMcjQPZ9DyMW6Dhs7_vyskKMnFH-98WX8dQm4',
  '7Bcrk61eVjv0kyxw4SRQNMNUZ-8u_U1k6_gZaDRn4r8',
  'JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs',
])

const importedKeys = new Map<string, PublicKey>()

/**
 * The key of a received public JWK. Refuses (`invalid_request`) anything but `kty` OKP / `crv` Ed25519, an
 * `alg` other than `Ed25519` or `EdDSA`, another `use`, a `d` member, an `x` that is not the canonical 43
 * characters, a small-order or non-canonical point, and the keys printed in RFCs unless allowed. Members it
 * does not know are dropped.
 */
export function importPublicJwk(jwk: unknown, options: KeyImportOptions = {}): PublicKey {
  if (!isJsonObject(jwk)) refuse('invalid_request', 'Send the key as a JWK object.')
  if (Object.hasOwn(jwk, 'd'))
    refuse(
      'invalid_request',
      'Send only the public half of the key, and replace this one: its private half was sent.',
    )
  return publicKeyOf(checkJwk(jwk, options))
}

/**
 * The signing key of a private JWK of our own key files. Refuses what `importPublicJwk` refuses, and a `d`
 * that is not canonical or does not belong to `x`. Without a `kid` member the thumbprint is the kid. Its
 * signatures name the algorithm as `alg` says, or `EdDSA` if it is left out, whichever name the file has:
 * files with the other name stay valid.
 */
export function importPrivateJwk(
  jwk: unknown,
  { alg = 'EdDSA', ...options }: KeyImportOptions & { alg?: SigningAlg } = {},
): PrivateKey {
  if (!isJsonObject(jwk)) refuse('invalid_request', 'Give the signing key as a private JWK object.')
  const x = checkJwk(jwk, options)
  const { d, kid } = jwk
  if (typeof d !== 'string' || !isCanonical32(d)) {
    refuse('invalid_request', 'Give the private key `d` as 32 bytes of unpadded base64url.')
  }
  const privateKeyObject = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', x, d }, format: 'jwk' })
  // Node takes d and x as they come, without checking that they belong together.
  const derived = createPublicKey(privateKeyObject.export({ format: 'pem', type: 'pkcs8' })).export({
    format: 'jwk',
  }).x
  if (derived !== x) refuse('invalid_request', 'Give the `x` that belongs to `d`.')
  const key = publicKeyOf(x)
  return {
    ...key,
    jwk: { ...key.jwk, alg },
    alg,
    privateKeyObject,
    kid: typeof kid === 'string' ? kid : key.thumbprint,
  }
}

/** A new private JWK, its `kid` the RFC 7638 thumbprint. */
export function generatePrivateJwk(): PrivateJwk {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return { kty: 'OKP', crv: 'Ed25519', x: x!, d: d!, kid: thumbprintOf(x!), alg: 'EdDSA', use: 'sig' }
}

/**
 * The JWK under which a key is published: `{kty, crv, x, kid, alg, use: 'sig'}`; `kid` defaults to its own,
 * `alg` is what it signs with.
 */
export function publicJwk(
  key: PublicKey & { kid?: string | undefined },
  kid = key.kid ?? key.thumbprint,
): PublicJwk & { kid: string } {
  return { kty: 'OKP', crv: 'Ed25519', x: key.x, kid, alg: key.jwk.alg, use: 'sig' }
}

/**
 * The usable keys of a JWKS, `{keys: [...]}`, in order, at most 100; members of other kinds are skipped, as
 * RFC 7517 §5 requires. Refuses (`invalid_request`) a document that is no JWKS.
 */
export function parseJwks(json: unknown, options: KeyImportOptions = {}): PublishedKey[] {
  const members = isJsonObject(json) ? json['keys'] : undefined
  if (!Array.isArray(members))
    refuse('invalid_request', 'Publish keys as a JWKS: an object with a `keys` array.')
  const keys: PublishedKey[] = []
  for (const member of members.slice(0, JWKS_MEMBERS_MAX)) {
    const key = usableKey(member, options)
    const kid = isJsonObject(member) ? member['kid'] : undefined
    if (key) keys.push({ ...key, kid: typeof kid === 'string' ? kid : undefined })
  }
  return keys
}

/** The key that is published under `kid`, or that has it as its thumbprint. */
export function keyNamed(keys: readonly PublishedKey[], kid: string): PublishedKey | undefined {
  return keys.find(key => key.kid === kid || key.thumbprint === kid)
}

/** The keys of one party; the first one signs. Throws if there is none. */
export function signingKeys(keys: readonly PrivateKey[]): readonly [PrivateKey, ...PrivateKey[]] {
  const [first, ...others] = keys
  if (first === undefined) throw new Error('the configuration holds no signing key')
  return [first, ...others]
}

/** The 64-byte Ed25519 signature of the bytes (RFC 8032 §5.1.6). */
export function signEd25519(bytes: Uint8Array, key: PrivateKey): Buffer {
  return sign(null, bytes, key.privateKeyObject)
}

/**
 * Checks the 64 bytes of a signature in the calling thread; `key` has 32. The implementation is another one
 * than OpenSSL's, but gives the same answers.
 */
export type Ed25519Check = (signature: Uint8Array, bytes: Uint8Array, key: Uint8Array) => boolean

let native: Ed25519Check | undefined

/**
 * Makes this function check every signature from now on; if left out, node:crypto does so again. Call it when
 * a process starts, because then it is known what the machine has.
 */
export function verifyEd25519By(check?: Ed25519Check): void {
  native = check
}

/** Whether the signature is this key's over the bytes (RFC 8032 §5.1.7); never throws. */
export function verifyEd25519(bytes: Uint8Array, signature: Uint8Array, key: PublicKey): boolean {
  if (!isCheckable(signature)) return false
  return native === undefined
    ? verify(null, bytes, key.keyObject, signature)
    : native(signature, bytes, key.bytes)
}

/**
 * Like `verifyEd25519`, but if node:crypto does it, it runs in a thread of the pool, so that the server's own
 * thread can do other work; never rejects. With libsodium it runs in the calling thread, because handing it
 * to another thread costs about as much as the whole check (docs/performance.md).
 */
export function verifyEd25519Apart(
  bytes: Uint8Array,
  signature: Uint8Array,
  key: PublicKey,
): Promise<boolean> {
  if (native !== undefined || !isCheckable(signature))
    return Promise.resolve(verifyEd25519(bytes, signature, key))
  return new Promise(resolve => {
    verify(null, bytes, key.keyObject, signature, (error, valid) => resolve(error === null && valid))
  })
}

/**
 * Accepts 64 bytes whose first half is no point of small order, in any spelling. Libsodium refuses these
 * points, but no standard makes OpenSSL do so. So they are refused here, and no signer can find a difference.
 */
function isCheckable(signature: Uint8Array): boolean {
  return signature.length === 64 && !SMALL_ORDER_SPELLINGS.has(latin1(signature.subarray(0, 32)))
}

const latin1 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')

function usableKey(member: unknown, options: KeyImportOptions): PublicKey | undefined {
  try {
    return importPublicJwk(member, options)
  } catch {
    return undefined
  }
}

/** The canonical `x` of an acceptable JWK. */
function checkJwk(jwk: Record<string, unknown>, options: KeyImportOptions): string {
  const { kty, crv, alg, use, x } = jwk
  if (kty !== 'OKP' || crv !== 'Ed25519')
    refuse('invalid_request', 'Use an Ed25519 key: kty OKP, crv Ed25519.')
  if (alg !== undefined && alg !== 'Ed25519' && alg !== 'EdDSA')
    refuse('invalid_request', 'Give the JWK alg EdDSA or Ed25519.')
  if (use !== undefined && use !== 'sig')
    refuse('invalid_request', 'Use a key meant for signatures: use sig.')
  if (typeof x !== 'string' || !isCanonical32(x)) {
    refuse('invalid_request', 'Give `x` as 32 bytes of canonical unpadded base64url, 43 characters.')
  }
  if (options.allowTestKeys !== true && PUBLISHED_TEST_KEYS.has(x)) {
    refuse('invalid_request', 'Make a key of your own: the private half of this one is printed in an RFC.')
  }
  return x
}

function publicKeyOf(x: string): PublicKey {
  const cached = importedKeys.get(x)
  if (cached) {
    // and inserted again at the end: the order of a Map makes it a least-recently-used cache
    importedKeys.delete(x)
    importedKeys.set(x, cached)
    return cached
  }
  const bytes = Buffer.from(x, 'base64url')
  checkPoint(bytes)
  const key: PublicKey = {
    x,
    bytes,
    thumbprint: thumbprintOf(x),
    keyObject: createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }),
    jwk: { kty: 'OKP', crv: 'Ed25519', x, alg: 'EdDSA' },
  }
  importedKeys.set(x, key)
  if (importedKeys.size > CACHED_KEYS_MAX) importedKeys.delete(importedKeys.keys().next().value!)
  return key
}

/**
 * The RFC 7638 §3.2 thumbprint of an Ed25519 key's `x`, over the members RFC 8037 §2 requires, in
 * lexicographic order.
 */
export function thumbprintOf(x: string): string {
  return sha256(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).toString('base64url')
}

/** Whether a text is 32 bytes in base64url, in its one spelling. */
export function isCanonical32(text: string): boolean {
  return text.length === 43 && Buffer.from(text, 'base64url').toString('base64url') === text
}

const FIELD_PRIME = 2n ** 255n - 19n
/**
 * The y coordinates of the eight points of small order (RFC 7748 §6.1 speaks of the like on the other curve).
 */
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  FIELD_PRIME - 1n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
])

/** Those y, and their equivalents for a reader that accepts a y beyond the field, with either sign of x. */
const SMALL_ORDER_SPELLINGS: ReadonlySet<string> = new Set(
  [...SMALL_ORDER_Y, FIELD_PRIME, FIELD_PRIME + 1n].flatMap(y => {
    const bytes = Buffer.from(y.toString(16).padStart(64, '0'), 'hex').reverse()
    const negative = Buffer.from(bytes)
    negative[31]! |= 0x80
    return [bytes.toString('latin1'), negative.toString('latin1')]
  }),
)

function checkPoint(bytes: Buffer): void {
  const bigEndian = Buffer.from(bytes).reverse()
  bigEndian[0]! &= 0x7f // the top bit is the sign of x, not part of y (RFC 8032 §5.1.2)
  const y = BigInt(`0x${bigEndian.toString('hex')}`)
  if (y >= FIELD_PRIME) refuse('invalid_request', 'Use the canonical encoding of the key.')
  if (SMALL_ORDER_Y.has(y))
    refuse('invalid_request', 'Use a key that only its holder can sign with: this point has small order.')
}
