import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import {
  readRptClaims,
  signPat,
  signRpt,
  verifyPat,
  verifyRpt,
  type RptClaims,
} from '../../src/wire/negotiation/tokens.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW, patClaims, RESOURCE, rptClaims } from '../support/wire-samples.ts'
import { asClientId, asHandle, asOwner } from '../../src/wire/identifiers.ts'

const authority = newKey()
const agent = newKey()
const claims = rptClaims(agent)
const expected = { issuer: ISSUER, audience: RESOURCE, now: NOW }
const text = fc.string({ unit: 'grapheme', minLength: 1 })

describe('an RPT', () => {
  it('reads back as signed, for any claims', () => {
    const anyClaims = fc
      .record({
        sub: text.map(asHandle),
        owner: text.map(asOwner),
        jti: text,
        contract: text,
        permissions: fc.array(
          fc.record({ resource_id: text, resource_scopes: fc.array(text), exp: fc.nat() }),
          { minLength: 1, maxLength: 3 },
        ),
        asked: fc.option(fc.record({ tool: text, params_s256: text }), { nil: undefined }),
        consequence: fc.option(text, { nil: undefined }),
      })
      .map(({ asked, consequence, ...rest }) =>
        rptClaims(agent, {
          ...rest,
          ...(asked === undefined ? {} : { single_use: true, operation: asked }),
          ...(consequence === undefined ? {} : { consequence }),
        }),
      )
    fc.assert(
      fc.property(anyClaims, given => {
        const token = signRpt(given, authority)
        expect(verifyRpt(token, [authority], expected)).toEqual(given)
        expect(readRptClaims(token)).toEqual(given)
      }),
    )
  })

  it('has the header of RFC 9068, and names its key', () => {
    const [header] = signRpt(claims, authority).split('.')
    expect(JSON.parse(Buffer.from(header!, 'base64url').toString())).toEqual({
      alg: 'EdDSA',
      typ: 'at+jwt',
      kid: authority.kid,
    })
  })

  it('verifies under any listed key, the one its kid names', () => {
    expect(verifyRpt(signRpt(claims, authority), [newKey(), authority], expected).jti).toBe('rpt_AAAA')
    expect(refusalOf(() => verifyRpt(signRpt(claims, authority), [newKey()], expected)).code).toBe(
      'invalid_request',
    )
    const impostor = { ...newKey(), kid: authority.kid }
    expect(refusalOf(() => verifyRpt(signRpt(claims, impostor), [authority], expected)).code).toBe(
      'invalid_request',
    )
  })

  it('is held to issuer, audience and time where those are given', () => {
    const token = signRpt(claims, authority)
    expect(verifyRpt(token, [authority]).exp).toBe(NOW + 3600)
    for (const wrong of [
      { issuer: 'https://other.example' },
      { audience: 'https://other.example' },
      { now: NOW + 3600 },
    ]) {
      expect(refusalOf(() => verifyRpt(token, [authority], { ...expected, ...wrong })).code).toBe(
        'invalid_request',
      )
    }
    expect(verifyRpt(token, [authority], { ...expected, now: NOW + 3599 }).jti).toBe('rpt_AAAA')
  })

  it.each<[string, object]>([
    ['no exp', { exp: undefined }],
    ['an exp as text', { exp: '9' }],
    ['no key', { cnf: undefined }],
    ['a key by thumbprint alone', { cnf: { jkt: agent.thumbprint } }],
    ['a key in another spelling', { cnf: { jwk: { ...agent.jwk, x: `${agent.x}=` } } }],
    ['no permissions', { permissions: [] }],
    ['permissions that are an object', { permissions: {} }],
    ['a permission without exp', { permissions: [{ resource_id: 'r', resource_scopes: ['read'] }] }],
    ['scopes that are text', { permissions: [{ resource_id: 'r', resource_scopes: 'read', exp: 9 }] }],
    ['single_use as text', { single_use: 'true' }],
    ['single_use that is false', { single_use: false, operation: { tool: 't', params_s256: 'x' } }],
    ['single_use without operation', { single_use: true }],
    ['an operation without single_use', { operation: { tool: 't', params_s256: 'x' } }],
    ['an operation that is text', { single_use: true, operation: 't' }],
    ['no owner', { owner: undefined }],
    ['a list as audience', { aud: [RESOURCE] }],
    ['a handle of another type', { sub: 7 }],
  ])('is refused with %s', (_what, changes) => {
    const token = signJws({ typ: TYP.rpt, payload: { ...claims, ...changes } }, authority)
    expect(refusalOf(() => verifyRpt(token, [authority])).code).toBe('invalid_request')
    expect(refusalOf(() => readRptClaims(token)).code).toBe('invalid_request')
  })

  it('is read by its holder only as an RPT', () => {
    expect(refusalOf(() => readRptClaims(signPat(patClaims(), authority))).code).toBe('invalid_request')
    expect(refusalOf(() => readRptClaims('opaque')).code).toBe('invalid_request')
    const unverified: RptClaims = readRptClaims(signRpt(claims, newKey()))
    expect(unverified).toEqual(claims)
  })
})

describe('a PAT', () => {
  it('reads back as signed, for any owner and client', () => {
    fc.assert(
      fc.property(text, text, (sub, azp) => {
        const given = patClaims({ sub: asOwner(sub), azp: asClientId(azp) })
        expect(verifyPat(signPat(given, authority), [authority], expectedPat)).toEqual(given)
      }),
    )
  })

  const expectedPat = { issuer: ISSUER, now: NOW }

  it('ends at its exp', () => {
    const token = signPat(patClaims({ exp: NOW + 5 }), authority)
    expect(verifyPat(token, [authority], { ...expectedPat, now: NOW + 4 }).azp).toBe('demo-tools')
    expect(refusalOf(() => verifyPat(token, [authority], { ...expectedPat, now: NOW + 5 })).code).toBe(
      'invalid_request',
    )
  })

  it.each<[string, object]>([
    ['no owner', { sub: undefined }],
    ['no resource server', { azp: undefined }],
    ['no scope', { scope: undefined }],
    ['no exp', { exp: undefined }],
    ['another issuer', { iss: 'https://other.example' }],
  ])('is refused with %s', (_what, changes) => {
    const token = signJws({ typ: TYP.pat, payload: { ...patClaims(), ...changes } }, authority)
    expect(refusalOf(() => verifyPat(token, [authority], expectedPat)).code).toBe('invalid_request')
  })
})
