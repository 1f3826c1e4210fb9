/**
 * Owns signing and verifying requests by RFC 9421, in the one profile every party uses. Contract:
 * "Authentication" (request signatures) and "Limits" (60 s window); RFC 9421 §3, §7. It reads no clock and
 * finds no key: both are given.
 *
 * Verification is in two halves around the one costly step, which may be made in a thread of its own:
 * `prepareVerification` → an Ed25519 check → `concludeVerification`.
 */
import type { InnerList } from 'structured-headers'
import { checkContentDigest, sha256 } from '../encoding.ts'
import { signEd25519, verifyEd25519, verifyEd25519Apart, type PrivateKey, type PublicKey } from './keys.ts'
import { refusingAs } from '../refusal.ts'
import { signingInput, type SigningOptions } from './request-signing.ts'
import { refuseSignature, signatureBase, type BaseOptions, type SignedMessage } from './signature-base.ts'
import {
  chooseSignature,
  readSignatures,
  signatureBytes,
  type Candidate,
  type KeyPolicy,
} from './signature-candidates.ts'

export type { SigningOptions } from './request-signing.ts'
export type { HeaderLines, SignedMessage } from './signature-base.ts'

/** How far `created` may be from now, in either direction, inclusive (contract, "Limits"). */
export const SIGNATURE_WINDOW_SECONDS = 60
/**
 * For how long it is remembered that a signature was presented which counts once: beyond both ends of the
 * window, and for one more window because the clocks of replicas differ.
 */
export const MARK_RETENTION_SECONDS = 3 * SIGNATURE_WINDOW_SECONDS

/** A verifier's requirements. */
export interface VerificationOptions extends BaseOptions, KeyPolicy {
  /** Components that must be covered, without parameters; `@query` is added when the request has a query. */
  requiredComponents: readonly string[]
  now: number
  windowSeconds?: number | undefined
  /** A request with a body must cover `content-digest`. A covered digest is always checked. */
  mustCoverDigest?: boolean | undefined
}

/**
 * A signature that verified. `signature` (64 bytes) identifies a replay; `covered` are component names, one
 * with parameters ending in a semicolon.
 */
export interface VerifiedSignature {
  key: PublicKey
  keyid: string | undefined
  created: number
  signature: Buffer
  covered: string[]
}

/** By what such a signature is remembered. */
export function signatureDigest({ key, signature }: Pick<VerifiedSignature, 'key' | 'signature'>): Buffer {
  return sha256(Buffer.concat([Buffer.from(key.thumbprint), signature]))
}

/** Everything about a signature but the Ed25519 check of `signature` by `key` over `base`. */
export interface PreparedVerification extends VerifiedSignature {
  base: Buffer
}

/**
 * The `Signature-Input` and `Signature` values for a request (RFC 9421 §3.1). There is no `alg`: it follows
 * from the key. To cover `content-digest`, put the field into the message first. Refuses like a verifier when
 * a component is missing.
 */
export function signRequest(
  message: SignedMessage,
  key: PrivateKey,
  options: SigningOptions,
): { signature: string; 'signature-input': string } {
  const { base, input } = signingInput(message, { ...options, keyid: options.keyid ?? key.kid })
  const label = options.label ?? 'sig1'
  const signature = signEd25519(Buffer.from(base, 'latin1'), key)
  return {
    signature: `${label}=:${signature.toString('base64')}:`,
    'signature-input': `${label}=${input}`,
  }
}

/**
 * The one signature of a request that counts, verified (RFC 9421 §3.2). Refuses with `invalid_token`, 401,
 * and a sentence that says what is wrong; throws nothing else, for any headers.
 */
export function verifyRequest(message: SignedMessage, options: VerificationOptions): VerifiedSignature {
  const prepared = prepareVerification(message, options)
  return concludeVerification(
    message,
    prepared,
    verifyEd25519(prepared.base, prepared.signature, prepared.key),
  )
}

/**
 * Like `verifyRequest`, but the Ed25519 check runs outside the calling thread, for a server that has other
 * calls to handle.
 */
export async function verifyRequestApart(
  message: SignedMessage,
  options: VerificationOptions,
): Promise<VerifiedSignature> {
  const prepared = prepareVerification(message, options)
  const { base, signature, key } = prepared
  return concludeVerification(message, prepared, await verifyEd25519Apart(base, signature, key))
}

/** The first half of `verifyRequest`: every check that needs no cryptography, and the base to verify. */
export function prepareVerification(
  message: SignedMessage,
  options: VerificationOptions,
): PreparedVerification {
  const candidates = readSignatures(message.headers)
  const required = requiredComponents(message, options)
  const { candidate, key } = chooseSignature(candidates, required, options)
  const missing = required.find(name => !candidate.names.includes(name))
  if (missing !== undefined) refuseSignature(`Cover "${missing}" in the signature.`)
  const created = checkTimes(candidate, options)
  checkTexts(candidate.covered[1])
  const signature = signatureBytes(candidate.signature)
  const base = Buffer.from(signatureBase(message, candidate.covered, options), 'latin1')
  return {
    base,
    key,
    keyid: candidate.keyid,
    created,
    signature,
    covered: candidate.names,
  }
}

/**
 * The second half of `verifyRequest`, given whether the Ed25519 check held: the body is hashed only if the
 * signature holds.
 */
export function concludeVerification(
  message: SignedMessage,
  prepared: PreparedVerification,
  valid: boolean,
): VerifiedSignature {
  if (!valid)
    refuseSignature('Sign the request as sent, with the key it is bound to: the signature does not verify.')
  const { key, keyid, created, signature, covered } = prepared
  if (coversField(prepared, 'content-digest')) checkDigest(message)
  return { key, keyid, created, signature, covered }
}

function requiredComponents(message: SignedMessage, options: VerificationOptions): string[] {
  const required = [...options.requiredComponents]
  // @path carries no query (RFC 9421 §2.2.6), so an uncovered query could be changed on the way.
  if (message.query !== undefined) required.push('@query')
  if (options.mustCoverDigest === true && message.body !== undefined && message.body.length > 0) {
    required.push('content-digest')
  }
  return required
}

/**
 * Finds decimals and dates: `1.0` would parse to the same number as `1`, and dates beyond JavaScript's range
 * to no number, so neither would serialise back to the text that was signed.
 */
const INEXACT_PARAMETER = /=(?:-?\d+\.|@)/

/**
 * Checks that `created` is within the window, both ends included, and that `expires` is after it and still in
 * the future, without allowance.
 */
function checkTimes(candidate: Candidate, options: VerificationOptions): number {
  const { now, windowSeconds = SIGNATURE_WINDOW_SECONDS } = options
  const parameters = candidate.covered[1]
  const created = parameters.get('created')
  const expires = parameters.get('expires')
  if (!isInteger(created)) refuseSignature('Put created, in whole seconds, into the signature.')
  if (expires !== undefined && !isInteger(expires)) refuseSignature('Give expires in whole seconds.')
  if (hasInexactParameter(candidate.input.raw)) {
    refuseSignature('Use only integers, strings, tokens and booleans as signature parameters.')
  }
  if (Math.abs(now - created) > windowSeconds) {
    refuseSignature(
      `Sign within ${windowSeconds} s of sending; check the clock: created is ${created}, now is ${now}.`,
    )
  }
  if (expires !== undefined && expires <= created) refuseSignature('Let expires lie after created.')
  if (expires !== undefined && now > expires) refuseSignature('Sign again: the signature has expired.')
  return created
}

function isInteger(value: unknown): value is number {
  return Number.isInteger(value)
}

/**
 * Quoted strings do not count, because a nonce there might look like a parameter. Emptying them keeps their
 * quotes, so it makes no match: a text without one needs no second look.
 */
function hasInexactParameter(raw: string): boolean {
  return INEXACT_PARAMETER.test(raw) && INEXACT_PARAMETER.test(raw.replace(/"(?:[^"\\]|\\.)*"/g, '""'))
}

/**
 * Algorithms that are stated anywhere must agree (RFC 9421 §3.2 step 6), and ours follows from the key; the
 * other parameters are texts.
 */
function checkTexts(parameters: InnerList[1]): void {
  const alg = parameters.get('alg')
  if (alg !== undefined && alg !== 'ed25519') refuseSignature('Sign with alg "ed25519", or leave alg out.')
  for (const name of ['keyid', 'nonce', 'tag']) {
    const value = parameters.get(name)
    if (value !== undefined && typeof value !== 'string') refuseSignature(`Give ${name} as a quoted string.`)
  }
}

function coversField(signature: VerifiedSignature, name: string): boolean {
  return signature.covered.some(component => component === name || component === `${name};`)
}

function checkDigest(message: SignedMessage): void {
  const fieldValue = (message.headers.get('content-digest') ?? []).join(', ')
  refusingAs('invalid_token', () => checkContentDigest(fieldValue, message.body ?? new Uint8Array()))
}
