/**
 * Owns what a passkey signs (WebAuthn Level 3, "Verifying an Authentication Assertion"), as strictly as a
 * party must read it that has only her public key. Contract: "Algorithms" and "Owner API"
 * (`/owner/pending/{family}/decision`); docs/choices.md. Authority, sidecar and `usher verify` all use this
 * code, so that none of them accepts what another refuses.
 */
import { verify } from 'node:crypto'
import { sha256 } from '../encoding.ts'
import { parseJsonObject } from '../json.ts'
import { asObject, member, textMember } from '../json-members.ts'
import type { PinnedPasskey } from '../signatures/pinned-keys.ts'
import { refuse } from '../refusal.ts'

/** The assertion as a browser gives it, each member in base64url; `id` names the key. */
export type Assertion = {
  id: string
  authenticatorData: string
  clientDataJSON: string
  signature: string
}

const MEMBERS = ['id', 'authenticatorData', 'clientDataJSON', 'signature'] as const

/** rpIdHash, flags and signCount. An assertion has nothing after them, because no extension is requested. */
export const AUTHENTICATOR_BYTES = 37
const RP_ID_HASH_BYTES = 32
export const FLAG = {
  userPresent: 0x01,
  userVerified: 0x04,
  backupEligible: 0x08,
  backedUp: 0x10,
  attested: 0x40,
  extended: 0x80,
} as const

/** The order of the group of P-256 (FIPS 186-5). */
const ORDER = BigInt('0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551')
const SCALAR_BYTES = 32

/** Refuses (`invalid_request`) anything that is no assertion, or that has another member. */
export function readAssertion(value: unknown): Assertion {
  const assertion = asObject(value, 'webauthn')
  const unknown = Object.keys(assertion).find(name => !MEMBERS.some(known => known === name))
  if (unknown !== undefined) refuse('invalid_request', `Leave ${unknown.slice(0, 40)} out of webauthn.`)
  return {
    id: textMember(assertion, 'id'),
    authenticatorData: textMember(assertion, 'authenticatorData'),
    clientDataJSON: textMember(assertion, 'clientDataJSON'),
    signature: textMember(assertion, 'signature'),
  }
}

/**
 * Verifies that this passkey signed exactly this challenge (bytes): type `webauthn.get`, an origin of its
 * list, its own `rp_id`, in no frame of another origin, with the person present and verified, and the
 * signature. `signCount` decides nothing, because synchronized passkeys have none. Refuses with
 * `invalid_request`. It does not check whether the challenge was used before.
 */
export function verifyAssertion(assertion: Assertion, passkey: PinnedPasskey, challenge: Uint8Array): void {
  const clientData = passkeyBytes('clientDataJSON', assertion.clientDataJSON)
  const authenticatorData = passkeyBytes('authenticatorData', assertion.authenticatorData)
  checkClientData(clientData, { type: 'webauthn.get', origins: passkey.origins, challenge })
  const { flags } = checkAuthenticator(authenticatorData, passkey.rp_id)
  if (authenticatorData.length !== AUTHENTICATOR_BYTES || (flags & (FLAG.attested | FLAG.extended)) !== 0)
    refuse('invalid_request', 'Give authenticatorData without a key and without extensions.')
  const signed = Buffer.concat([authenticatorData, sha256(clientData)])
  const key = { key: passkey.keyObject, dsaEncoding: 'ieee-p1363' } as const
  if (!verify('sha256', signed, key, readDerSignature(passkeyBytes('signature', assertion.signature))))
    refuse('invalid_request', 'Sign with the passkey that id names: its signature does not hold.')
}

/**
 * Checks what the browser says: the type of the act, exactly this challenge (bytes), an origin of the list,
 * and no frame of another origin. Refuses with `invalid_request`.
 */
export function checkClientData(
  bytes: Buffer,
  expected: { type: 'webauthn.get' | 'webauthn.create'; origins: readonly string[]; challenge: Uint8Array },
): void {
  const { type, origins, challenge } = expected
  const clientData = parseJsonObject(bytes)
  if (member(clientData, 'type') !== type) refuse('invalid_request', `Give clientDataJSON of type ${type}.`)
  if (member(clientData, 'challenge') !== Buffer.from(challenge).toString('base64url'))
    refuse('invalid_request', 'Sign what is sent: the challenge is of something else.')
  if (!origins.some(origin => origin === member(clientData, 'origin')))
    refuse('invalid_request', 'Use the passkey at an origin that is its own.')
  if (member(clientData, 'crossOrigin') !== undefined && member(clientData, 'crossOrigin') !== false)
    refuse('invalid_request', 'Use the passkey in no frame of another origin.')
  const odd = ['topOrigin', 'tokenBinding'].find(name => member(clientData, name) !== undefined)
  if (odd !== undefined) refuse('invalid_request', `Leave ${odd} out of clientDataJSON.`)
}

/**
 * Checks what the authenticator says first: for which relying party the passkey is, and that the person was
 * present and verified.
 * @returns its flags. Refuses with `invalid_request`.
 */
export function checkAuthenticator(bytes: Buffer, rpId: string): { flags: number } {
  const flags = bytes[RP_ID_HASH_BYTES] ?? 0
  const has = (flag: number): boolean => (flags & flag) !== 0
  if (bytes.length < AUTHENTICATOR_BYTES || !bytes.subarray(0, RP_ID_HASH_BYTES).equals(sha256(rpId)))
    refuse('invalid_request', `Use a passkey of ${rpId}.`)
  if (!has(FLAG.userPresent) || !has(FLAG.userVerified))
    refuse('invalid_request', 'Unlock the passkey when it asks: it has verified nobody.')
  if (has(FLAG.backedUp) && !has(FLAG.backupEligible))
    refuse('invalid_request', 'Use a passkey whose flags agree: it is backed up and cannot be.')
  return { flags }
}

/** r and s, 32 bytes each, of a signature in DER: one spelling, both in 1 to n-1. */
function readDerSignature(der: Buffer): Buffer {
  const inner = der.subarray(2)
  if (der[0] !== 0x30 || der[1] !== inner.length || inner.length >= 0x80) malformed()
  const { scalar: r, rest } = readDerInteger(inner)
  const { scalar: s, rest: left } = readDerInteger(rest)
  if (left.length > 0) malformed()
  return Buffer.concat([r, s])
}

function readDerInteger(der: Buffer): { scalar: Buffer; rest: Buffer } {
  const length = der[1] ?? 0
  const bytes = der.subarray(2, 2 + length)
  if (der[0] !== 0x02 || length === 0 || length > SCALAR_BYTES + 1 || bytes.length !== length) malformed()
  const [first = 0, second = 0x80] = bytes
  // Negative, or with one more zero than its sign needs.
  if (first >= 0x80 || (first === 0 && second < 0x80)) malformed()
  const value = BigInt(`0x${bytes.toString('hex')}`)
  if (value < 1n || value >= ORDER) malformed()
  const scalar = Buffer.from(value.toString(16).padStart(2 * SCALAR_BYTES, '0'), 'hex')
  return { scalar, rest: der.subarray(2 + length) }
}

function malformed(): never {
  refuse('invalid_request', 'Give the signature in DER, with r and s from 1 to n-1.')
}

/** The bytes of a member in canonical unpadded base64url. Refuses (`invalid_request`) any other spelling. */
export function passkeyBytes(name: string, text: string): Buffer {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.toString('base64url') !== text)
    refuse('invalid_request', `Give ${name} as canonical unpadded base64url.`)
  return bytes
}
