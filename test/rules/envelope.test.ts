/**
 * How far a ceiling cuts a tier: contract, "Organization membership, on the member's authorization server",
 * "What the service does" (row 10).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  cutTier,
  cutsBetween,
  intersectClearances,
  type Ceiling,
  type TierUnderCeiling,
} from '../../src/rules/organization/tier-ceiling.ts'

const RESOURCES = ['acme/mail', 'acme/trades', 'bea/diary']
const governed = (id: string): boolean => id.startsWith('acme/')
const some = (words: readonly string[]) => fc.uniqueArray(fc.constantFrom(...words))
const SCOPES = ['read', 'send', 'trade']
const anyClearance = fc.dictionary(fc.constantFrom('level', 'desk'), some(['a', 'b', 'c']))
const anyTier: fc.Arbitrary<TierUnderCeiling> = fc
  .record({
    asks: fc.boolean(),
    clearance: anyClearance,
    resources: some(RESOURCES),
    scope: some(SCOPES),
    expires_in: fc.integer({ min: 1, max: 10_000 }),
    prohibited: some(['training', 'passing it on']),
  })
  .map(({ asks, clearance, resources, ...terms }) => ({
    ask_me: asks,
    clearance,
    resources,
    terms: { ...terms, per_operation: asks },
  }))
const anyCeiling: fc.Arbitrary<Ceiling> = fc.record({
  max_expires_in: fc.integer({ min: 1, max: 10_000 }),
  allowed_scopes: fc.option(some(SCOPES)),
  require_prohibited: some(['passing it on', 'keeping it']),
  always_ask: some(['acme/*', 'acme/trades', 'bea/*']),
  require_clearance: anyClearance,
})

/** Whether nothing that `one` lets through is refused by `other`. */
function isWithin(one: TierUnderCeiling, other: TierUnderCeiling): boolean {
  const clearances = Object.entries(other.clearance).every(
    ([fact, values]) =>
      Object.hasOwn(one.clearance, fact) && one.clearance[fact]!.every(value => values.includes(value)),
  )
  return (
    clearances &&
    one.terms.expires_in <= other.terms.expires_in &&
    one.terms.scope.every(scope => other.terms.scope.includes(scope)) &&
    other.terms.prohibited.every(item => one.terms.prohibited.includes(item)) &&
    (one.ask_me || !other.ask_me) &&
    (one.terms.per_operation || !other.terms.per_operation)
  )
}

describe('the ceiling', () => {
  it('never widens a tier, and cutting it again changes nothing', () => {
    fc.assert(
      fc.property(anyTier, anyCeiling, (tier, ceiling) => {
        const cut = cutTier(tier, ceiling, governed)
        expect(isWithin(cut, tier)).toBe(true)
        expect(cutTier(cut, ceiling, governed)).toEqual(cut)
        expect(cutsBetween(cut, cutTier(cut, ceiling, governed))).toEqual([])
      }),
    )
  })

  it('is monotone: what lies within another tier lies within it when both are cut, and two ceilings leave less than either', () => {
    fc.assert(
      fc.property(anyTier, anyCeiling, anyCeiling, (tier, first, second) => {
        const once = cutTier(tier, first, governed)
        const twice = cutTier(once, second, governed)
        expect(isWithin(twice, once)).toBe(true)
        expect(isWithin(twice, cutTier(tier, second, governed))).toBe(true)
      }),
    )
  })

  it('holds for all of a tier of which one resource is governed, and for none of which none is', () => {
    const terms = { scope: ['read', 'trade'], expires_in: 3600, prohibited: [], per_operation: false }
    const tier = { ask_me: false, clearance: {}, resources: ['bea/diary'], terms }
    const ceiling: Ceiling = {
      max_expires_in: 60,
      allowed_scopes: ['read'],
      require_prohibited: ['passing it on'],
      always_ask: ['acme/*'],
      require_clearance: { level: ['a'] },
    }
    expect(cutTier(tier, ceiling, governed)).toBe(tier)
    const mixed = { ...tier, resources: ['acme/mail', 'bea/diary'] }
    const cut = cutTier(mixed, ceiling, governed)
    expect(cut).toEqual({
      ask_me: true,
      clearance: { level: ['a'] },
      resources: ['acme/mail', 'bea/diary'],
      terms: { scope: ['read'], expires_in: 60, prohibited: ['passing it on'], per_operation: true },
    })
    expect(cutsBetween(mixed, cut).map(({ field }) => field)).toEqual([
      'expires_in',
      'scope',
      'prohibited',
      'ask_me',
      'clearance',
    ])
  })

  it('says of added prohibitions what agents must promise not to do', () => {
    const terms = { scope: ['read'], expires_in: 60, prohibited: ['keeping it'], per_operation: false }
    const had = { ask_me: false, clearance: {}, resources: ['acme/mail'], terms }
    const prohibited = ['keeping it', 'passing it on', 'training on it']
    const [cut, ...others] = cutsBetween(had, { ...had, terms: { ...terms, prohibited } })
    expect(others).toEqual([])
    expect(cut).toMatchObject({
      field: 'prohibited',
      was: ['keeping it'],
      now: prohibited,
      text: 'Agents must also promise not to: passing it on, training on it.',
    })
  })

  it('leaves of two clearances what both accept, and of a fact of which nothing is left nothing', () => {
    expect(intersectClearances({ level: ['a', 'b'] }, { level: ['b', 'c'], desk: ['x'] })).toEqual({
      level: ['b'],
      desk: ['x'],
    })
    expect(intersectClearances({ level: ['a'] }, { level: ['b'] })).toEqual({ level: [] })
  })
})
