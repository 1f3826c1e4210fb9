/** contract, "Owner API" (`/owner/pending/{family}/decision`): a decision that her own key signed. */
import { describe, expect, it } from 'vitest'
import { verifyStatement } from '../../src/wire/owner/decision-statement.ts'
import { encodeBase64url } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import { approvalOf, ITEM } from '../support/decision-samples.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const [hers, another] = [newKey(), newKey()]
const verified = (jws: string, now = NOW) =>
  verifyStatement(jws, { devices: [hers], passkeys: [] }, { audience: ISSUER, now })
const refusalFor = (jws: string, now?: number) => refusalOf(() => verified(jws, now))
const EXP = NOW + 3600 + ITEM.expires_in
const CLAIMS = { ...verified(approvalOf(ITEM, hers)) }
const signed = (changes: object, header: object = {}) =>
  signJws({ typ: TYP.decision, header, payload: { ...CLAIMS, ...changes } }, hers)

describe('A signed decision', () => {
  it('is good until its end: when it was signed, the 3600 s that an item waits, and the life of the grant', () => {
    expect(CLAIMS).toMatchObject({ iss: `jkt:${hers.thumbprint}`, exp: EXP, decision: 'approved' })
    expect(verified(approvalOf(ITEM, hers), EXP - 1)).toEqual(CLAIMS)
    expect(refusalFor(approvalOf(ITEM, hers), EXP).code).toBe('invalid_request')
  })

  it('may be at most 60 s ahead of the clock', () => {
    expect(verified(approvalOf(ITEM, hers), NOW - 60)).toEqual(CLAIMS)
    expect(refusalFor(approvalOf(ITEM, hers), NOW - 61).code).toBe('invalid_request')
  })

  it.each<[string, object]>([
    ['a longer end', { exp: EXP + 1 }],
    ['a shorter end', { exp: EXP - 1 }],
    ['no end', { exp: undefined }],
    ['another authority', { aud: 'https://other.example' }],
    ['another word for the decision', { decision: 'allowed' }],
    ['another word for what it admits', { admits: 'some' }],
    ['nothing of what it admits', { admits: undefined }],
    ['an empty jti', { jti: '' }],
    ['single_use as a text', { single_use: 'true' }],
    ['no life of the grant', { expires_in: 0 }],
    ['a member that it does not have', { note: 'x' }],
    ['the use of a login', { use: 'device-key' }],
  ])('with %s is refused', (_what, changes) => {
    expect(refusalFor(signed(changes)).code).toBe('invalid_request')
  })

  it.each([`application/${TYP.decision}`, TYP.decision.toUpperCase(), 'JWT'])('of typ %s is refused', typ => {
    expect(refusalFor(signJws({ typ, payload: CLAIMS }, hers)).code).toBe('invalid_request')
  })

  it('with crit, with a member twice, or in another spelling of base64url is refused', () => {
    expect(refusalFor(signed({}, { crit: ['x'] })).code).toBe('invalid_request')
    const [header, payload, signature] = approvalOf(ITEM, hers).split('.')
    const twice = encodeBase64url(`{"decision":"denied",${JSON.stringify(CLAIMS).slice(1)}`)
    expect(refusalFor(`${header}.${twice}.${signature}`).code).toBe('invalid_request')
    expect(refusalFor(`${header}.${payload}=.${signature}`).code).toBe('invalid_request')
  })

  it('is by the pinned key that iss names, whatever key its header brings', () => {
    for (const header of [{ jwk: another.jwk }, { jku: 'https://other.example/keys' }, { kid: 'x' }])
      expect(verified(signed({}, header))).toEqual(CLAIMS)
    expect(refusalFor(approvalOf(ITEM, another)).code).toBe('statement_key')
    const borrowed = signJws({ typ: TYP.decision, header: { jwk: another.jwk }, payload: CLAIMS }, another)
    expect(refusalFor(borrowed).code).toBe('invalid_request')
  })
})
