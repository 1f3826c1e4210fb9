/**
 * Owns what a browser sends about a passkey that it just made (WebAuthn Level 3, "Registering a New
 * Credential"), with attestation `none`: whose passkey it is, and its key. Contract: "Authentication" (owner
 * at the owner API); docs/choices.md. Nothing is attested, so the browser sends only the authenticator's
 * data.
 */
import { asObject, textMember } from '../json-members.ts'
import {
  AUTHENTICATOR_BYTES,
  checkAuthenticator,
  checkClientData,
  FLAG,
  passkeyBytes,
} from './passkey-assertion.ts'
import { readPasskey, type PinnedPasskey } from '../signatures/pinned-keys.ts'
import { refuse } from '../refusal.ts'
import type { RelyingParty } from './relying-party.ts'

/** The registration as a browser gives it (`getAuthenticatorData`), each member in base64url. */
export type Registration = { id: string; authenticatorData: string; clientDataJSON: string }

/** The public half, as a JWK. */
export type PasskeyJwk = { kty: 'EC'; crv: 'P-256'; x: string; y: string }

const MEMBERS = ['id', 'authenticatorData', 'clientDataJSON'] as const
const AAGUID_BYTES = 16
/** WebAuthn Level 3, "Credential ID". */
const ID_BYTES_MAX = 1023
const COORDINATE_BYTES = 32
/**
 * The one spelling (CTAP2 canonical CBOR) of a COSE key for ES256: a map of kty EC2, alg -7, crv P-256, x, y.
 */
const COSE_BEFORE_X = Buffer.from('a5010203262001215820', 'hex')
const COSE_BEFORE_Y = Buffer.from('225820', 'hex')
const COSE_BYTES = COSE_BEFORE_X.length + COSE_BEFORE_Y.length + 2 * COORDINATE_BYTES

/** Refuses (`invalid_request`) anything that is no registration, or that has another member. */
export function readRegistration(value: unknown): Registration {
  const registration = asObject(value, 'webauthn')
  const unknown = Object.keys(registration).find(name => !MEMBERS.some(known => known === name))
  if (unknown !== undefined) refuse('invalid_request', `Leave ${unknown.slice(0, 40)} out of webauthn.`)
  return {
    id: textMember(registration, 'id'),
    authenticatorData: textMember(registration, 'authenticatorData'),
    clientDataJSON: textMember(registration, 'clientDataJSON'),
  }
}

/**
 * Verifies that the browser made this passkey for exactly this challenge (bytes) here: type
 * `webauthn.create`, an origin of the list, the relying party, in no frame of another origin, with the person
 * present and verified; its key is for ES256, a point of P-256. Refuses with `invalid_request`. It verifies
 * neither what device made it nor that the private half exists: its first signature shows that.
 */
export function verifyRegistration(
  registration: Registration,
  { rp_id, origins }: RelyingParty,
  challenge: Uint8Array,
): { passkey: PinnedPasskey; jwk: PasskeyJwk } {
  const clientData = passkeyBytes('clientDataJSON', registration.clientDataJSON)
  checkClientData(clientData, { type: 'webauthn.create', origins, challenge })
  const data = passkeyBytes('authenticatorData', registration.authenticatorData)
  const { flags } = checkAuthenticator(data, rp_id)
  if ((flags & FLAG.attested) === 0) refuse('invalid_request', 'Give authenticatorData with the new key.')
  const { id, cose, rest } = attestedIn(data.subarray(AUTHENTICATOR_BYTES))
  // Extensions are not read, and decide nothing.
  if (rest.length > 0 !== ((flags & FLAG.extended) !== 0))
    refuse(
      'invalid_request',
      'Give authenticatorData that ends with the key, or with extensions that its flags tell of.',
    )
  if (id !== registration.id) refuse('invalid_request', 'Give id as authenticatorData has it.')
  const jwk = jwkOf(cose)
  return { passkey: readPasskey({ ...jwk, kid: id, rp_id, origins: [...origins] }), jwk }
}

function attestedIn(bytes: Buffer): { id: string; cose: Buffer; rest: Buffer } {
  const idStart = AAGUID_BYTES + 2
  const length = bytes.length < idStart ? 0 : bytes.readUInt16BE(AAGUID_BYTES)
  const end = idStart + length + COSE_BYTES
  if (length === 0 || length > ID_BYTES_MAX || bytes.length < end)
    refuse('invalid_request', 'Give authenticatorData with an id of 1 to 1023 bytes and an ES256 key.')
  return {
    id: bytes.subarray(idStart, idStart + length).toString('base64url'),
    cose: bytes.subarray(idStart + length, end),
    rest: bytes.subarray(end),
  }
}

function jwkOf(cose: Buffer): PasskeyJwk {
  const afterX = COSE_BEFORE_X.length + COORDINATE_BYTES
  const isEs256 =
    cose.subarray(0, COSE_BEFORE_X.length).equals(COSE_BEFORE_X) &&
    cose.subarray(afterX, afterX + COSE_BEFORE_Y.length).equals(COSE_BEFORE_Y)
  if (!isEs256) refuse('invalid_request', 'Make the passkey for ES256 (alg -7), and for nothing else.')
  const x = cose.subarray(COSE_BEFORE_X.length, afterX).toString('base64url')
  const y = cose.subarray(afterX + COSE_BEFORE_Y.length).toString('base64url')
  return { kty: 'EC', crv: 'P-256', x, y }
}
