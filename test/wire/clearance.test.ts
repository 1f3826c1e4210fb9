import { describe, expect, it } from 'vitest'
import {
  signClearance,
  verifyClearance,
  type ClearanceClaims,
} from '../../src/wire/organization/clearance.ts'
import { asOwner } from '../../src/wire/identifiers.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()
const ORG = 'https://org.example'
const CLAIMS: ClearanceClaims = {
  iss: ORG,
  sub: asOwner('bea'),
  aud: ISSUER,
  org: 'acme',
  iat: NOW,
  exp: NOW + 300,
  jti: 'clr_1',
  clearance: { screening: 'full' },
}
const verify = (changes: object = {}, now = NOW) =>
  verifyClearance(signClearance({ ...CLAIMS, ...changes }, key), [key], {
    issuer: ORG,
    audience: ISSUER,
    owner: asOwner('bea'),
    now,
  })

describe('A clearance', () => {
  it('is read as it was attested', () => {
    expect(verify()).toEqual(CLAIMS)
    // Also the fact that is named as what objects have.
    expect(verify({ clearance: { constructor: 'x' } }).clearance).toEqual({ constructor: 'x' })
  })

  it.each([
    ['of another organization', { iss: 'https://other.example' }],
    ['for another authorization server', { aud: 'https://other.example' }],
    ['of another owner', { sub: 'carl' }],
    ['without an end', { exp: undefined }],
    ['that lasts longer than 300 s', { exp: NOW + 301 }],
    ['from the future', { iat: NOW + 61, exp: NOW + 100 }],
    ['without a date', { iat: undefined }],
    ['whose fact is no text', { clearance: { screening: ['full'] } }],
    ['without facts', { clearance: undefined }],
  ])('%s is refused', (_what, changes) => {
    expect(refusalOf(() => verify(changes)).code).toBe('invalid_request')
  })

  it('has ended at its exp, and by another key is none', () => {
    expect(refusalOf(() => verify({}, NOW + 300)).code).toBe('invalid_request')
    const forged = signClearance(CLAIMS, newKey())
    const expected = { issuer: ORG, audience: ISSUER, owner: asOwner('bea'), now: NOW }
    expect(refusalOf(() => verifyClearance(forged, [key], expected)).code).toBe('invalid_request')
  })
})
