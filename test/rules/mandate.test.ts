/**
 * Which mandates are lawful and how verdicts are counted: contract, "Tally for a jointly held resource" and
 * "Authorized call", order 2.
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  countVerdicts,
  coversResource,
  mandateFault,
  type CountedMandate,
  type JointGrant,
} from '../../src/rules/joint/mandate.ts'
import { parseMandate } from '../../src/wire/joint/mandate.ts'
import type { Verdict } from '../../src/wire/joint/verdict.ts'
import {
  allowance,
  BEA,
  CARL,
  JOINT_GRANT,
  MANDATE_DOCUMENT,
  mandateOf,
  TALLY,
  verified,
} from '../support/joint.ts'
import { NOW } from '../support/wire-samples.ts'

const holder = (owner: string, weight = 1, issuer = BEA.issuer) => ({ owner, issuer, weight })
const many = (count: number) => Array.from({ length: count }, (_, i) => holder(`h${i}`))
const faultOf = (changes: object) => {
  const { total_weight: _sum, ...rest } = MANDATE_DOCUMENT
  return mandateFault(parseMandate({ ...rest, ...changes }))
}

describe('A mandate is lawful', () => {
  it.each<[string, object]>([
    ['of two holders at two authorities', {}],
    ['of two holders at one authority', { holders: [holder('bea'), holder('carl')], rule: { kind: 'any' } }],
    ['of one name at two authorities', { holders: [holder('bea'), holder('bea', 1, CARL.issuer)] }],
    ['of 16 holders', { holders: many(16), rule: { kind: 'any' } }],
    ['by threshold up to the weight of all', { rule: { kind: 'threshold', threshold: 2 } }],
    ['over several patterns', { resources: ['family-1/*', 'family-1/house/*-key'] }],
    ['at an authority below a path', { holders: [holder('bea', 1, 'https://as.test/bea'), holder('carl')] }],
  ])('%s', (_what, changes) => {
    expect(faultOf({ rule: { kind: 'all' }, ...changes })).toBeUndefined()
  })
})

describe('A mandate is not lawful', () => {
  it.each<[string, string, object]>([
    ['holders', 'of one holder', { holders: [holder('bea')] }],
    ['holders', 'of 17', { holders: many(17) }],
    ['holders[1]', 'that names a holder twice', { holders: [holder('bea'), holder('bea', 2)] }],
    ['holders[1]', 'twice, with a slash', { holders: [holder('bea'), holder('bea', 1, `${BEA.issuer}/`)] }],
    ['holders[0].owner', 'whose holder has no name', { holders: [holder('be/a'), holder('carl')] }],
    [
      'holders[0].issuer',
      'at an authority without TLS',
      { holders: [holder('bea', 1, 'http://as.bea.test'), holder('carl')] },
    ],
    [
      'holders[0].issuer',
      'in another spelling',
      { holders: [holder('bea', 1, 'https://AS.bea.test'), holder('carl')] },
    ],
    [
      'holders[0].issuer',
      'with its port',
      { holders: [holder('bea', 1, 'https://as.bea.test:443'), holder('carl')] },
    ],
    [
      'holders[0].issuer',
      'with a query',
      { holders: [holder('bea', 1, 'https://as.bea.test/?a'), holder('carl')] },
    ],
    [
      'holders[0].issuer',
      'with the dot of the root',
      { holders: [holder('bea', 1, 'https://as.bea.test.'), holder('carl')] },
    ],
    [
      'holders[1].issuer',
      'whose holder is at the tally',
      { holders: [holder('bea'), holder('carl', 1, TALLY)] },
    ],
    ['holders[0].weight', 'with a holder of no weight', { holders: [holder('bea', 0), holder('carl')] }],
    ['holders[0].weight', 'with one of 1001', { holders: [holder('bea', 1_001), holder('carl')] }],
    ['rule.threshold', 'that takes nobody', { rule: { kind: 'threshold', threshold: 0 } }],
    ['rule.threshold', 'that takes more than all', { rule: { kind: 'threshold', threshold: 3 } }],
    ['resources', 'over nothing', { resources: [] }],
    [
      'resources',
      'over more than 100 patterns',
      { resources: Array.from({ length: 101 }, (_, i) => `family-1/${i}`) },
    ],
    ['resources[0]', 'over another account', { resources: ['family-2/*'] }],
    ['resources[0]', 'over any account', { resources: ['*/savings'] }],
    ['resources[0]', 'over an account whose name begins alike', { resources: ['family-10/*'] }],
    ['resources[0]', 'over the account and nothing in it', { resources: ['family-1'] }],
    ['resources[1]', 'that repeats a pattern', { resources: ['family-1/*', 'family-1/*'] }],
    ['account', 'whose account has no name', { account: '-' }],
    ['tally', 'whose tally has no TLS', { tally: 'http://tally.example' }],
  ])('%s: %s', (path, _what, changes) => {
    expect(faultOf({ rule: { kind: 'any' }, ...changes })).toMatch(`${path}: `)
  })

  it('whose kind implies another threshold, however it came to be', () => {
    expect(mandateFault({ ...mandateOf(), rule: { kind: 'all', threshold: 1 } })).toMatch('rule.threshold: ')
    expect(mandateFault({ ...mandateOf(), rule: { kind: 'any', threshold: 2 } })).toMatch('rule.threshold: ')
  })
})

it('A mandate covers the resources that its patterns name, and no others', () => {
  expect(coversResource(mandateOf(), 'family-1/savings')).toBe(true)
  for (const id of ['family-1', 'family-1/a/b', 'family-2/savings', 'bea/savings'])
    expect(coversResource(mandateOf(), id)).toBe(false)
})

const mandate = mandateOf()
const { mandate_s256 } = mandate
const byBea = (changes: object = {}) => verified(allowance(mandate_s256, BEA, changes))
const byCarl = (changes: object = {}) => verified(allowance(mandate_s256, CARL, changes))
const count = (verdicts: ReturnType<typeof byBea>[], grant: Partial<JointGrant> = {}, now = NOW) =>
  countVerdicts(mandate, verdicts, { ...JOINT_GRANT, ...grant }, now)
const PAY = { tool: 'pay', params_s256: 's256:fifty' }

describe('Verdicts are counted', () => {
  it('to the weight of the holders who allow', () => {
    expect(count([byBea(), byCarl()])).toEqual({ isSatisfied: true, weight: 2, faults: [] })
    expect(count([byBea()])).toEqual({ isSatisfied: false, weight: 1, faults: [] })
    expect(count([])).toEqual({ isSatisfied: false, weight: 0, faults: [] })
    const heavy = mandateOf({
      holders: [
        { ...BEA, weight: 3 },
        { ...CARL, weight: 1 },
      ],
      rule: { kind: 'threshold', threshold: 3 },
    })
    const allow = verified(allowance(heavy.mandate_s256, BEA))
    expect(countVerdicts(heavy, [allow], JOINT_GRANT, NOW)).toMatchObject({ isSatisfied: true, weight: 3 })
  })

  it('one for each holder, however often she allowed', () => {
    expect(count([byBea(), byBea(), byBea({ iat: NOW - 1 })])).toMatchObject({
      isSatisfied: false,
      weight: 1,
    })
  })

  it('and who refused does not allow, whatever else she signed', () => {
    expect(count([byBea(), byCarl(), byCarl({ effect: 'deny' })])).toMatchObject({
      isSatisfied: false,
      weight: 1,
    })
  })

  it('beside others that are of no account', () => {
    expect(count([byBea({ cnf_jkt: 'another' }), byBea(), byCarl()])).toEqual({
      isSatisfied: true,
      weight: 2,
      faults: ['other_key'],
    })
  })

  it.each<[string, string, object]>([
    ['foreign', 'of somebody who does not hold it', { holder: 'eve' }],
    ['foreign', 'of that name at another authority', { iss: 'https://as.eve.test' }],
    ['foreign', "of one holder at the other's authority", { iss: CARL.issuer }],
    ['other_account', 'for another account', { account: 'family-2' }],
    ['other_negotiation', 'of another negotiation', { negotiation: 'fam_2' }],
    ['other_contract', 'to another agreement', { contract: 's256:other' }],
    ['other_resource', 'over another resource', { resource_id: 'family-1/house' }],
    ['from_the_future', 'of a date that is to come', { iat: NOW + 61 }],
    ['other_mandate', 'under another mandate', { mandate_s256: 's256:other' }],
    ['other_key', 'for another key', { cnf_jkt: 'another' }],
    ['wider', 'for fewer scopes than the grant has', { scope: ['trade'] }],
    ['longer', 'for less time than the grant has', { expires_in: 599 }],
    ['longer', 'for a time that began too early', { iat: NOW - 3_001 }],
    ['other_operation', 'for one operation, where the grant is for any', { operation: PAY }],
  ])('never: %s, %s', (fault, _what, changes) => {
    expect(count([byBea(changes), byCarl()])).toEqual({ isSatisfied: false, weight: 1, faults: [fault] })
  })

  it('as long as each allows it, to the second', () => {
    const grant = { exp: NOW + 600 }
    const last = [byBea({ expires_in: 600 }), byCarl()]
    expect(count(last, grant, NOW + 600).isSatisfied).toBe(true)
    expect(count(last, grant, NOW + 601)).toMatchObject({ isSatisfied: false, faults: ['expired'] })
    expect(count([byBea({ iat: NOW + 60 }), byCarl()]).isSatisfied).toBe(true)
  })

  it('for one operation, if one of them allows no more', () => {
    const verdicts = [byBea({ operation: PAY }), byCarl()]
    const grant = { operation: PAY, single_use: true }
    expect(count(verdicts, grant).isSatisfied).toBe(true)
    expect(count(verdicts, { ...grant, single_use: false }).isSatisfied).toBe(false)
    expect(count(verdicts, { ...grant, operation: { ...PAY, tool: 'lend' } }).isSatisfied).toBe(false)
    expect(count(verdicts, { ...grant, operation: { ...PAY, params_s256: 's256:sixty' } }).isSatisfied).toBe(
      false,
    )
  })
})

const NAMES = ['bea', 'carl', 'dora', 'emil'] as const
const ISSUERS = [BEA.issuer, CARL.issuer] as const
const lawful: fc.Arbitrary<CountedMandate> = fc
  .record({
    weights: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 4 }),
    threshold: fc.integer({ min: 1, max: 8 }),
  })
  .map(({ weights, threshold }) => {
    const total = weights.reduce((sum, one) => sum + one, 0)
    return mandateOf({
      holders: weights.map((weight, i) => holder(NAMES[i]!, weight, ISSUERS[i % 2])),
      rule: { kind: 'threshold', threshold: Math.min(threshold, total) },
    })
  })

const CHANGES: readonly object[] = [
  { holder: 'eve' },
  { account: 'family-2' },
  { negotiation: 'fam_2' },
  { contract: 's256:other' },
  { resource_id: 'family-1/house' },
  { iat: NOW + 61 },
  { mandate_s256: 's256:other' },
  { cnf_jkt: 'another' },
  { scope: [] },
  { expires_in: 599 },
  { iat: NOW - 3_601 },
  { operation: PAY },
]
interface Said {
  by: number
  effect: 'allow' | 'deny'
  change: object
}
const said: fc.Arbitrary<Said> = fc.record({
  by: fc.nat(3),
  effect: fc.constantFrom('allow', 'allow', 'deny'),
  change: fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, fc.constantFrom(...CHANGES)),
})
const verdictOf = (of: CountedMandate, { by, effect, change }: Said) => {
  const who = of.holders[by % of.holders.length]!
  return verified({ ...allowance(of.mandate_s256, who), effect, ...change } as Verdict)
}
const weigh = (of: CountedMandate, all: readonly Said[]) =>
  countVerdicts(
    of,
    all.map(one => verdictOf(of, one)),
    JOINT_GRANT,
    NOW,
  )

describe('Counting is monotone', () => {
  it('one more allow never lowers the weight, one more refusal never raises it', () => {
    fc.assert(
      fc.property(lawful, fc.array(said), said, (of, all, more) => {
        const before = weigh(of, all).weight
        expect(weigh(of, [...all, { ...more, effect: 'allow' }]).weight).toBeGreaterThanOrEqual(before)
        expect(weigh(of, [...all, { ...more, effect: 'deny' }]).weight).toBeLessThanOrEqual(before)
      }),
    )
  })

  it('in whatever order and however often each is given', () => {
    const shuffled = fc
      .array(said)
      .chain(all => fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })))
    fc.assert(
      fc.property(lawful, shuffled, (of, [all, other]) => {
        expect(weigh(of, [...other, ...all]).weight).toBe(weigh(of, all).weight)
      }),
    )
  })

  it('and what is forged, foreign or of something else adds nothing', () => {
    const bad = fc.record({
      by: fc.nat(3),
      effect: fc.constant('allow' as const),
      change: fc.constantFrom(...CHANGES),
    })
    fc.assert(
      fc.property(lawful, fc.array(said), fc.array(bad), (of, all, more) => {
        expect(weigh(of, [...all, ...more]).weight).toBe(weigh(of, all).weight)
      }),
    )
  })
})

it('The tally and the enforcement point come to the same, as a plain count does', () => {
  fc.assert(
    fc.property(lawful, fc.array(said), (of, all) => {
      const speaks = (i: number, effect: string) =>
        all.some(one => {
          const isPlain = Object.keys(one.change).length === 0
          // A refusal says nothing of scopes, keys and operations, so nothing of those can be wrong in it.
          const isOfThis = !['holder', 'account', 'negotiation', 'contract', 'resource_id'].some(
            name => name in one.change,
          )
          const isDated = !('iat' in one.change) || (one.change as { iat: number }).iat <= NOW
          const counts = isPlain || (effect === 'deny' && isOfThis && isDated)
          return one.by % of.holders.length === i && one.effect === effect && counts
        })
      const weight = of.holders.reduce(
        (sum, one, i) => (speaks(i, 'allow') && !speaks(i, 'deny') ? sum + one.weight : sum),
        0,
      )
      expect(weigh(of, all)).toMatchObject({ weight, isSatisfied: weight >= of.rule.threshold })
    }),
  )
})
