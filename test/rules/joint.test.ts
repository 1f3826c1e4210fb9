/** What an edit of a joint tier leaves of what she allowed: contract, "Tally for a jointly held resource". */
import { describe, expect, it } from 'vitest'
import { stillAllows, type AllowingTier } from '../../src/rules/joint/joint.ts'

const tier = {
  resources: ['family-1/savings'],
  ask_me: false,
  rules: [{ when: ['request.reason_absent'], then: 'ask' }],
  clearance: { unit: ['a'], grade: ['b'] },
  terms: { scope: ['read', 'trade'], expires_in: 600, prohibited: ['passing it on'], per_operation: false },
} satisfies AllowingTier
const allowed = { resource_id: 'family-1/savings', scope: ['read'], expires_in: 300 }
const edited = (changes: object, terms: object = {}): AllowingTier => ({
  ...tier,
  ...changes,
  terms: { ...tier.terms, ...terms },
})

describe('What she allowed under a joint tier', () => {
  it.each([
    ['nothing that decides changed', edited({ name: 'Another' })],
    ['more resources', edited({ resources: ['family-1/more', 'family-1/savings'] })],
    ['fewer scopes, which it does not need', edited({}, { scope: ['read'] })],
    ['a shorter time, which it is within', edited({}, { expires_in: 300 })],
    ['fewer prohibitions', edited({}, { prohibited: [] })],
    ['the same clearance in another order', edited({ clearance: { grade: ['b'], unit: ['a'] } })],
  ])('stays under one with %s', (_what, after) => {
    expect(stillAllows(tier, after, allowed)).toBe(true)
  })

  it.each([
    ['without the resource', edited({ resources: [] })],
    ['without a scope of it', edited({}, { scope: ['trade'] })],
    ['with a shorter time than it lasts', edited({}, { expires_in: 299 })],
    ['with a prohibition more', edited({}, { prohibited: ['passing it on', 'selling'] })],
    ['that asks her each time', edited({ ask_me: true }, { per_operation: true })],
    ['for one operation at a time', edited({}, { per_operation: true })],
    ['with another rule', edited({ rules: [{ when: ['request.reason_absent'], then: 'refuse' }] })],
    ['without a rule', edited({ rules: [] })],
    ['with another clearance', edited({ clearance: { unit: ['a'] } })],
  ])('ends under one %s', (_what, after) => {
    expect(stillAllows(tier, after, allowed)).toBe(false)
  })

  it('for one operation stays if each use is asked about from now on and was before', () => {
    const asks = edited({ ask_me: true }, { per_operation: true })
    const one = { ...allowed, operation: { tool: 'pay', params_s256: 's256:x' } }
    expect(stillAllows(asks, edited({ ask_me: true, name: 'x' }, { per_operation: true }), one)).toBe(true)
    expect(stillAllows(asks, edited({ ask_me: true }, { per_operation: true }), allowed)).toBe(false)
  })
})
