import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { signAgreement, signReceipt, verifyAgreement } from '../../src/wire/negotiation/agreement.ts'
import { verifyReceipt } from '../../src/wire/negotiation/receipt.ts'
import { encodeBase64url, s256 } from '../../src/wire/encoding.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { refusalOf } from '../support/refusals.ts'
import {
  agentToken,
  agreementContent,
  ISSUER,
  newKey,
  NOW,
  receiptClaims,
  TEMPLATE,
} from '../support/wire-samples.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'

const authority = newKey()
const agent = newKey()
const agreement = verifyAgreement(signAgreement(agreementContent({ reason: 'because' }), agent))
const claims = receiptClaims(agent, agreement)
const expected = { issuer: ISSUER, now: NOW }

function refused(changes: object, key = authority): string {
  return refusalOf(() => verifyReceipt(signReceipt({ ...claims, ...changes }, key), [authority], expected))
    .code
}

describe('a receipt', () => {
  it('reads back as signed, with the claims of the agreement in it', () => {
    const compact = signReceipt(claims, authority)
    const receipt = verifyReceipt(compact, [authority], { ...expected, agreement: agreement.hash })
    expect(receipt.claims).toEqual(claims)
    expect(receipt.compact).toBe(compact)
    expect(receipt.agreementClaims).toEqual(agreement.claims)
  })

  it('reads back whatever its texts are', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 })
    const named = { sub: text.map(asHandle), owner: text.map(asOwner) }
    const anyClaims = fc.record({ ...named, jti: text, rpt: text, iat: fc.nat(NOW) })
    fc.assert(
      fc.property(anyClaims, changes => {
        const given = { ...claims, ...changes }
        expect(verifyReceipt(signReceipt(given, authority), [authority], expected).claims).toEqual(given)
      }),
    )
  })

  it('names what the agreement in it left out of the offer', () => {
    const { proffered_by: _, resource_id: __, ...said } = agreement.claims
    const compact = signJws({ kid: false, header: { jwk: agent.jwk }, payload: said }, agent)
    const given = receiptClaims(agent, { compact, hash: s256(compact) })
    const told = { ...given, echo_absent: ['proffered_by', 'resource_id'] }
    expect(verifyReceipt(signReceipt(told, authority), [authority], expected).claims).toEqual(told)
    for (const untold of [given, { ...given, echo_absent: ['resource_id'] }])
      expect(refusalOf(() => verifyReceipt(signReceipt(untold, authority), [authority], expected)).code).toBe(
        'invalid_request',
      )
  })

  it('has no end: it verifies years later', () => {
    const later = { issuer: ISSUER, now: NOW + 20 * 365 * 86_400 }
    expect(verifyReceipt(signReceipt(claims, authority), [authority], later).claims.rpt).toBe('rpt_AAAA')
  })

  it('verifies around the largest agreement a claim_token can hold', () => {
    const large = verifyAgreement(signAgreement(agreementContent({ reason: 'x'.repeat(17_600) }), agent))
    const compact = signReceipt(receiptClaims(agent, large), authority)
    expect(compact.length).toBeGreaterThan(32 * 1024)
    expect(verifyReceipt(compact, [authority], expected).claims.agreement).toBe(large.hash)
  })

  it('verifies around an agreement under an agent token, though that may have expired since', () => {
    const agent_token = agentToken(newKey(), agent, { exp: NOW - 1 })
    const compact = decoded(signAgreement(agreementContent({ agent_token }), agent))
    const given = receiptClaims(agent, { compact, hash: s256(compact) })
    expect(verifyReceipt(signReceipt(given, authority), [authority], expected).claims).toEqual(given)
  })

  it('is refused under another key of the same kid, and from another issuer', () => {
    const impostor = { ...newKey(), kid: authority.kid }
    expect(refused({}, impostor)).toBe('invalid_request')
    expect(refused({ iss: 'https://evil.example' })).toBe('invalid_request')
    const wanted = { ...expected, issuer: 'https://evil.example' }
    expect(refusalOf(() => verifyReceipt(signReceipt(claims, authority), [authority], wanted)).code).toBe(
      'invalid_request',
    )
  })

  it('without an owner is about the one of the grant it came with, and about nobody without that', () => {
    const compact = signReceipt({ ...claims, owner: undefined } as unknown as typeof claims, authority)
    const owner = asOwner('bea')
    expect(verifyReceipt(compact, [authority], { ...expected, owner }).claims.owner).toBe(owner)
    expect(refusalOf(() => verifyReceipt(compact, [authority], expected)).code).toBe('invalid_request')
    for (const unusable of [null, '', 7]) expect(refused({ owner: unusable })).toBe('invalid_request')
    const named = signReceipt({ ...claims, owner: asOwner('cleo') }, authority)
    expect(verifyReceipt(named, [authority], { ...expected, owner }).claims.owner).toBe('cleo')
  })

  it('is refused for another agreement than the one that was signed', () => {
    const wanted = { ...expected, agreement: s256('another') }
    expect(refusalOf(() => verifyReceipt(signReceipt(claims, authority), [authority], wanted)).code).toBe(
      'invalid_request',
    )
  })

  it.each<[string, object]>([
    ['another hash', { agreement: s256('x') }],
    ['another key', { cnf: { jkt: newKey().thumbprint } }],
    ['another family', { family: 'fam_BBBBBBBBBBB' }],
    ['another template', { template_id: 'bea/reading/v4' }],
    ['other terms', { terms_uri: 'https://as.example.com/terms/bea/reading/v4' }],
    ['another resource', { resource_id: 'bea/trades' }],
    ['no resource', { resource_id: undefined }],
    ['something told as absent that is there', { echo_absent: ['resource_id'] }],
    ['no agreement in it', { agreement_jws: undefined }],
    ['an agreement that is no JWS', { agreement_jws: 'x', agreement: s256('x') }],
    ['no rpt', { rpt: undefined }],
    ['no owner', { owner: '' }],
    ['no key', { cnf: {} }],
    ['an iat as text', { iat: String(NOW) }],
    ['an iat ahead', { iat: NOW + 61 }],
  ])('is refused with %s', (_what, changes) => {
    expect(refused(changes)).toBe('invalid_request')
  })

  it('is refused around an agreement that its agent did not sign', () => {
    const forged = signJws({ kid: false, header: { jwk: agent.jwk }, payload: agreement.claims }, newKey())
    expect(refused({ agreement_jws: forged, agreement: s256(forged) })).toBe('invalid_request')
  })

  it('is refused around a signed document of another kind', () => {
    const other = signJws(
      { typ: 'at+jwt', kid: false, header: { jwk: agent.jwk }, payload: { ...TEMPLATE } },
      agent,
    )
    expect(refused({ agreement_jws: other, agreement: s256(other) })).toBe('invalid_request')
  })

  it('is refused if the agreement is embedded once more encoded', () => {
    const encoded = encodeBase64url(agreement.compact)
    expect(refused({ agreement_jws: encoded, agreement: agreement.hash })).toBe('invalid_request')
  })
})

function decoded(claimToken: string): string {
  return Buffer.from(claimToken, 'base64url').toString()
}
