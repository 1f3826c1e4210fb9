/** contract, "Owner API" (`/owner/pending/{family}/decision`): a decision that her passkey signed. */
import { verify } from 'node:crypto'
import { verifyAuthenticationResponse } from '@simplewebauthn/server'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  parseStatement,
  readStatement,
  statementDigest,
  verifyStatement,
  type PasskeyStatement,
} from '../../src/wire/owner/decision-statement.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import type { Json, JsonObject } from '../../src/wire/json.ts'
import { verifyAssertion } from '../../src/wire/passkeys/passkey-assertion.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { ITEM } from '../support/decision-samples.ts'
import {
  approvalByPasskey,
  assertionOf,
  base64url,
  newPasskey,
  ORIGIN,
  passkeyStatement,
  RP_ID,
  sha256,
  type SoftPasskey,
  type Wrongly,
} from '../support/passkeys.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const [hers, another] = [newPasskey(), newPasskey({ id: 'passkey-2' })]
const keys = { devices: [newKey()], passkeys: [hers] }
const expected = { audience: ISSUER, now: NOW }
const verified = (statement: unknown, of = keys) => verifyStatement(readStatement(statement), of, expected)
const refusalFor = (statement: unknown) => refusalOf(() => verified(statement)).code
const GOOD = approvalByPasskey(ITEM, hers)
const CLAIMS = GOOD.payload
const wrongly = (how: Wrongly): PasskeyStatement => passkeyStatement(CLAIMS, hers, how)
/** DER of r and s as they are given, in the shortest form. */
const der = (...integers: Buffer[]): Buffer => {
  const body = Buffer.concat(integers.map(one => Buffer.concat([Buffer.from([2, one.length]), one])))
  return Buffer.concat([Buffer.from([0x30, body.length]), body])
}
const partsOf = (signature: Buffer): [r: Buffer, s: Buffer] => {
  const r = signature.subarray(4, 4 + signature[3]!)
  return [r, signature.subarray(6 + r.length)]
}
const ORDER = Buffer.from('00ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551', 'hex')

describe('A decision that a passkey signed', () => {
  it('is read as the claims that were signed, whatever its counter and backup say', () => {
    expect(verified(GOOD)).toEqual(CLAIMS)
    for (const how of [{ signCount: 0 }, { signCount: 9 }, { flags: 0x0d }, { flags: 0x1d }])
      expect(verified(wrongly(how))).toEqual(CLAIMS)
    expect(verified(wrongly({ clientData: { crossOrigin: undefined, other_keys: 'later' } }))).toEqual(CLAIMS)
    expect(verified(parseStatement(JSON.stringify(GOOD)))).toEqual(CLAIMS)
    expect(statementDigest(GOOD)).toBe(s256Json(GOOD))
  })

  it.each<[string, () => unknown]>([
    ['of a registration', () => wrongly({ clientData: { type: 'webauthn.create' } })],
    ['over another challenge', () => wrongly({ clientData: { challenge: base64url(sha256('{}')) } })],
    [
      'over its own spelling of the challenge',
      () => wrongly({ clientData: { challenge: `${base64url(sha256(JSON.stringify(CLAIMS)))}=` } }),
    ],
    ['at another origin', () => wrongly({ clientData: { origin: 'https://as.example.com' } })],
    ['at an origin with a path', () => wrongly({ clientData: { origin: `${ORIGIN}/` } })],
    ['in a frame', () => wrongly({ clientData: { crossOrigin: true } })],
    ['in a frame, said otherwise', () => wrongly({ clientData: { crossOrigin: 'true' } })],
    ['below another page', () => wrongly({ clientData: { topOrigin: ORIGIN } })],
    ['for another relying party', () => wrongly({ rpId: 'example' })],
    ['without the person present', () => wrongly({ flags: 0x04 })],
    ['without the person verified', () => wrongly({ flags: 0x01 })],
    ['backed up, which it cannot be', () => wrongly({ flags: 0x15 })],
    ['with a key beside it', () => wrongly({ flags: 0x45 })],
    ['with extensions', () => wrongly({ flags: 0x85, trailing: Buffer.from([0xa0]) })],
    ['with bytes after it', () => wrongly({ trailing: Buffer.from([0]) })],
    [
      'with a byte after the signature',
      () => wrongly({ respell: one => Buffer.concat([one, Buffer.from([0])]) }),
    ],
    [
      'with a zero before r',
      () =>
        wrongly({
          respell: one => {
            const [r, s] = partsOf(one)
            return der(Buffer.concat([Buffer.from([0]), r]), s)
          },
        }),
    ],
    ['with n added to r', () => wrongly({ respell: one => der(ORDER, partsOf(one)[1]) })],
    ['with r of 0', () => wrongly({ respell: one => der(Buffer.from([0]), partsOf(one)[1]) })],
    [
      'with a length in two bytes',
      () => wrongly({ respell: one => Buffer.concat([Buffer.from([0x30, 0x81]), one.subarray(1)]) }),
    ],
    ['by raw r and s', () => wrongly({ respell: one => Buffer.concat(partsOf(one)) })],
    ['with padding', () => wrongly({ webauthn: { signature: `${GOOD.webauthn.signature}=` } })],
    ['with a member more', () => ({ ...GOOD, note: 'x' })],
    ['with a member more in it', () => wrongly({ webauthn: { userHandle: 'x' } })],
    ['with claims as text', () => ({ ...GOOD, payload: JSON.stringify(CLAIMS) })],
    ['with a claim more', () => passkeyStatement({ ...CLAIMS, note: 'x' }, hers)],
    ['of a login', () => passkeyStatement({ ...CLAIMS, use: 'device-key' }, hers)],
    ['that was changed since', () => ({ ...GOOD, payload: { ...CLAIMS, single_use: false } })],
    ['that is no text and no object', () => [GOOD]],
  ])('%s is refused', (_what, statement) => {
    expect(refusalFor(statement())).toBe('invalid_request')
  })

  it('is by the pinned key that both its id and iss name', () => {
    expect(refusalFor(approvalByPasskey(ITEM, another))).toBe('statement_key')
    expect(refusalFor(wrongly({ webauthn: { id: another.id } }))).toBe('statement_key')
    const borrowed = passkeyStatement(CLAIMS, { ...another, id: hers.id })
    expect(refusalFor(borrowed)).toBe('invalid_request')
    const [device] = keys.devices
    expect(refusalFor(passkeyStatement({ ...CLAIMS, iss: `jkt:${device!.thumbprint}` }, hers))).toBe(
      'statement_key',
    )
  })

  it('with the other s of its signature says the same, and so is the same decision', () => {
    const other = wrongly({
      respell: one => {
        const [r, s] = partsOf(one)
        const n = BigInt(`0x${ORDER.toString('hex')}`)
        const hex = (n - BigInt(`0x${s.toString('hex')}`)).toString(16).padStart(64, '0')
        const plain = Buffer.from(hex, 'hex')
        const kept = plain.subarray(plain.findIndex(byte => byte !== 0))
        return der(r, kept[0]! >= 0x80 ? Buffer.concat([Buffer.from([0]), kept]) : kept)
      },
    })
    expect(s256Json(verified(other))).toBe(s256Json(verified(GOOD)))
  })
})

/** COSE_Key of RFC 9053, section 7.1.1, by hand. */
const coseOf = ({ jwk: { x, y } }: SoftPasskey): Uint8Array<ArrayBuffer> =>
  new Uint8Array(
    Buffer.concat([
      Buffer.from('a5010203262001215820', 'hex'),
      Buffer.from(x, 'base64url'),
      Buffer.from('225820', 'hex'),
      Buffer.from(y, 'base64url'),
    ]),
  )
const CHALLENGE = sha256('what is signed')

async function theirs({ id, ...response }: ReturnType<typeof assertionOf>): Promise<boolean> {
  try {
    const { verified: holds } = await verifyAuthenticationResponse({
      response: { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response },
      expectedChallenge: base64url(CHALLENGE),
      expectedOrigin: ORIGIN,
      expectedRPID: RP_ID,
      credential: { id, publicKey: coseOf(hers), counter: 0 },
    })
    return holds
  } catch {
    return false
  }
}

/** Takes one spelling of DER alone, where theirs takes several. */
const openssl = ({
  authenticatorData,
  clientDataJSON,
  signature,
}: ReturnType<typeof assertionOf>): boolean => {
  const [data, client, der] = [authenticatorData, clientDataJSON, signature].map(one =>
    Buffer.from(one, 'base64url'),
  )
  return verify('sha256', Buffer.concat([data!, sha256(client!)]), hers.keyObject, der!)
}

function ours(assertion: ReturnType<typeof assertionOf>): boolean {
  try {
    verifyAssertion(assertion, hers, CHALLENGE)
    return true
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return false
  }
}

const json: fc.Arbitrary<Json> = fc.oneof(
  fc.constantFrom<Json>('webauthn.get', ORIGIN, base64url(CHALLENGE), true, false, null),
  fc.string(),
)
const clientData = fc
  .record(
    { type: json, challenge: json, origin: json, crossOrigin: json, topOrigin: json, note: json },
    { requiredKeys: [] },
  )
  .map(changes => changes as JsonObject)
/** Right in most of its members, so that each of them decides often. */
const howWrong: fc.Arbitrary<Wrongly> = fc.record(
  {
    clientData: fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, clientData),
    rpId: fc.oneof({ weight: 4, arbitrary: fc.constant(RP_ID) }, fc.domain()),
    flags: fc.oneof({ weight: 2, arbitrary: fc.constant(0x05) }, fc.integer({ min: 0, max: 255 })),
    signCount: fc.integer({ min: 0, max: 3 }),
    trailing: fc.oneof(
      { weight: 4, arbitrary: fc.constant(Buffer.alloc(0)) },
      fc.constant(Buffer.from([0xa0])),
    ),
    respell: fc.oneof(
      { weight: 3, arbitrary: fc.constant((one: Buffer) => one) },
      fc.tuple(fc.nat(71), fc.nat(255)).map(([at, byte]) => (one: Buffer) => {
        one[at % one.length] = byte
        return one
      }),
    ),
  },
  { requiredKeys: [] },
)
/** What the other verifier takes and the contract does not. */
const isStricterHere = ({ clientData: data, flags = 0x05, trailing }: Wrongly): boolean => {
  const { crossOrigin = false } = { ...data } as JsonObject
  return (
    crossOrigin !== false ||
    (data !== undefined && 'topOrigin' in data) ||
    (flags & 0xc0) !== 0 ||
    (trailing?.length ?? 0) > 0
  )
}

describe('An assertion', () => {
  it('holds here only if it holds for @simplewebauthn/server, and the other way round if the contract asks no more', async () => {
    const verdicts = { both: 0, neither: 0 }
    await fc.assert(
      fc.asyncProperty(howWrong, async how => {
        const assertion = assertionOf(hers, CHALLENGE, how)
        const [here, there] = [ours(assertion), await theirs(assertion)]
        if (here) expect(there).toBe(true)
        if (!isStricterHere(how)) expect(here).toBe(there && openssl(assertion))
        verdicts[here ? 'both' : 'neither'] += 1
      }),
      { numRuns: 400 },
    )
    expect(verdicts.both).toBeGreaterThan(20)
    expect(verdicts.neither).toBeGreaterThan(20)
  })
})
