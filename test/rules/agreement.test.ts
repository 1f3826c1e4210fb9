import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OPTIONAL_ECHOES } from '../../src/wire/negotiation/terms.ts'
import {
  absencesOf,
  agreementFault,
  missionOf,
  operationOf,
  type SignedClaims,
} from '../../src/rules/agreement.ts'
import { absentEchoes, type OfferedTerms } from '../../src/rules/weakened-echo.ts'
import { asFamily } from '../../src/wire/identifiers.ts'

const NOW = 1_800_000_000
const SETTING = {
  issuer: 'https://as.example.com',
  now: NOW,
  maxReasonBytes: 512,
  agentIssuerPrefixes: ['agent:'],
}
const OFFER: OfferedTerms = {
  template_id: 'bea/reading/v3',
  terms_uri: 'https://as.example.com/terms/bea/reading/v3',
  proffered_by: 'https://as.example.com',
  purpose: 'portfolio review',
  scope: ['read', 'list'],
  expires_in: 3600,
  prohibited: ['resale', 'training'],
  resource_id: 'bea/portfolio',
  family: asFamily('fam_0123456789abcdef'),
  nonce: 'bm9uY2Vub25jZQ',
}
const ASKING: OfferedTerms = { ...OFFER, per_operation: true }
const OPERATION = { tool: 'place_trade', params: { symbol: 'VTI', qty: 2 } }
const honest = (changes: Record<string, unknown> = {}): SignedClaims => ({
  ...OFFER,
  iss: 'agent:key-1',
  aud: SETTING.issuer,
  iat: NOW,
  ...changes,
})
const without = (claim: string, claims: SignedClaims = honest()): SignedClaims =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => name !== claim))
const s256 = (length: number): string => 'a'.repeat(length)
const mission = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  mission: { approver: 'https://missions.example.com', s256: s256(43), ...changes },
})

describe('an agreement stands', () => {
  it.each<[string, SignedClaims, OfferedTerms]>([
    ['as the plain echo of the offer', honest(), OFFER],
    ['60 seconds before our clock', honest({ iat: NOW - 60 }), OFFER],
    ['60 seconds after our clock', honest({ iat: NOW + 60 }), OFFER],
    ['with us among its audiences', honest({ aud: ['https://x.example', SETTING.issuer] }), OFFER],
    ['with more prohibitions than offered', honest({ prohibited: ['x', 'training', 'resale'] }), OFFER],
    ['for a shorter time than offered', honest({ expires_in: 1 }), OFFER],
    ['for fewer scopes than offered', honest({ scope: ['list'] }), OFFER],
    ['without proffered_by', without('proffered_by'), OFFER],
    ['without resource_id', without('resource_id'), OFFER],
    ['without either', without('resource_id', without('proffered_by')), OFFER],
    ['with claims nobody knows', honest({ colour: 'red', introduction: 'x' }), OFFER],
    ['with a reason of exactly the bytes allowed', honest({ reason: 'é'.repeat(256) }), OFFER],
    ['with an empty reason', honest({ reason: '' }), OFFER],
    ['with a mission', honest(mission()), OFFER],
    ['with the shortest mission hash', honest(mission({ s256: s256(16) })), OFFER],
    ['with the longest mission hash', honest(mission({ s256: s256(128) })), OFFER],
    ['with an operation, per operation', honest({ operation: OPERATION }), ASKING],
    ['with an operation that names no params', honest({ operation: { tool: 'list' } }), ASKING],
    ['with an operation that is a string', honest({ operation: 'list' }), ASKING],
    ['with an operation nobody asked for', honest({ operation: OPERATION }), OFFER],
    ['with per_operation echoed', honest({ operation: OPERATION, per_operation: true }), ASKING],
    ['with per_operation false where it was not offered', honest({ per_operation: false }), OFFER],
  ])('%s', (_how, claims, offer) => {
    expect(agreementFault(claims, offer, SETTING)).toBeUndefined()
  })
})

describe('an agreement is refused with the claim and what to do', () => {
  it.each<[string, SignedClaims, string]>([
    ['no iss', without('iss'), 'iss'],
    ['iss that is no agent', honest({ iss: 'https://as.example.com' }), 'iss'],
    ['no aud', without('aud'), 'aud'],
    ['another aud', honest({ aud: 'https://other.example' }), 'aud'],
    ['aud with a slash too many', honest({ aud: 'https://as.example.com/' }), 'aud'],
    ['audiences without us', honest({ aud: ['https://other.example'] }), 'aud'],
    ['audiences that are not all strings', honest({ aud: [SETTING.issuer, 1] }), 'aud'],
    ['no iat', without('iat'), 'iat'],
    ['iat as a string', honest({ iat: String(NOW) }), 'iat'],
    ['iat with a fraction', honest({ iat: NOW + 0.5 }), 'iat'],
    ['iat 61 seconds back', honest({ iat: NOW - 61 }), 'iat'],
    ['iat 61 seconds ahead', honest({ iat: NOW + 61 }), 'iat'],
    ['another nonce', honest({ nonce: 'x' }), 'nonce'],
    ['another family', honest({ family: 'fam_x' }), 'family'],
    ['another version of the terms', honest({ template_id: 'bea/reading/v2' }), 'template_id'],
    ['another terms_uri', honest({ terms_uri: 'https://as.example.com/terms/x' }), 'terms_uri'],
    ['another proffered_by', honest({ proffered_by: 'https://x.example' }), 'proffered_by'],
    ['another resource', honest({ resource_id: 'bea/trades' }), 'resource_id'],
    ['a proffered_by that is null', honest({ proffered_by: null }), 'proffered_by'],
    ['a resource that is null', honest({ resource_id: null }), 'resource_id'],
    ['another purpose', honest({ purpose: 'anything' }), 'purpose'],
    ['a prohibition left out', honest({ prohibited: ['resale'] }), 'prohibited'],
    ['no prohibitions', without('prohibited'), 'prohibited'],
    ['prohibitions in one string', honest({ prohibited: 'resale training' }), 'prohibited'],
    [
      'prohibitions that are not all strings',
      honest({ prohibited: ['resale', 'training', null] }),
      'prohibited',
    ],
    ['expires_in beyond the offer', honest({ expires_in: 3601 }), 'expires_in'],
    ['expires_in 0', honest({ expires_in: 0 }), 'expires_in'],
    ['expires_in below 0', honest({ expires_in: -5 }), 'expires_in'],
    ['expires_in with a fraction', honest({ expires_in: 10.5 }), 'expires_in'],
    ['expires_in as a string', honest({ expires_in: '3600' }), 'expires_in'],
    ['no expires_in', without('expires_in'), 'expires_in'],
    ['a scope that was not offered', honest({ scope: ['read', 'trade'] }), 'scope'],
    ['no scopes', honest({ scope: [] }), 'scope'],
    ['scopes in one string', honest({ scope: 'read list' }), 'scope'],
    ['a reason one byte too long', honest({ reason: `${'é'.repeat(256)}x` }), 'reason'],
    ['a reason that is no text', honest({ reason: 7 }), 'reason'],
    ['a reason that is null', honest({ reason: null }), 'reason'],
    ['a mission that is text', honest({ mission: 'x' }), 'mission'],
    ['a mission that is null', honest({ mission: null }), 'mission'],
    ['a mission without approver', honest(mission({ approver: undefined })), 'mission'],
    ['a mission approved over http', honest(mission({ approver: 'http://missions.example.com' })), 'mission'],
    ['a mission with a broken URL', honest(mission({ approver: 'https://a b' })), 'mission'],
    ['a mission with a control character', honest(mission({ approver: 'https://a.example/\n' })), 'mission'],
    ['a mission with no host', honest(mission({ approver: 'https://' })), 'mission'],
    ['a mission hash of 15 characters', honest(mission({ s256: s256(15) })), 'mission'],
    ['a mission hash of 129 characters', honest(mission({ s256: s256(129) })), 'mission'],
    ['a mission hash with a space', honest(mission({ s256: `${s256(16)} ` })), 'mission'],
    ['a mission hash that is no text', honest(mission({ s256: 43 })), 'mission'],
  ])('%s', (_how, claims, claim) => {
    const fault = agreementFault(claims, OFFER, SETTING)
    expect(fault?.split(':')[0]).toBe(claim)
    expect(fault).toMatch(/^[a-z_]+: .{10,}\.$/)
  })

  it.each<[string, SignedClaims, string]>([
    ['no operation', honest(), 'operation'],
    ['an operation that is null', honest({ operation: null }), 'operation'],
    ['an operation that is a list', honest({ operation: [OPERATION] }), 'operation'],
    ['an empty tool', honest({ operation: '' }), 'operation'],
    ['an operation without tool', honest({ operation: { params: {} } }), 'operation'],
    ['an operation with an empty tool', honest({ operation: { tool: '', params: {} } }), 'operation'],
    ['params that are a list', honest({ operation: { tool: 'x', params: [1] } }), 'operation'],
    ['params that are null', honest({ operation: { tool: 'x', params: null } }), 'operation'],
    ['an operation with more to it', honest({ operation: { ...OPERATION, note: 'x' } }), 'operation'],
    [
      'an operation too large',
      honest({ operation: { tool: 'x', params: { note: 'é'.repeat(8200) } } }),
      'operation',
    ],
    ['per_operation contradicted', honest({ operation: OPERATION, per_operation: false }), 'per_operation'],
  ])('on a per-operation tier: %s', (_how, claims, claim) => {
    expect(agreementFault(claims, ASKING, SETTING)?.split(':')[0]).toBe(claim)
  })

  it('an operation of exactly 16 KiB still passes, one byte more does not', () => {
    const frame = '{"params":{"note":""},"tool":"x"}'.length
    const sized = (bytes: number): SignedClaims =>
      honest({ operation: { tool: 'x', params: { note: 'n'.repeat(bytes - frame) } } })
    expect(agreementFault(sized(16_384), ASKING, SETTING)).toBeUndefined()
    expect(agreementFault(sized(16_385), ASKING, SETTING)).toMatch(/^operation: keep .* 16384 bytes/)
  })

  it('the checks run in a fixed order: the first claim that fails is named', () => {
    const order = ['iss', 'aud', 'iat', 'nonce', 'family', 'template_id', 'terms_uri', 'proffered_by']
    order.push(
      'resource_id',
      'purpose',
      'prohibited',
      'expires_in',
      'scope',
      'operation',
      'reason',
      'mission',
    )
    const whole: Record<string, unknown> = { ...honest({ operation: OPERATION, reason: 'x', ...mission() }) }
    for (const [at, claim] of order.entries()) {
      const brokenFromHere = Object.fromEntries(order.slice(at).map(name => [name, 0]))
      expect(agreementFault({ ...whole, ...brokenFromHere }, ASKING, SETTING)).toMatch(
        new RegExp(`^${claim}: `),
      )
    }
    expect(agreementFault(whole, ASKING, SETTING)).toBeUndefined()
  })
})

const text = fc.string({ minLength: 1, maxLength: 20 })
const anyOffer: fc.Arbitrary<OfferedTerms> = fc.record({
  template_id: text,
  terms_uri: text,
  proffered_by: text,
  purpose: text,
  scope: fc.uniqueArray(text, { minLength: 1, maxLength: 5 }),
  expires_in: fc.integer({ min: 1, max: 1_000_000 }),
  prohibited: fc.uniqueArray(text, { maxLength: 5 }),
  resource_id: text,
  family: text.map(asFamily),
  nonce: text,
})
const echo = (offer: OfferedTerms): Record<string, unknown> => ({
  ...structuredClone(offer),
  iss: 'agent:x',
  aud: SETTING.issuer,
  iat: NOW,
})
const REPEATED = [
  'template_id',
  'terms_uri',
  'proffered_by',
  'purpose',
  'resource_id',
  'family',
  'nonce',
] as const
const isOptional = (claim: string): boolean => OPTIONAL_ECHOES.some(optional => optional === claim)

describe('whatever the offer', () => {
  it('the honest echo passes, also a narrower one', () => {
    fc.assert(
      fc.property(anyOffer, text, fc.nat(), (offer, extra, cut) => {
        expect(agreementFault(echo(offer), offer, SETTING)).toBeUndefined()
        const narrower = {
          ...echo(offer),
          prohibited: [extra, ...offer.prohibited],
          scope: [offer.scope[cut % offer.scope.length]],
          expires_in: 1 + (cut % offer.expires_in),
        }
        expect(agreementFault(narrower, offer, SETTING)).toBeUndefined()
      }),
    )
  })

  it('another value of any repeated claim is refused by name', () => {
    fc.assert(
      fc.property(anyOffer, fc.constantFrom(...REPEATED), fc.anything(), (offer, claim, value) => {
        fc.pre(value !== offer[claim] && !(value === undefined && isOptional(claim)))
        expect(agreementFault({ ...echo(offer), [claim]: value }, offer, SETTING)).toMatch(
          new RegExp(`^${claim}: `),
        )
      }),
    )
  })

  it('any claim of the echo left out is refused by name, but for those that are told as absent', () => {
    const claims = [
      ...REPEATED.filter(claim => !isOptional(claim)),
      'prohibited',
      'scope',
      'expires_in',
      'iss',
      'aud',
      'iat',
    ]
    fc.assert(
      fc.property(anyOffer, fc.constantFrom(...claims), (offer, claim) => {
        expect(agreementFault(without(claim, echo(offer)), offer, SETTING)).toMatch(new RegExp(`^${claim}: `))
      }),
    )
  })

  it('a weakened list or a longer time is refused by name', () => {
    fc.assert(
      fc.property(anyOffer, fc.nat(), text, (offer, at, extra) => {
        fc.pre(offer.prohibited.length > 0 && !offer.scope.includes(extra))
        const dropped = offer.prohibited.filter((_item, index) => index !== at % offer.prohibited.length)
        const weakened: [string, unknown][] = [
          ['prohibited', dropped],
          ['scope', [...offer.scope, extra]],
          ['scope', []],
          ['expires_in', offer.expires_in + 1 + at],
        ]
        for (const [claim, value] of weakened)
          expect(agreementFault({ ...echo(offer), [claim]: value }, offer, SETTING)).toMatch(
            new RegExp(`^${claim}: `),
          )
      }),
    )
  })

  it('values of any type are refused or accepted, never thrown on', () => {
    const claim = fc.constantFrom(...Object.keys(honest()), 'operation', 'reason', 'mission', 'per_operation')
    fc.assert(
      fc.property(claim, fc.jsonValue(), fc.boolean(), (name, value, per_operation) => {
        const fault = agreementFault({ ...honest(), [name]: value }, per_operation ? ASKING : OFFER, SETTING)
        expect(['string', 'undefined']).toContain(typeof fault)
      }),
    )
  })
})

describe('what is read of an agreement that stands', () => {
  it.each([
    [OPERATION, OPERATION],
    [{ tool: 'list' }, { tool: 'list', params: {} }],
    ['list', { tool: 'list', params: {} }],
    [undefined, undefined],
    [{ tool: 5 }, undefined],
    [42, undefined],
  ])('operation %o is %o', (operation, expected) => {
    expect(operationOf({ operation })).toEqual(expected)
  })

  it.each([
    [honest(), []],
    [without('resource_id'), ['resource_id']],
    [without('resource_id', without('proffered_by')), ['proffered_by', 'resource_id']],
    [honest({ proffered_by: null }), []],
  ])('what it left out of the offer is told: %o', (claims, absent) => {
    expect(absentEchoes(claims)).toEqual(absent)
  })

  it('a mission is its approver and hash, nothing beside', () => {
    expect(missionOf(mission({ note: 'x' }))).toEqual({
      approver: 'https://missions.example.com',
      s256: s256(43),
    })
    expect(missionOf({})).toBeUndefined()
  })

  it.each([
    [{}, { reasonAbsent: true, missionAbsent: true }],
    [{ reason: '' }, { reasonAbsent: true, missionAbsent: true }],
    [
      { reason: 'x', ...mission() },
      { reasonAbsent: false, missionAbsent: false },
    ],
  ])('policy sees only whether reason and mission are missing: %o', (claims, expected) => {
    expect(absencesOf(claims)).toEqual(expected)
  })
})
