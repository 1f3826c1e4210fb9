/**
 * contract, "Authentication" (owner at the owner API): what a browser tells of a passkey that it just made.
 */
import { randomBytes } from 'node:crypto'
import { verifyRegistrationResponse } from '@simplewebauthn/server'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import { readLoginClaims, readRegistrationClaims } from '../../src/wire/passkeys/passkey-claims.ts'
import { isPasskeyNonce, newPasskeyNonce } from '../../src/wire/passkeys/passkey-nonce.ts'
import { readRegistration, verifyRegistration } from '../../src/wire/passkeys/passkey-registration.ts'
import { readPasskey } from '../../src/wire/signatures/pinned-keys.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { ticketKeys } from '../../src/wire/negotiation/ticket.ts'
import {
  base64url,
  newPasskey,
  ORIGIN,
  registrationOf,
  RP_ID,
  sha256,
  type WrongRegistration,
} from '../support/passkeys.ts'
import { refusalOf } from '../support/refusals.ts'
import { newKey, NOW } from '../support/wire-samples.ts'

const hers = newPasskey({ id: base64url(randomBytes(16)) })
const party = { rp_id: RP_ID, origins: [ORIGIN] }
const CHALLENGE = sha256('a challenge')
const wrongly = (how: WrongRegistration) => registrationOf(hers, CHALLENGE, how)
const verified = (registration: unknown) =>
  verifyRegistration(readRegistration(registration), party, CHALLENGE)

describe('A passkey that is registered', () => {
  it('is read as the key that will sign, whatever its counter, its maker and its extensions say', () => {
    const { x, y } = hers.jwk
    const jwk = { kty: 'EC', crv: 'P-256', x, y }
    expect(verified(wrongly({}))).toMatchObject({
      jwk,
      passkey: { id: hers.id, thumbprint: hers.thumbprint },
    })
    // As a security key answers what the browser asks beside the page (credProtect).
    const extended = wrongly({ flags: 0xc5, trailing: Buffer.from('a16b6372656450726f7465637402', 'hex') })
    expect(verified(extended).jwk).toEqual(jwk)
    expect(verified(wrongly({ flags: 0x5d })).jwk).toEqual(jwk)
    expect(readPasskey({ ...jwk, kid: hers.id, rp_id: RP_ID, origins: [ORIGIN] })).toMatchObject({
      id: hers.id,
    })
  })

  it.each<[string, () => unknown]>([
    ['of an assertion', () => wrongly({ clientData: { type: 'webauthn.get' } })],
    ['over another challenge', () => wrongly({ clientData: { challenge: base64url(sha256('another')) } })],
    ['at another origin', () => wrongly({ clientData: { origin: 'https://as.example.com' } })],
    ['in a frame', () => wrongly({ clientData: { crossOrigin: true } })],
    ['below another page', () => wrongly({ clientData: { topOrigin: ORIGIN } })],
    ['for another relying party', () => wrongly({ rpId: 'example' })],
    ['without the person present', () => wrongly({ flags: 0x44 })],
    ['without the person verified', () => wrongly({ flags: 0x41 })],
    ['backed up, which it cannot be', () => wrongly({ flags: 0x55 })],
    ['without a key', () => wrongly({ flags: 0x05 })],
    ['with extensions that its flags deny', () => wrongly({ trailing: Buffer.from([0xa0]) })],
    ['without the extensions that its flags tell of', () => wrongly({ flags: 0xc5 })],
    ['with an id that is longer than what is there', () => wrongly({ idLength: 1_000 })],
    ['with an empty id', () => wrongly({ idLength: 0 })],
    ['under another id', () => wrongly({ webauthn: { id: base64url(randomBytes(16)) } })],
    [
      'with a key of EdDSA',
      () =>
        wrongly({
          recode: cose => Buffer.concat([Buffer.from('a5010203272001215820', 'hex'), cose.subarray(10)]),
        }),
    ],
    [
      'with a key of another curve',
      () =>
        wrongly({
          recode: cose => Buffer.concat([Buffer.from('a5010203262002215820', 'hex'), cose.subarray(10)]),
        }),
    ],
    [
      'with a point beside the curve',
      () =>
        wrongly({ recode: cose => Buffer.concat([cose.subarray(0, -1), Buffer.from([cose.at(-1)! ^ 1])]) }),
    ],
    ['cut off', () => wrongly({ recode: cose => cose.subarray(0, -1) })],
    ['with nothing in it', () => wrongly({ webauthn: { authenticatorData: '' } })],
    ['with padding', () => wrongly({ webauthn: { clientDataJSON: `${wrongly({}).clientDataJSON}=` } })],
    ['with a member more', () => wrongly({ webauthn: { attestationObject: 'x' } })],
    ['that is no object', () => 'webauthn'],
  ])('%s is refused', (_what, registration) => {
    expect(refusalOf(() => verified(registration())).code).toBe('invalid_request')
  })

  it('is taken only where @simplewebauthn/server takes it, wherever a byte was changed', async () => {
    const whole = wrongly({})
    const data = Buffer.from(whole.authenticatorData, 'base64url')
    await fc.assert(
      fc.asyncProperty(fc.nat(data.length - 1), fc.integer({ min: 1, max: 255 }), async (place, bits) => {
        const changed = Buffer.from(data)
        changed[place]! ^= bits
        const registration = { ...whole, authenticatorData: base64url(changed) }
        if (isTaken(registration)) expect(await theyTake(registration)).toBe(true)
      }),
      { numRuns: 300 },
    )
    expect(isTaken(whole) && (await theyTake(whole))).toBe(true)
  })
})

function isTaken(registration: unknown): boolean {
  try {
    return verified(registration).jwk.kty === 'EC'
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

/** The same with what would carry an attestation around it: {fmt: "none", attStmt: {}, authData}. */
async function theyTake(registration: ReturnType<typeof registrationOf>): Promise<boolean> {
  const data = Buffer.from(registration.authenticatorData, 'base64url')
  const length = Buffer.from([0x58, data.length])
  const before = Buffer.from('a363666d74646e6f6e656761747453746d74a0686175746844617461', 'hex')
  const attestationObject = base64url(Buffer.concat([before, length, data]))
  const { id, clientDataJSON } = registration
  try {
    const { verified: taken } = await verifyRegistrationResponse({
      response: {
        id,
        rawId: id,
        type: 'public-key',
        clientExtensionResults: {},
        response: { clientDataJSON, attestationObject },
      },
      expectedChallenge: base64url(CHALLENGE),
      expectedOrigin: ORIGIN,
      expectedRPID: RP_ID,
      requireUserVerification: true,
      supportedAlgorithmIDs: [-7],
    })
    return taken
  } catch {
    return false
  }
}

describe('What a passkey signs beside decisions', () => {
  const LOGIN = { use: 'device-key', jkt: 'x', nonce: 'n', exp: NOW }
  const REGISTRATION = { use: 'passkey', owner: 'alice', nonce: 'n', exp: NOW }

  it('is a login or a registration, and neither is the other', () => {
    expect(readLoginClaims(LOGIN)).toEqual(LOGIN)
    expect(readRegistrationClaims(REGISTRATION)).toEqual(REGISTRATION)
    for (const claims of [REGISTRATION, { ...LOGIN, use: 'passkey' }])
      expect(refusalOf(() => readLoginClaims(claims)).code).toBe('invalid_request')
    for (const claims of [LOGIN, { ...REGISTRATION, use: 'device-key' }])
      expect(refusalOf(() => readRegistrationClaims(claims)).code).toBe('invalid_request')
  })

  it.each<[string, unknown]>([
    ['of a decision', { ...LOGIN, decision: 'approved' }],
    ['of a decision alone', { decision: 'approved', family: 'fam_1' }],
    ['with a member more', { ...LOGIN, owner: 'alice' }],
    ['without what it is for', { jkt: 'x', nonce: 'n', exp: NOW }],
    ['with a time in words', { ...LOGIN, exp: 'soon' }],
    ['that are a list', [LOGIN]],
  ])('claims %s are no login', (_what, claims) => {
    expect(refusalOf(() => readLoginClaims(claims as JsonObject)).code).toBe('invalid_request')
  })
})

describe('A nonce for a passkey', () => {
  const [first, other] = [ticketKeys([newKey()]), ticketKeys([newKey()])]
  const OF = { use: 'device-key', owner: '', exp: NOW } as const

  it('is good for exactly what it was made for, under any key that is listed', () => {
    const nonce = newPasskeyNonce(OF, first[0])
    expect(isPasskeyNonce(nonce, OF, [...other, ...first])).toBe(true)
    expect(newPasskeyNonce(OF, first[0])).not.toBe(nonce)
    for (const wrong of [{ use: 'passkey' as const }, { owner: 'alice' }, { exp: NOW + 1 }])
      expect(isPasskeyNonce(nonce, { ...OF, ...wrong }, first)).toBe(false)
    expect(isPasskeyNonce(nonce, OF, other)).toBe(false)
    const changed = nonce.replace(/^pkn_./, start => (start === 'pkn_A' ? 'pkn_B' : 'pkn_A'))
    for (const text of ['', 'pkn_', changed, `${nonce}A`, nonce.slice(0, -1)])
      expect(isPasskeyNonce(text, OF, first)).toBe(false)
  })
})
