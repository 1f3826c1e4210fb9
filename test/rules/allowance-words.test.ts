/** Contract, "Policy vocabulary and tiers": the card of an allowance says each limit; nothing else passes. */
import { describe, expect, it } from 'vitest'
import {
  allowanceLines,
  changedLines,
  limitsOf,
  tierLines,
  unboundedLines,
} from '../../src/rules/words/allowance-words.ts'
import type { OwnerAllowance } from '../../src/wire/documents/allowance.ts'

const CLOCK = { nowMs: Date.parse('2026-03-07T12:00:00Z'), timeText: (time: string) => `<${time}>` }
const WEEKEND: OwnerAllowance = {
  id: 'weekend',
  version: 1,
  zone: 'Europe/Zurich',
  among: 'all',
  until: '2026-03-08T22:00:00.000Z',
  hold_s: 300,
  amounts: [{ name: 'price', unit: 'CHF', each_max: '50' }],
  windows: [
    { of: 'price', per: 'day', max: '200' },
    { of: 'calls', per: 'all', max: '20' },
  ],
  tiers: {
    shopping: {
      tools: ['place_order', 'order, then pay'],
      amounts: { price: { pointer: '/price', as: 'number', unit_pointer: '/currency' } },
      only: [{ pointer: '/payee', one_of: ['Corner Bakery', { id: 7 }] }],
      free: ['/note'],
    },
  },
}
const card = (changes: Partial<OwnerAllowance> = {}) => allowanceLines({ ...WEEKEND, ...changes }, CLOCK)

describe('The card of an allowance', () => {
  it('says each limit, the end, and what each tier lets through', () => {
    expect(card()).toEqual([
      'all your agents together have this',
      'price: at most 50 CHF in one operation',
      'price: at most 200 CHF a day',
      'calls: at most 20 in all',
      'hours, days, weeks (from Monday) and months are those of Europe/Zurich',
      'across the end of one, such as midnight, twice its limit can pass within minutes',
      'a limit that an edit adds counts what is granted from then on',
      'it ends at <2026-03-08T22:00:00.000Z>; then every operation is beyond it',
      'a grant is good for one operation, for at most 5 minutes',
      'at shopping: the tools place_order, "order, then pay"',
      'at shopping: price stands at /price as a number, and /currency must be exactly "CHF"',
      'at shopping: /payee must be exactly "Corner Bakery" or {"id":7}',
      'at shopping: /note may say anything',
      'any other tool, unit, value or parameter is beyond it',
    ])
  })

  it('says of a limit for each agent that each has it, and of a limit that is missing that there is none', () => {
    const lines = card({ among: 'lineage', windows: [{ of: 'calls', per: 'week', max: '5' }] })
    expect(lines[0]).toBe('each agent, together with those that it introduced, has all of this for itself')
    expect(lines).toContain('calls: at most 5 a week, each')
    expect(lines).toContain('price: no limit on the sum')
    const bare = card({ windows: [], amounts: [{ name: 'price' }] })
    expect(bare).toContain('price: any amount in one operation')
    expect(bare).toContain('calls: no limit on how many')
    expect(bare.join()).not.toContain('midnight')
  })

  it('says of an amount whose unit is nowhere in the operation that it is as the tool counts', () => {
    const [tier] = Object.values(WEEKEND.tiers)
    const amounts = { price: { pointer: '/price', as: 'query' as const } }
    const tiers = { shopping: { ...tier!, amounts } }
    const lines = card({ amounts: [{ name: 'price', each_max: '50' }], tiers })
    expect(lines).toContain('price: at most 50 (as the tool counts) in one operation')
    expect(lines).toContain('price: at most 200 (as the tool counts) a day')
    expect(lines).toContain(
      'at shopping: price stands at /price as the only value of its name, as the tool counts',
    )
  })

  it('says so at each number of an amount whose unit one tier does not compare, and of no other unit', () => {
    const { shopping } = WEEKEND.tiers
    const market = { ...shopping!, amounts: { price: { pointer: '/price', as: 'number' as const } } }
    const after = { ...WEEKEND, tiers: { shopping: shopping!, market } }
    const lines = card(after)
    expect(lines).toContain('price: at most 50 CHF (as the tool counts) in one operation')
    expect(lines).toContain('price: at most 200 CHF (as the tool counts) a day')
    expect(lines).toContain('calls: at most 20 in all')
    expect(lines.at(-1)).toBe('any other tool, value or parameter is beyond it')
    expect(changedLines(WEEKEND, after, CLOCK).comes).toContain(
      'price: at most 200 CHF (as the tool counts) a day',
    )
  })

  it.each<[string, Partial<OwnerAllowance>, string]>([
    ['that has no end', { until: null }, 'it has no end'],
    [
      'that has ended',
      { until: '2026-03-07T11:59:00.000Z' },
      'it ended at <2026-03-07T11:59:00.000Z>; every operation is beyond it',
    ],
    ['that names no tier', { tiers: {} }, 'it names no tier, so every operation is beyond it'],
  ])('says of one %s', (_what, changes, line) => {
    expect(card(changes)).toContain(line)
  })

  it('tells an edit as the lines that go and those that come', () => {
    const after = { ...WEEKEND, windows: [{ of: 'price', per: 'day' as const, max: '300' }] }
    expect(changedLines(WEEKEND, after, CLOCK)).toEqual({
      goes: ['price: at most 200 CHF a day', 'calls: at most 20 in all'],
      comes: ['price: at most 300 CHF a day', 'calls: no limit on how many'],
    })
    expect(changedLines(WEEKEND, WEEKEND, CLOCK)).toEqual({ goes: [], comes: [] })
  })

  it('quotes a unit of several words, and shows names that only a later version has as they are', () => {
    const unit = 'CHF in one operation, no'
    expect(card({ amounts: [{ name: 'price', unit, each_max: '5' }] })).toContain(
      'price: at most 5 "CHF in one operation, no" in one operation',
    )
    const windows = [{ of: 'price', per: 'constructor', max: '5' }] as unknown as OwnerAllowance['windows']
    expect(card({ windows })).toContain('price: at most 5 CHF constructor')
  })

  it('says of a tier what an operation there must be like, and nothing of one that it does not name', () => {
    expect(tierLines(WEEKEND, 'shopping')).toEqual([
      'the tools place_order, "order, then pay"',
      'price stands at /price as a number, and /currency must be exactly "CHF"',
      '/payee must be exactly "Corner Bakery" or {"id":7}',
      '/note may say anything',
    ])
    expect(tierLines(WEEKEND, 'constructor')).toEqual([])
  })
})

describe('A number on the card of an allowance', () => {
  it('has its place, so that it can be lowered there', () => {
    expect(limitsOf(WEEKEND)).toEqual([
      { place: { each: 'price' }, most: '50', text: 'price: at most 50 CHF in one operation' },
      { place: { of: 'price', per: 'day' }, most: '200', text: 'price: at most 200 CHF a day' },
      { place: { of: 'calls', per: 'all' }, most: '20', text: 'calls: at most 20 in all' },
    ])
  })

  it('is there for what has a number alone, and what nothing bounds is told apart', () => {
    const bare = { ...WEEKEND, amounts: [{ name: 'price' }], windows: [] }
    expect(limitsOf(bare)).toEqual([])
    expect(unboundedLines(bare)).toEqual([
      'price: any amount in one operation',
      'price: no limit on the sum',
      'calls: no limit on how many',
    ])
    expect(unboundedLines(WEEKEND)).toEqual([])
  })

  it('has what an organization lets through there, if that is less, and is its owner’s own all the same', () => {
    const windows = [{ of: 'price', per: 'day' as const, max: '200', ceiling: '100' }]
    expect(limitsOf({ ...WEEKEND, among: 'lineage', windows })[1]).toEqual({
      place: { of: 'price', per: 'day' },
      most: '200',
      text: 'price: at most 200 CHF a day, each',
      ceiling: '100 CHF, each',
    })
  })
})
