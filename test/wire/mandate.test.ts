/** The form of a mandate: contract, "Tally for a jointly held resource". */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mandateDigest, parseMandate, totalWeight } from '../../src/wire/joint/mandate.ts'
import { BEA, CARL, MANDATE_DOCUMENT } from '../support/joint.ts'
import { refusalOf } from '../support/refusals.ts'

const KNOWN = 's256:atCi-0EZoXqO1dDo-q30ueuT_hJ1D9mgB2K8YYcqRw4'
const digestOf = (changes: object = {}) => mandateDigest(parseMandate({ ...MANDATE_DOCUMENT, ...changes }))
const [bea, carl] = MANDATE_DOCUMENT.holders

describe('The digest of a mandate', () => {
  it('is the known one for the known mandate', () => {
    expect(digestOf()).toBe(KNOWN)
  })

  it.each<[string, object]>([
    ['the order of the holders', { holders: [carl, bea] }],
    ['a slash at the end of an issuer', { holders: [{ ...bea, issuer: `${BEA.issuer}/` }, carl] }],
    ['a threshold that the kind implies', { rule: { kind: 'all' } }],
    ['a total that follows from the weights', { total_weight: undefined }],
    ['sentences that say the same in words', { summary: ['Two holders, and both must allow.'] }],
    ['what a tally registers', { registered: [{ _id: 'family-1/savings' }] }],
  ])('does not depend on %s', (_what, changes) => {
    expect(digestOf(changes)).toBe(KNOWN)
  })

  it.each<[string, object]>([
    ['a weight', { holders: [{ ...bea, weight: 2 }, carl], rule: { kind: 'all' }, total_weight: 3 }],
    ['a holder', { holders: [{ ...bea, owner: 'eve' }, carl] }],
    ['an authority', { holders: [{ ...bea, issuer: CARL.issuer }, carl] }],
    ['a pattern', { resources: ['family-1/savings'] }],
    ['one more pattern', { resources: ['family-1/*', 'family-1/a/*'] }],
    ['the kind of rule', { rule: { kind: 'threshold', threshold: 2 } }],
    ['the threshold', { rule: { kind: 'any' } }],
  ])('depends on %s', (_what, changes) => {
    expect(digestOf(changes)).not.toBe(KNOWN)
  })

  it('is of one order, whatever order the lists came in', () => {
    const holder = fc.record({
      owner: fc.stringMatching(/^[a-c]{1,2}$/),
      issuer: fc.constantFrom(BEA.issuer, CARL.issuer),
      weight: fc.integer({ min: 1, max: 3 }),
    })
    const holders = fc.uniqueArray(holder, {
      minLength: 2,
      maxLength: 6,
      selector: one => `${one.owner} ${one.issuer}`,
    })
    const resources = fc.uniqueArray(fc.constantFrom('family-1/a', 'family-1/b', 'family-1/*'), {
      minLength: 1,
    })
    const shuffled = fc.tuple(holders, resources).chain(([all, patterns]) =>
      fc.record({
        one: fc.constant({ holders: all, resources: patterns }),
        other: fc.record({
          holders: fc.shuffledSubarray(all, { minLength: all.length }),
          resources: fc.shuffledSubarray(patterns, { minLength: patterns.length }),
        }),
      }),
    )
    fc.assert(
      fc.property(shuffled, ({ one, other }) => {
        const rest = { total_weight: undefined, rule: { kind: 'any' } }
        expect(digestOf({ ...one, ...rest })).toBe(digestOf({ ...other, ...rest }))
      }),
    )
  })
})

describe('A mandate is refused', () => {
  it.each<[string, object]>([
    ['whose total is not the sum of the weights', { total_weight: 3 }],
    ['of all, with another threshold than all', { rule: { kind: 'all', threshold: 1 } }],
    ['of any, with another threshold than 1', { rule: { kind: 'any', threshold: 2 } }],
    ['by threshold, without one', { rule: { kind: 'threshold' } }],
    ['of a kind that nobody knows', { rule: { kind: 'majority', threshold: 1 } }],
    ['without a rule', { rule: undefined }],
    ['whose holders are no list', { holders: { bea: 1 } }],
    ['with a holder without a weight', { holders: [BEA, carl] }],
    ['with half a vote', { holders: [{ ...bea, weight: 0.5 }, carl] }],
    ['with a weight as text', { holders: [{ ...bea, weight: '1' }, carl] }],
    ['without an account', { account: undefined }],
    ['without patterns', { resources: undefined }],
  ])('%s', (_what, changes) => {
    expect(refusalOf(() => parseMandate({ ...MANDATE_DOCUMENT, ...changes })).code).toBe('invalid_request')
  })

  it('that is no object', () => {
    for (const value of [null, [], 'family-1', 2])
      expect(refusalOf(() => parseMandate(value)).code).toBe('invalid_request')
  })
})

it('The weight of a mandate is that of all holders', () => {
  expect(totalWeight(parseMandate(MANDATE_DOCUMENT))).toBe(2)
})
