/**
 * Owns signing and verifying requests by RFC 9421, in the one profile every party uses. Contract:
 * "Authentication" (request signatures) and "Limits" (60 s window); RFC 9421 §3, §7. Reads no clock and finds
 * no key: both are given.
 *
 * Verification is in two halves around the one costly step, which may be made in a thread of its own:
 * `prepareVerification` → an Ed25519 check → `concludeVerification`.
 */
import { serializeInnerList, type BareItem, type InnerList } from 'structured-headers'
import { checkContentDigest } from './encoding.ts'
import { signEd25519, verifyEd25519, verifyEd25519Apart, type PrivateKey, type PublicKey } from './keys.ts'
import { refusingAs } from './refusal.ts'
import {
  plainComponent,
  refuseSignature,
  signatureBase,
  type BaseOptions,
  type SignedMessage,
} from './signature-base.ts'
import {
  chooseSignature,
  readSignatures,
  signatureBytes,
  type Candidate,
  type KeyPolicy,
} from './signature-candidates.ts'

export type { HeaderLines, SignedMessage } from './signature-base.ts'

/** How far `created` may lie from now, either way, inclusive (contract, "Limits"). */
export const SIGNATURE_WINDOW_SECONDS = 60

/**
 * What a signer chooses; times in seconds since the epoch. `keyid` defaults to the key's kid, false leaves it
 * out.
 */
export interface SigningOptions extends BaseOptions {
  components: readonly string[]
  created: number
  expires?: number | undefined
  nonce?: string | undefined
  tag?: string | undefined
  keyid?: string | false | undefined
  label?: string | undefined
}

/** What a verifier asks for. */
export interface VerificationOptions extends BaseOptions, KeyPolicy {
  /** Components that must be covered, without parameters; `@query` is added when the request has a query. */
  requiredComponents: readonly string[]
  now: number
  windowSeconds?: number | undefined
  /** A request with a body must cover `content-digest`. A digest that is covered is checked always. */
  mustCoverDigest?: boolean | undefined
}

/**
 * A signature that verified. `signature` (64 bytes) is what a replay is recognised by; `covered` are
 * component names, one with parameters ending in a semicolon.
 */
export interface VerifiedSignature {
  key: PublicKey
  keyid: string | undefined
  created: number
  signature: Buffer
  covered: string[]
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
  const parameters = new Map<string, BareItem>([['created', options.created]])
  if (options.expires !== undefined) parameters.set('expires', options.expires)
  if (options.keyid !== false) parameters.set('keyid', options.keyid ?? key.kid)
  if (options.nonce !== undefined) parameters.set('nonce', options.nonce)
  if (options.tag !== undefined) parameters.set('tag', options.tag)
  const covered: InnerList = [options.components.map(plainComponent), parameters]
  const label = options.label ?? 'sig1'
  const signature = signEd25519(Buffer.from(signatureBase(message, covered, options), 'latin1'), key)
  return {
    signature: `${label}=:${signature.toString('base64')}:`,
    'signature-input': `${label}=${serializeInnerList(covered)}`,
  }
}

/**
 * The one signature of a request that counts, verified (RFC 9421 §3.2). Refuses with `invalid_token`, 401,
 * and a sentence that says what is wrong; throws nothing else, whatever the headers hold.
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
 * As `verifyRequest`, the Ed25519 check made apart from the calling thread: for a server that has other calls
 * to see to.
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
 * The second half of `verifyRequest`, given whether the Ed25519 check held: the body is hashed only for a
 * true signer.
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
 * A decimal or a date: `1.0` would parse to the same number as `1`, and dates beyond JavaScript's to no
 * number, so neither would serialise back to the text that was signed.
 */
const INEXACT_PARAMETER = /=(?:-?\d+\.|@)/

/** `created` within the window, both ends included; `expires` after it and not passed, without allowance. */
function checkTimes(candidate: Candidate, options: VerificationOptions): number {
  const { now, windowSeconds = SIGNATURE_WINDOW_SECONDS } = options
  const parameters = candidate.covered[1]
  const created = parameters.get('created')
  const expires = parameters.get('expires')
  if (!isInteger(created)) refuseSignature('Put created, in whole seconds, into the signature.')
  if (expires !== undefined && !isInteger(expires)) refuseSignature('Give expires in whole seconds.')
  if (INEXACT_PARAMETER.test(withoutStrings(candidate.input.raw))) {
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

/** Without the quoted strings, where a nonce might read like a parameter. */
function withoutStrings(raw: string): string {
  return raw.replace(/"(?:[^"\\]|\\.)*"/g, '""')
}

/**
 * Algorithms stated anywhere must agree (RFC 9421 §3.2 step 6), and ours follows from the key; the rest are
 * texts.
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
