/** What an allowance may say: contract, "Policy vocabulary and tiers", "Owner API". */
import { describe, expect, it } from 'vitest'
import { allowanceEditFault, allowanceFault } from '../../src/rules/allowance/allowance.ts'
import { ALLOWANCE_CONTENT, type AllowanceContent } from '../../src/wire/documents/allowance.ts'
import type { Json } from '../../src/wire/json.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const content = (changes: object = {}): AllowanceContent =>
  ALLOWANCE_CONTENT.parse({ ...SHOPPING, ...changes })
const at = (members: object) => ({ tiers: { shopping: { ...SHOPPING.tiers.shopping, ...members } } })
const price = (members: object) => ({ pointer: '/price', ...members })

const nested = (depth: number): Json =>
  JSON.parse('[{"a":'.repeat(depth / 2) + '1' + '}]'.repeat(depth / 2)) as Json

describe('an allowance is saved', () => {
  it.each<[string, object]>([
    ['as it is shown', {}],
    ['that says nothing at all', { amounts: [], windows: [], tiers: {} }],
    ['with what is used, as it was read, which is none of its characters', { use: 'x'.repeat(30_000) }],
    ['with calls alone', { amounts: [], windows: [{ of: 'calls', per: 'week', max: '3' }], tiers: {} }],
    ['with a unit that is only a word for her', at({ amounts: { price: price({}) } })],
    [
      'with two periods of one amount',
      {
        windows: [
          { of: 'price', per: 'day', max: '0.5' },
          { of: 'price', per: 'all', max: '9' },
        ],
      },
    ],
    ['with a pointer beside another that begins alike', at({ free: ['/price_note', '/pric'] })],
    ['with something free around what is bounded', at({ free: ['/payee'] })],
    ['with a value that is nested 32 deep', at({ only: [{ pointer: '/a', one_of: [nested(32)] }] })],
  ])('%s', (_what, changes) => {
    expect(allowanceFault(content(changes))).toBeUndefined()
  })

  it.each<[string, object, RegExp]>([
    [
      'two amounts of one name',
      { amounts: [SHOPPING.amounts[0], { name: 'price' }] },
      /^amounts\[1\]\.name: it is listed twice/,
    ],
    ['an amount called calls', { amounts: [{ name: 'calls' }] }, /^amounts\[0\]\.name: use another name/],
    [
      'a window of no amount',
      { windows: [{ of: 'weight', per: 'day', max: '1' }] },
      /^windows\[0\]\.of: write `calls`, or/,
    ],
    [
      'half a call',
      { windows: [{ of: 'calls', per: 'day', max: '1.5' }] },
      /^windows\[0\]\.max: give a whole number/,
    ],
    [
      'one window twice',
      { windows: [SHOPPING.windows[0], { of: 'price', per: 'day', max: '1' }] },
      /^windows\[1\]: .* keep one/,
    ],
    ['a tool twice', at({ tools: ['a', 'b', 'a'] }), /^tiers\.shopping\.tools\[2\]: it is listed twice/],
    [
      'no pointer of an amount',
      at({ amounts: {} }),
      /^tiers\.shopping\.amounts: give the pointer of `price`/,
    ],
    [
      'a pointer of no amount',
      at({ amounts: { price: price({}), weight: price({}) } }),
      /^tiers\.shopping\.amounts\.weight: the allowance has no amount/,
    ],
    [
      'a unit pointer without a unit',
      { amounts: [{ name: 'price' }] },
      /^tiers\.shopping\.amounts\.price\.unit_pointer: give the amount a `unit`/,
    ],
    [
      'an amount where its unit stands',
      at({ amounts: { price: price({ unit_pointer: '/price' }) } }),
      /^tiers\.shopping\.amounts: an amount and its unit cannot/,
    ],
    ['something below an amount', at({ free: ['/price/note'] }), /no operation has `\/price\/note`/],
    ['something below a unit', at({ free: ['/currency/a'] }), /no operation has `\/currency\/a`/],
    [
      'one `only` twice',
      at({
        only: [
          { pointer: '/a', one_of: [1] },
          { pointer: '/a', one_of: [2] },
        ],
      }),
      /^tiers\.shopping\.only\[1\]: this pointer is listed twice/,
    ],
    ['one `free` twice', at({ free: ['/a', '/b', '/a'] }), /^tiers\.shopping\.free\[2\]: it is listed twice/],
    [
      'too many tiers',
      {
        amounts: [],
        windows: [],
        tiers: Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`t${n}`, { tools: ['a'] }])),
      },
      /^tiers: name at most 16 tiers/,
    ],
    [
      'too many characters',
      at({ only: [{ pointer: '/a', one_of: ['x'.repeat(30_000)] }] }),
      /within 30000 characters/,
    ],
    [
      'a value that is nested deeper',
      at({ only: [{ pointer: '/a', one_of: [1, [nested(32)]] }] }),
      /^tiers\.shopping\.only\[0\]\.one_of: nest a value at most 32 deep/,
    ],
    [
      'NUL in a value',
      at({ only: [{ pointer: '/a', one_of: [1, 'b\0'] }] }),
      /^tiers\.shopping\.only\[0\]\.one_of: leave out the character NUL/,
    ],
    [
      'NUL in a name within a value',
      at({ only: [{ pointer: '/a', one_of: [[{ 'b\0': 1 }]] }] }),
      /^tiers\.shopping\.only\[0\]\.one_of: leave out the character NUL/,
    ],
    [
      'NUL in a pointer to a value',
      at({ only: [{ pointer: '/a\0', one_of: [1] }] }),
      /^tiers\.shopping\.only\[0\]\.pointer: leave out the character NUL/,
    ],
    [
      'NUL in a free pointer',
      at({ free: ['/a', '/b\0'] }),
      /^tiers\.shopping\.free\[1\]: leave out the character NUL/,
    ],
    [
      'NUL in the pointer of an amount',
      at({ amounts: { price: price({ pointer: '/price\0' }) } }),
      /^tiers\.shopping\.amounts\.price\.pointer: leave out the character NUL/,
    ],
    [
      'NUL in the pointer of a unit',
      at({ amounts: { price: price({ unit_pointer: '/currency\0' }) } }),
      /^tiers\.shopping\.amounts\.price\.unit_pointer: leave out the character NUL/,
    ],
  ])('but not with %s', (_what, changes, sentence) => {
    expect(allowanceFault(content(changes))).toMatch(sentence)
  })
})

describe('an edit of an allowance', () => {
  it.each<[string, object]>([
    ['leaves the zone and whose windows they are as they were', { zone: undefined, among: undefined }],
    ['may repeat them', { zone: 'Europe/Zurich', among: 'all' }],
    ['may change how much', { amounts: [{ name: 'price', unit: 'CHF', each_max: '5' }], windows: [] }],
    ['may add an amount', { amounts: [{ name: 'weight' }, ...SHOPPING.amounts] }],
    ['may take out all tiers', { tiers: {} }],
    ['may end it', { until: '2020-01-01T00:00:00Z' }],
  ])('%s', (_what, changes) => {
    expect(allowanceEditFault(allowance(), content(changes))).toBeUndefined()
  })

  it.each<[string, object, RegExp]>([
    ['the zone', { zone: 'UTC' }, /^zone: it is fixed when an allowance is made/],
    ['whose windows they are', { among: 'lineage' }, /^among: it is fixed when an allowance is made/],
    ['a unit', { amounts: [{ name: 'price', unit: 'EUR' }] }, /^amounts: leave the unit of `price`/],
    ['a unit to none', { amounts: [{ name: 'price' }] }, /^amounts: leave the unit of `price`/],
    ['that an amount is counted', { amounts: [], windows: [], tiers: {} }, /^amounts: keep `price`/],
  ])('may not change %s, because of what was counted', (_what, changes, sentence) => {
    expect(allowanceEditFault(allowance(), content(changes))).toMatch(sentence)
  })
})
