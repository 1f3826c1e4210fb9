/**
 * How an organization bounds allowances: contract, "The organization's authority" (envelope), "What the
 * service does" (nothing above the owner can widen).
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAtMost, sumOf } from '../../src/rules/allowance/decimal.ts'
import {
  judgeOperation,
  type AllowanceResult,
  type WindowUse,
} from '../../src/rules/allowance/judge-operation.ts'
import {
  judgeUnderCeiling,
  narrowerCeilings,
  underAllowanceCeiling,
} from '../../src/rules/organization/allowance-ceiling.ts'
import { PERIODS } from '../../src/wire/allowance-words.ts'
import type { OwnerAllowance } from '../../src/wire/documents/allowance.ts'
import type { JsonObject } from '../../src/wire/json.ts'
import type { AllowanceCeiling } from '../../src/wire/organization/charter.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const NOW = Date.parse('2026-03-02T12:00:00Z') / 1000
const ORDER = { price: 50, currency: 'CHF', payee: { name: 'Zoë' } }
/** Hers is 200 a day. */
const CEILING: AllowanceCeiling[] = [{ unit: 'CHF', per: 'day', max: '100' }]
const UNIT = { name: 'price', unit: 'CHF', each_max: '50' }

const order = (params: JsonObject) => ({
  tier_id: 'shopping',
  operation: { tool: 'place_order', params },
  now: NOW,
})
/** Of each window, so much is used. */
const usesOf = ({ windows }: OwnerAllowance, used: string): WindowUse[] =>
  windows.map(({ of, per }) => ({ of, per, used }))
const judge = (
  ceilings: AllowanceCeiling[] | undefined,
  { changes = {}, params = ORDER, used = '0' }: { changes?: object; params?: JsonObject; used?: string } = {},
): AllowanceResult => {
  const hers = allowance(changes)
  return judgeUnderCeiling(hers, order(params), usesOf(hers, used), ceilings)
}
const beyond = (limit: string) => ({ within: false, limit })
const at = (members: object) => ({ tiers: { shopping: { ...SHOPPING.tiers.shopping, ...members } } })

describe('An operation under the ceiling of an organization', () => {
  it('is within as far as both she and the ceiling have room', () => {
    expect(judge(CEILING)).toEqual({ within: true, amounts: { price: '50' } })
    expect(judge(CEILING, { used: '50' })).toEqual({ within: true, amounts: { price: '50' } })
    expect(judge(CEILING, { used: '50.000000001' })).toEqual(beyond('ceiling:price:day'))
    expect(judge(undefined, { used: '50.000000001' })).toMatchObject({ within: true })
  })

  it('is beyond the limits that are hers first', () => {
    expect(judge(CEILING, { used: '150.01' })).toEqual(beyond('window:price:day'))
    expect(judge(CEILING, { params: { ...ORDER, price: 51 } })).toEqual(beyond('each_max:price'))
    expect(judge(CEILING, { params: { ...ORDER, tip: 1 } })).toEqual(beyond('members'))
    expect(judge([{ ...CEILING[0]!, max: '1000' }], { used: '150.01' })).toEqual(beyond('window:price:day'))
  })

  const calls = { of: 'calls', per: 'day', max: '9' }
  const uncounted = { amounts: {}, free: ['/price', '/currency', '/note'] }
  const uncompared = { amounts: { price: { pointer: '/price' } }, free: ['/currency'] }
  const tip = { pointer: '/tip', unit_pointer: '/currency' }
  const two = { amounts: { ...SHOPPING.tiers.shopping.amounts, tip } }
  const windows = [...SHOPPING.windows, { of: 'tip', per: 'day', max: '20' }]
  it.each<[string, AllowanceCeiling[], object, string]>([
    [
      'an allowance that counts no amount',
      CEILING,
      { amounts: [], windows: [calls], ...at(uncounted) },
      'ceiling',
    ],
    ['a unit that it does not name', [{ unit: 'EUR', per: 'day', max: '1000' }], {}, 'ceiling:price'],
    ['a unit in another case', [{ unit: 'chf', per: 'day', max: '1000' }], {}, 'ceiling:price'],
    ['a unit with a space behind', [{ unit: 'CHF ', per: 'day', max: '1000' }], {}, 'ceiling:price'],
    ['a unit that is but a word to her', CEILING, at(uncompared), 'ceiling:price'],
    [
      'an amount that has no unit',
      CEILING,
      { amounts: [{ name: 'price', each_max: '50' }], ...at(uncompared) },
      'ceiling:price',
    ],
    [
      'no window for one of its spans',
      [...CEILING, { unit: 'CHF', per: 'month', max: '1000' }],
      {},
      'ceiling:price',
    ],
    ['a window of the calls alone', CEILING, { windows: [calls] }, 'ceiling:price'],
    ['a list that names nothing', [], {}, 'ceiling:price'],
    [
      'two amounts of one unit, whose sum no window counts',
      CEILING,
      { amounts: [UNIT, { name: 'tip', unit: 'CHF' }], windows, ...at(two) },
      'ceiling:tip',
    ],
    ['a number that nobody can read', [{ ...CEILING[0]!, max: '1e3' }], {}, 'ceiling:price:day'],
  ])('is beyond it, with %s', (_what, ceilings, changes, limit) => {
    const params: JsonObject = limit === 'ceiling:tip' ? { ...ORDER, tip: 1 } : ORDER
    expect(judge(undefined, { changes, params })).toMatchObject({ within: true })
    expect(judge(ceilings, { changes, params })).toEqual(beyond(limit))
  })
})

describe('An allowance under a ceiling', () => {
  it('has the lower max in each window of an amount in that unit, and in no other', () => {
    const windows = [
      { of: 'price', per: 'day', max: '200' },
      { of: 'price', per: 'week', max: '90' },
      { of: 'price', per: 'month', max: '500' },
      { of: 'calls', per: 'day', max: '200' },
    ]
    const ceilings: AllowanceCeiling[] = [...CEILING, { unit: 'CHF', per: 'week', max: '100' }]
    const hers = allowance({ windows })
    const maxima = underAllowanceCeiling(hers, ceilings).windows.map(({ max }) => max)
    expect(maxima).toEqual(['100', '90', '500', '200'])
    expect(underAllowanceCeiling(hers, undefined)).toBe(hers)
  })
})

const anyMax = fc.constantFrom('0', '10', '50', '99.999999999', '200', '1000')
const anyPer = fc.constantFrom(...PERIODS)
const anyCeilings: fc.Arbitrary<AllowanceCeiling[]> = fc.uniqueArray(
  fc.record({ unit: fc.constantFrom('CHF', 'CHF', 'EUR'), per: anyPer, max: anyMax }),
  { selector: ({ unit, per }) => `${unit} ${per}`, maxLength: 4 },
)
const anyAllowance: fc.Arbitrary<OwnerAllowance> = fc
  .record({
    windows: fc.uniqueArray(fc.record({ of: fc.constantFrom('price', 'calls'), per: anyPer, max: anyMax }), {
      selector: ({ of, per }) => `${of} ${per}`,
      maxLength: 8,
    }),
    isCompared: fc.boolean(),
    unit: fc.constantFrom('CHF', 'EUR'),
  })
  .map(({ windows, isCompared, unit }) => {
    const place = isCompared ? { pointer: '/price', unit_pointer: '/currency' } : { pointer: '/price' }
    const tier = at({ amounts: { price: place }, free: isCompared ? [] : ['/currency'] })
    return allowance({ amounts: [{ name: 'price', unit }], windows, ...tier })
  })
const anyOrder = fc.record({
  price: fc.constantFrom(0, 10, 49.5, 100),
  currency: fc.constantFrom('CHF', 'EUR'),
  payee: fc.constant({ name: 'Zoë' }),
})
const anyUsed = fc.constantFrom('0', '0.000000001', '40', '150')

describe('Whatever an organization says of allowances', () => {
  it('lets through nothing that she does not, raises no max, and changes nothing if it says nothing', () => {
    fc.assert(
      fc.property(anyAllowance, anyCeilings, anyOrder, anyUsed, (hers, ceilings, params, used) => {
        const uses = usesOf(hers, used)
        const own = judgeOperation(hers, order(params), uses)
        const under = judgeUnderCeiling(hers, order(params), uses, ceilings)
        if (under.within) expect(under).toEqual(own)
        if (!own.within) expect(under).toEqual(own)
        expect(judgeUnderCeiling(hers, order(params), uses, undefined)).toEqual(own)
        const lowered = underAllowanceCeiling(hers, ceilings)
        expect(underAllowanceCeiling(lowered, ceilings)).toEqual(lowered)
        for (const [n, { max }] of lowered.windows.entries())
          expect(isAtMost(max, hers.windows[n]!.max)).toBe(true)
      }),
    )
  })

  it('holds for each of its entries, and a lower number lets through no more', () => {
    fc.assert(
      fc.property(anyAllowance, anyCeilings, anyOrder, anyUsed, (hers, ceilings, params, used) => {
        const uses = usesOf(hers, used)
        const under = judgeUnderCeiling(hers, order(params), uses, ceilings)
        const lower = ceilings.map(one => ({ ...one, max: '10' }))
        const both = ceilings.map(one => (isAtMost(one.max, '10') ? one : { ...one, max: '10' }))
        for (const stricter of [both, [...ceilings, ...lower]])
          if (judgeUnderCeiling(hers, order(params), uses, stricter).within) expect(under.within).toBe(true)
        if (!under.within) return
        const entries = ceilings.filter(({ unit }) => unit === hers.amounts[0]!.unit)
        expect(entries.length).toBeGreaterThan(0)
        for (const { max } of entries) expect(isAtMost(sumOf(used, `${params.price}`)!, max)).toBe(true)
      }),
    )
  })
})

const EUROS: AllowanceCeiling = { unit: 'EUR', per: 'month', max: '1000' }
const FRANCS = CEILING[0]!

describe('Two ceilings together', () => {
  it.each<[string, AllowanceCeiling[] | undefined, AllowanceCeiling[] | undefined, unknown]>([
    ['bound nothing if neither does', undefined, undefined, undefined],
    ['are the one that bounds', undefined, CEILING, CEILING],
    ['have the lower number', CEILING, [{ ...FRANCS, max: '99.5' }], [{ ...FRANCS, max: '99.5' }]],
    ['have each span of a unit', CEILING, [{ ...FRANCS, per: 'week' }], [FRANCS, { ...FRANCS, per: 'week' }]],
    ['have no unit that one leaves out', [FRANCS, EUROS], CEILING, CEILING],
    ['let nothing through if one lets nothing', CEILING, [], []],
  ])('%s', (_what, one, other, both) => {
    expect(narrowerCeilings(one, other)).toEqual(both)
    expect(narrowerCeilings(both as AllowanceCeiling[] | undefined, other)).toEqual(both)
  })

  it('let through what each of them does, and nothing else', () => {
    fc.assert(
      fc.property(
        anyAllowance,
        fc.tuple(fc.option(anyCeilings, { nil: undefined }), fc.option(anyCeilings, { nil: undefined })),
        anyOrder,
        anyUsed,
        (hers, [one, other], params, used) => {
          const isWithin = (ceilings: readonly AllowanceCeiling[] | undefined): boolean =>
            judgeUnderCeiling(hers, order(params), usesOf(hers, used), ceilings).within
          const both = isWithin(narrowerCeilings(one, other))
          expect(both).toBe(isWithin(one) && isWithin(other))
          expect(isWithin(narrowerCeilings(other, one))).toBe(both)
        },
      ),
    )
  })
})
