/** Owns a passkey in software, which signs what it is told to, and as wrongly as it is told to. */
import { createHash, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { itemDigest, type DecisionItem } from '../../src/wire/owner/decision-item.ts'
import type { PasskeyStatement } from '../../src/wire/owner/decision-statement.ts'
import { canonicalize, type JsonObject } from '../../src/wire/json.ts'
import type { Assertion } from '../../src/wire/passkeys/passkey-assertion.ts'
import type { Registration } from '../../src/wire/passkeys/passkey-registration.ts'
import { parsePinnedKeys, type PinnedPasskey } from '../../src/wire/signatures/pinned-keys.ts'
import { statementClaims, type StatementClaims } from '../../src/wire/owner/statement-claims.ts'
import { ISSUER, NOW } from './wire-samples.ts'

export const RP_ID = 'as.example'
export const ORIGIN = 'https://as.example'

export const sha256 = (bytes: string | Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
export const base64url = (bytes: string | Uint8Array): string => Buffer.from(bytes).toString('base64url')

export interface SoftPasskey extends PinnedPasskey {
  readonly privateKey: KeyObject
  /** As `keys_file` has it. */
  readonly jwk: JsonObject & { x: string; y: string }
}

/** What an assertion says otherwise than it should. */
export interface Wrongly {
  clientData?: object
  rpId?: string
  flags?: number
  signCount?: number
  /** After the 37 bytes. */
  trailing?: Buffer
  /** Of the signature in DER. */
  respell?: (der: Buffer) => Buffer
  webauthn?: object
}

/** A new one of this relying party. */
export function newPasskey({ id = 'passkey-1', rpId = RP_ID, origins = [ORIGIN] } = {}): SoftPasskey {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = publicKey.export({ format: 'jwk' })
  const jwk = { kty: 'EC', crv: 'P-256', x: x!, y: y!, kid: id, rp_id: rpId, origins }
  const [pinned] = parsePinnedKeys(JSON.stringify({ keys: [jwk] })).passkeys
  return { ...pinned!, privateKey, jwk }
}

/** The assertion of a passkey over a challenge. */
export function assertionOf(key: SoftPasskey, challenge: Uint8Array, wrongly: Wrongly = {}): Assertion {
  const { rpId = key.rp_id, flags = 0x05, signCount = 0, trailing = Buffer.alloc(0), respell } = wrongly
  const clientData = JSON.stringify({
    type: 'webauthn.get',
    challenge: base64url(challenge),
    origin: key.origins[0],
    crossOrigin: false,
    ...wrongly.clientData,
  })
  const counted = Buffer.alloc(4)
  counted.writeUInt32BE(signCount)
  const authenticatorData = Buffer.concat([sha256(rpId), Buffer.from([flags]), counted, trailing])
  const der = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), key.privateKey)
  return {
    id: key.id,
    authenticatorData: base64url(authenticatorData),
    clientDataJSON: base64url(clientData),
    signature: base64url(respell?.(der) ?? der),
    ...wrongly.webauthn,
  }
}

/** What a registration says otherwise than it should. */
export interface WrongRegistration {
  clientData?: object
  rpId?: string
  flags?: number
  idLength?: number
  /** Of the COSE key. */
  recode?: (cose: Buffer) => Buffer
  trailing?: Buffer
  webauthn?: object
}

/** As a browser tells of a passkey that it just made for this challenge. */
export function registrationOf(
  key: SoftPasskey,
  challenge: Uint8Array,
  wrongly: WrongRegistration = {},
): Registration {
  const { rpId = key.rp_id, flags = 0x45, recode = one => one, trailing = Buffer.alloc(0) } = wrongly
  const clientData = JSON.stringify({
    type: 'webauthn.create',
    challenge: base64url(challenge),
    origin: key.origins[0],
    crossOrigin: false,
    ...wrongly.clientData,
  })
  const id = Buffer.from(key.id, 'base64url')
  const length = Buffer.alloc(2)
  length.writeUInt16BE(wrongly.idLength ?? id.length)
  const data = [sha256(rpId), Buffer.from([flags]), Buffer.alloc(4), Buffer.alloc(16), length, id]
  return {
    id: key.id,
    authenticatorData: base64url(Buffer.concat([...data, recode(coseOf(key)), trailing])),
    clientDataJSON: base64url(clientData),
    ...wrongly.webauthn,
  }
}

/** Its public key as COSE has it. */
function coseOf({ jwk }: SoftPasskey): Buffer {
  const [x, y] = [Buffer.from(jwk.x, 'base64url'), Buffer.from(jwk.y, 'base64url')]
  return Buffer.concat([Buffer.from('a5010203262001215820', 'hex'), x, Buffer.from('225820', 'hex'), y])
}

/** A statement over any claims. */
export function passkeyStatement(
  payload: JsonObject,
  key: SoftPasskey,
  wrongly: Wrongly = {},
): PasskeyStatement {
  return { payload, webauthn: assertionOf(key, sha256(canonicalize(payload)), wrongly) }
}

/** Her approval of an item, signed by a passkey. */
export function approvalByPasskey(
  item: DecisionItem,
  key: SoftPasskey,
  changes: Partial<Omit<StatementClaims, 'iss' | 'exp'>> = {},
): PasskeyStatement {
  const { owner, family, single_use, expires_in } = item
  const content = {
    aud: ISSUER,
    owner,
    family,
    decision: 'approved' as const,
    item_s256: itemDigest(item),
    admits: null,
    single_use,
    expires_in,
    iat: NOW,
    jti: 'dec_1',
    ...changes,
  }
  return passkeyStatement(statementClaims(content, key.thumbprint), key)
}
