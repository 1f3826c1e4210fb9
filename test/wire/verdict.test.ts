/** What passes between a tally and a holder: contract, "Tally for a jointly held resource". */
import { describe, expect, it } from 'vitest'
import { asFamily, asOwner } from '../../src/wire/identifiers.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import {
  signTallyRequest,
  signVerdict,
  signWithdrawal,
  tallyRequestIssuer,
  verdictSigner,
  verifyTallyRequest,
  verifyVerdict,
  verifyWithdrawal,
  type Verdict,
  type VerdictRequest,
  type Withdrawal,
} from '../../src/wire/joint/verdict.ts'
import { allowance, BEA, TALLY } from '../support/joint.ts'
import { refusalOf } from '../support/refusals.ts'
import { newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()
const ALLOW = allowance('s256:mandate', BEA)
const {
  mandate_s256: _m,
  cnf_jkt: _k,
  scope: _s,
  expires_in: _e,
  ...binding
} = ALLOW as Record<string, unknown>
const DENY = { ...binding, effect: 'deny', because: 'policy' } as Verdict
const signed = (typ: string, claims: object, by = key) => signJws({ typ, payload: claims }, by)
const expected = { issuer: BEA.issuer, audience: TALLY }
const verify = (changes: object = {}, verdict: object = ALLOW) =>
  verifyVerdict(signed(TYP.verdict, { ...verdict, ...changes }), [key], expected)

describe('A verdict', () => {
  it('is read as it was signed, an allow with what it allows and a refusal with why', () => {
    expect(verifyVerdict(signVerdict(ALLOW, key), [key], expected)).toEqual(ALLOW)
    expect(verify({}, DENY)).toEqual(DENY)
    const operation = { tool: 'pay', params_s256: 's256:x' }
    expect(verify({ operation })).toEqual({ ...ALLOW, operation })
    expect(verify({ iss: `${BEA.issuer}/` })).toEqual(ALLOW)
    expect(verdictSigner(signVerdict(ALLOW, key))).toEqual({
      issuer: BEA.issuer,
      holder: 'bea',
      kid: key.kid,
    })
  })

  it('of which a refusal says more than it needs says no more for it', () => {
    expect(verify({ ...ALLOW, effect: 'deny' })).not.toHaveProperty('scope')
  })

  it('is not judged by its exp: that ends its collection, and nothing else', () => {
    expect(verify({ iat: 1, exp: 2 })).toMatchObject({ iat: 1, exp: 2 })
  })

  it.each(Object.keys(ALLOW))('without %s is refused', name => {
    expect(refusalOf(() => verify({ [name]: undefined })).code).toBe('invalid_request')
  })

  it.each<[string, object]>([
    ['of another authority', { iss: 'https://as.carl.test' }],
    ['for another tally', { aud: 'https://tally.elsewhere' }],
    ['whose effect is a maybe', { effect: 'ask' }],
    ['for no time', { expires_in: 0 }],
    ['for ever', { expires_in: 1e300 }],
    ['of no certain date', { iat: '1790000000' }],
    ['with one scope as text', { scope: 'read' }],
    ['with an operation in words', { operation: 'pay' }],
    ['with an operation without parameters', { operation: { tool: 'pay' } }],
    ['of more than 2 KiB', { because: 'x'.repeat(2_048) }],
  ])('%s is refused', (_what, changes) => {
    expect(refusalOf(() => verify(changes)).code).toBe('invalid_request')
  })

  it('by another key is none, and none is signed that nobody would read', () => {
    expect(refusalOf(() => verifyVerdict(signed(TYP.verdict, ALLOW, newKey()), [key], expected)).code).toBe(
      'invalid_request',
    )
    const large = allowance('s256:mandate', BEA, { scope: ['x'.repeat(2_000)] })
    expect(refusalOf(() => signVerdict(large, key)).code).toBe('invalid_request')
    expect(refusalOf(() => verdictSigner(signed(TYP.rpt, ALLOW))).code).toBe('invalid_request')
  })
})

const WITHDRAWAL: Withdrawal = {
  iss: BEA.issuer,
  aud: TALLY,
  holder: asOwner('bea'),
  account: asOwner('family-1'),
  negotiations: [asFamily('fam_1')],
  iat: NOW,
  exp: NOW + 300,
  jti: 'wdr_1',
}

describe('A withdrawal', () => {
  const read = (changes: object = {}, now = NOW) =>
    verifyWithdrawal(signed(TYP.verdictWithdrawal, { ...WITHDRAWAL, ...changes }), [key], {
      ...expected,
      now,
    })

  it('is read as it was signed, of some negotiations or of all', () => {
    const { negotiations: _some, ...rest } = WITHDRAWAL
    expect(verifyWithdrawal(signWithdrawal(WITHDRAWAL, key), [key], { ...expected, now: NOW })).toEqual(
      WITHDRAWAL,
    )
    expect(read({ negotiations: undefined, all: true })).toEqual({ ...rest, all: true })
  })

  it.each<[string, object]>([
    ['of neither some nor all', { negotiations: undefined }],
    ['of both', { all: true }],
    ['of all: false', { negotiations: undefined, all: false }],
    ['of none', { negotiations: [] }],
    ['of more than 100', { negotiations: Array.from({ length: 101 }, (_, i) => `fam_${i}`) }],
    ['without a jti', { jti: undefined }],
    ['without an end', { exp: undefined }],
    ['that lasts longer than 300 s', { exp: NOW + 301 }],
    ['from the future', { iat: NOW + 61, exp: NOW + 300 }],
    ['to another tally', { aud: 'https://tally.elsewhere' }],
    ['by another authority', { iss: 'https://as.carl.test' }],
  ])('%s is refused', (_what, changes) => {
    expect(refusalOf(() => read(changes)).code).toBe('invalid_request')
  })

  it('has ended at its exp', () => {
    expect(refusalOf(() => read({}, NOW + 300)).code).toBe('invalid_request')
  })
})

const REQUEST: VerdictRequest = {
  iss: TALLY,
  aud: BEA.issuer,
  owner: asOwner('bea'),
  account: asOwner('family-1'),
  resource_id: 'family-1/savings',
  iat: NOW,
  exp: NOW + 120,
  negotiation: asFamily('fam_1'),
  contract: `s256:${'a'.repeat(43)}`,
  agreement: 'a.b.c',
  final: false,
}

describe("A tally's request", () => {
  const read = (changes: object = {}, now = NOW) =>
    verifyTallyRequest(signed(TYP.tallyRequest, { ...REQUEST, ...changes }), [key], {
      issuer: TALLY,
      audience: BEA.issuer,
      now,
    })

  it('is read as it was signed, and for a quote if it names no negotiation', () => {
    expect(read()).toEqual(REQUEST)
    expect(read({ closed: true, final: undefined })).toMatchObject({ closed: true })
    expect(read({ closed: false })).toEqual(REQUEST)
    const { negotiation: _n, contract: _c, agreement: _a, final: _f, ...quote } = REQUEST
    expect(read({ negotiation: undefined })).toEqual(quote)
    expect(tallyRequestIssuer(signTallyRequest(REQUEST, key))).toBe(TALLY)
    expect(refusalOf(() => tallyRequestIssuer(signed(TYP.verdict, REQUEST))).code).toBe('invalid_request')
  })

  it('has room for the largest agreement', () => {
    const agreement = `a.${'b'.repeat(32_000)}.c`
    expect(read({ agreement })).toMatchObject({ agreement })
  })

  it.each<[string, object]>([
    ['to another authority', { aud: 'https://as.carl.test' }],
    ['of another tally', { iss: 'https://tally.elsewhere' }],
    ['that lasts longer than 120 s', { exp: NOW + 121 }],
    ['without an owner', { owner: undefined }],
    ['without a resource', { resource_id: undefined }],
    ['about a negotiation without its agreement', { agreement: undefined }],
    ['with an agreement that is no JWS', { agreement: 'signed' }],
    ['without the digest of the agreement', { contract: undefined }],
    ['final in words', { final: 'yes' }],
    ['closed in words', { closed: 'yes' }],
  ])('%s is refused', (_what, changes) => {
    expect(refusalOf(() => read(changes)).code).toBe('invalid_request')
  })

  it('has ended at its exp', () => {
    expect(refusalOf(() => read({}, NOW + 120)).code).toBe('invalid_request')
  })
})
