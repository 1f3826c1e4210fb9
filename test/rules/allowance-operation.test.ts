/**
 * Which operations are within an allowance: contract, "Policy vocabulary and tiers". The texts of an agent
 * are hostile here: none passes that the words of the allowance would not let through.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  judgeOperation,
  type AllowanceResult,
  type WindowUse,
} from '../../src/rules/allowance/judge-operation.ts'
import type { OwnerAllowance } from '../../src/wire/documents/allowance.ts'
import { parseJson, type Json, type JsonObject } from '../../src/wire/json.ts'
import { Refusal } from '../../src/wire/refusal.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const NOW = Date.parse('2026-03-02T12:00:00Z') / 1000
const UNUSED: WindowUse[] = [{ of: 'price', per: 'day', used: '0' }]
const ORDER = { price: 50, currency: 'CHF', payee: { name: 'Zoë' } }

const judge = (params: Json, changes: object = {}, uses = UNUSED): AllowanceResult => {
  const operation = { tool: 'place_order', params: params as JsonObject }
  return judgeOperation(allowance(changes), { tier_id: 'shopping', operation, now: NOW }, uses)
}
const beyond = (limit: string) => ({ within: false, limit })
/** The allowance with other members at its tier. */
const at = (members: object) => ({ tiers: { shopping: { ...SHOPPING.tiers.shopping, ...members } } })
const priceAs = (as: string, place: object = {}) =>
  at({ amounts: { price: { pointer: '/price', unit_pointer: '/currency', as, ...place } } })

describe('an operation is within', () => {
  it.each<[string, Json, string]>([
    ['as she wrote it', ORDER, '50'],
    ['with less', { ...ORDER, price: 0.01 }, '0.01'],
    ['with nothing', { ...ORDER, price: 0 }, '0'],
    ['with any text where anything may be said', { ...ORDER, note: '\u202e<script>' }, '50'],
    ['with any object there', { ...ORDER, note: { price: 5_000, payee: ['x'] } }, '50'],
    ['with another payee of hers', { ...ORDER, payee: { name: 'Corner Bakery' } }, '50'],
  ])('%s', (_how, params, price) => {
    expect(judge(params)).toEqual({ within: true, amounts: { price } })
  })

  it('with an amount as text, if the tool has it so', () => {
    expect(judge({ ...ORDER, price: '49.900' }, priceAs('string'))).toEqual({
      within: true,
      amounts: { price: '49.900' },
    })
  })

  it('with an amount and its unit as a query has them', () => {
    const query = { query: { price: ['49.9'], currency: ['CHF'] }, payee: { name: 'Zoë' } }
    const place = { pointer: '/query/price', unit_pointer: '/query/currency' }
    expect(judge(query, priceAs('query', place))).toEqual({ within: true, amounts: { price: '49.9' } })
  })

  it('at a plain API, whose empty path and query she names', () => {
    const place = { pointer: '/body/price', unit_pointer: '/body/currency', as: 'number' }
    const empty = ['/path', '/query'].map(pointer => ({ pointer, one_of: [{}] }))
    const api = at({ amounts: { price: place }, only: empty })
    const body = { price: 5, currency: 'CHF' }
    expect(judge({ path: {}, query: {}, body }, api)).toEqual({ within: true, amounts: { price: '5' } })
    expect(judge({ path: {}, query: { price: ['5000'] }, body }, api)).toEqual(beyond('only:/query'))
    expect(judge({ path: {}, query: {}, body: { ...body, tip: 1 } }, api)).toEqual(beyond('members'))
  })

  it('if it takes the last of a window', () => {
    expect(judge(ORDER, {}, [{ of: 'price', per: 'day', used: '150.000000000' }])).toMatchObject({
      within: true,
    })
  })

  it('without parameters, if the allowance names none', () => {
    const none = { amounts: [], windows: [], ...at({ amounts: {}, only: [], free: [] }) }
    expect(judge({}, none)).toEqual({ within: true, amounts: {} })
    expect(judge({ note: '' }, none)).toEqual(beyond('members'))
  })

  it('with a value that is written otherwise but is the same JSON', () => {
    const only = at({ only: [{ pointer: '/payee', one_of: [{ b: [1.0, 'x'], a: null }] }] })
    const same = parseJson('{"price":50,"currency":"CHF","payee":{"a":null,"b":[1e0,"\\u0078"]}}')
    expect(judge(same, only)).toMatchObject({ within: true })
  })

  it('by pointers with escapes and by names of every object', () => {
    const only = at({ only: [{ pointer: '/a~1b/m~0n/constructor', one_of: [true] }] })
    expect(judge({ price: 1, currency: 'CHF', 'a/b': { 'm~n': { constructor: true } } }, only)).toMatchObject(
      {
        within: true,
      },
    )
  })
})

describe('an operation is beyond', () => {
  it.each<[string, string, string]>([
    ['more than each may be', '{"price":50.01,"currency":"CHF","payee":{"name":"Zoë"}}', 'each_max:price'],
    ['less than nothing', '{"price":-1,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['an exponent that is large', '{"price":5e21,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['an exponent that is small', '{"price":1e-7,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['2^53 + 1', '{"price":9007199254740993,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['too many digits', '{"price":0.1234567891,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['a number in a string', '{"price":"50","currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['an array of the number', '{"price":[50],"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    [
      'an object of the number',
      '{"price":{"price":50},"currency":"CHF","payee":{"name":"Zoë"}}',
      'amount:price',
    ],
    ['no amount', '{"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['null as an amount', '{"price":null,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['true as an amount', '{"price":true,"currency":"CHF","payee":{"name":"Zoë"}}', 'amount:price'],
    ['another unit', '{"price":50,"currency":"EUR","payee":{"name":"Zoë"}}', 'unit:price'],
    ['the unit in another case', '{"price":50,"currency":"chf","payee":{"name":"Zoë"}}', 'unit:price'],
    ['the unit with a space', '{"price":50,"currency":"CHF ","payee":{"name":"Zoë"}}', 'unit:price'],
    ['the unit in an array', '{"price":50,"currency":["CHF"],"payee":{"name":"Zoë"}}', 'unit:price'],
    ['no unit', '{"price":50,"payee":{"name":"Zoë"}}', 'unit:price'],
    ['another payee', '{"price":50,"currency":"CHF","payee":{"name":"Mallory"}}', 'only:/payee/name'],
    [
      'a payee with a space behind',
      '{"price":50,"currency":"CHF","payee":{"name":"Zoë "}}',
      'only:/payee/name',
    ],
    ['a payee in another case', '{"price":50,"currency":"CHF","payee":{"name":"zoë"}}', 'only:/payee/name'],
    [
      'a payee in the other normal form',
      '{"price":50,"currency":"CHF","payee":{"name":"Zoe\\u0308"}}',
      'only:/payee/name',
    ],
    [
      'a payee of letters that look alike',
      '{"price":50,"currency":"CHF","payee":{"name":"Z\\u043e\\u00eb"}}',
      'only:/payee/name',
    ],
    [
      'a payee with an invisible letter',
      '{"price":50,"currency":"CHF","payee":{"name":"Zoë\\u200b"}}',
      'only:/payee/name',
    ],
    ['a payee with NUL', '{"price":50,"currency":"CHF","payee":{"name":"Zoë\\u0000"}}', 'only:/payee/name'],
    ['a payee in an array', '{"price":50,"currency":"CHF","payee":{"name":["Zoë"]}}', 'only:/payee/name'],
    [
      'an array on the way to the payee',
      '{"price":50,"currency":"CHF","payee":[{"name":"Zoë"}]}',
      'only:/payee/name',
    ],
    ['no payee', '{"price":50,"currency":"CHF"}', 'only:/payee/name'],
    [
      'a payee by a name with a slash',
      '{"price":50,"currency":"CHF","payee/name":"Zoë"}',
      'only:/payee/name',
    ],
    ['a further member', '{"price":50,"currency":"CHF","payee":{"name":"Zoë"},"tip":500}', 'members'],
    ['`Price` beside `price`', '{"price":50,"Price":500,"currency":"CHF","payee":{"name":"Zoë"}}', 'members'],
    ['a member with no name', '{"price":50,"currency":"CHF","payee":{"name":"Zoë"},"":1}', 'members'],
    ['`__proto__`', '{"price":50,"currency":"CHF","payee":{"name":"Zoë"},"__proto__":{}}', 'members'],
    [
      'a further member of the payee',
      '{"price":50,"currency":"CHF","payee":{"name":"Zoë","iban":"CH93"}}',
      'members',
    ],
  ])('%s', (_what, params, limit) => {
    expect(judge(parseJson(params))).toEqual(beyond(limit))
  })

  it.each([
    ['a repeated member', '{"price":5000,"price":50,"currency":"CHF","payee":{"name":"Zoë"}}'],
    ['an amount beyond a double', '{"price":1e400,"currency":"CHF","payee":{"name":"Zoë"}}'],
    ['a leading zero', '{"price":050,"currency":"CHF","payee":{"name":"Zoë"}}'],
    ['half a surrogate pair', '{"price":50,"currency":"CHF","payee":{"name":"Zo\\ud800"}}'],
  ])('%s, because it is no JSON that is read', (_what, params) => {
    expect(() => parseJson(params)).toThrow(Refusal)
  })

  it('-0 is 0, as an approval binds it', () => {
    expect(judge(parseJson('{"price":-0,"currency":"CHF","payee":{"name":"Zoë"}}'))).toEqual({
      within: true,
      amounts: { price: '0' },
    })
  })

  it.each([
    '050',
    '00',
    '-0',
    '+5',
    '5e1',
    '5E1',
    ' 5',
    '5 ',
    '5\n',
    '5.',
    '.5',
    '5,0',
    '0x5',
    '5_0',
    '٥',
    '５',
    '5\u0660',
    'Infinity',
    'NaN',
    '',
    '1'.repeat(16),
    '0.1234567890',
  ])('an amount that is written %j, although text is what the tool takes', price => {
    expect(judge({ ...ORDER, price }, priceAs('string'))).toEqual(beyond('amount:price'))
  })

  it.each<[string, Json, string]>([
    ['a repeated name', { price: ['1', '50'], currency: ['CHF'] }, 'amount:price'],
    ['a name without a value', { price: [], currency: ['CHF'] }, 'amount:price'],
    ['text that is no array', { price: '50', currency: ['CHF'] }, 'amount:price'],
    ['a number in the array', { price: [50], currency: ['CHF'] }, 'amount:price'],
    ['a repeated unit', { price: ['50'], currency: ['CHF', 'CHF'] }, 'unit:price'],
    ['a unit that is no array', { price: ['50'], currency: 'CHF' }, 'unit:price'],
  ])('a query with %s', (_what, query, limit) => {
    const params = { ...(query as JsonObject), payee: { name: 'Zoë' } }
    expect(judge(params, priceAs('query'))).toEqual(beyond(limit))
  })

  it.each(['Place_order', 'place_order ', 'place_order\u0000', 'place-order', ''])('the tool %j', tool => {
    const request = { tier_id: 'shopping', operation: { tool, params: ORDER }, now: NOW }
    expect(judgeOperation(allowance(), request, UNUSED)).toEqual(beyond('tools'))
  })

  it.each(['trading', 'constructor', '__proto__', ''])(
    'at the tier %j, of which it says nothing',
    tier_id => {
      const request = { tier_id, operation: { tool: 'place_order', params: ORDER }, now: NOW }
      expect(judgeOperation(allowance(), request, UNUSED)).toEqual(beyond('tiers'))
    },
  )

  it.each([
    ['2026-03-02T12:00:00.000Z', false],
    ['2026-03-02T12:00:00.001Z', true],
    ['2026-03-02T11:59:59.000Z', false],
    ['soon', false],
  ])('after its end: until %s it is within: %s', (until, within) => {
    expect(judge(ORDER, { until }).within).toBe(within)
    if (!within) expect(judge(ORDER, { until })).toEqual(beyond('until'))
  })

  it.each<[string, WindowUse[]]>([
    ['that has less left', [{ of: 'price', per: 'day', used: '150.000000001' }]],
    ['that is over', [{ of: 'price', per: 'day', used: '9999' }]],
    ['whose use is not known', []],
    ['whose use cannot be read', [{ of: 'price', per: 'day', used: '1e2' }]],
    ['of which another period is known', [{ of: 'price', per: 'week', used: '0' }]],
    ['of which another amount is known', [{ of: 'calls', per: 'day', used: '0' }]],
  ])('a window %s', (_how, uses) => {
    expect(judge(ORDER, {}, uses)).toEqual(beyond('window:price:day'))
  })

  it('a window of calls that has no call left', () => {
    const windows = [{ of: 'calls', per: 'hour', max: '3' }]
    const used = (calls: string): WindowUse[] => [{ of: 'calls', per: 'hour', used: calls }]
    expect(judge(ORDER, { windows }, used('2')).within).toBe(true)
    expect(judge(ORDER, { windows }, used('3'))).toEqual(beyond('window:calls:hour'))
  })

  it('what a stored allowance names by a pointer that is none', () => {
    const stored = allowance()
    const broken = (tier: object): OwnerAllowance => ({
      ...stored,
      tiers: { shopping: { ...stored.tiers['shopping']!, ...tier } },
    })
    const request = {
      tier_id: 'shopping',
      operation: { tool: 'place_order', params: { ...ORDER, note: 1 } },
      now: NOW,
    }
    const result = (tier: object) => judgeOperation(broken(tier), request, UNUSED)
    expect(result({ free: ['note'] })).toEqual(beyond('members'))
    expect(result({ only: [{ pointer: '', one_of: [{}] }] })).toEqual(beyond('only:'))
    expect(result({ amounts: {} })).toEqual(beyond('amount:price'))
  })
})

/** A value that an agent might put anywhere. */
const anyValue: fc.Arbitrary<Json> = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>
const cents = fc.nat({ max: 5_000 }).map(n => n / 100)
const anyOrder = fc.record({
  price: cents,
  currency: fc.constant('CHF'),
  payee: fc.record({ name: fc.constantFrom('Zoë', 'Corner Bakery') }),
  note: anyValue,
})
/** A member's name that the allowance does not name, at the top or in the payee. */
const otherName = fc.oneof(
  fc.constantFrom('Price', 'PRICE', 'currency ', 'Payee', 'Note', 'prices', 'toString', 'price\u0000'),
  fc.string(),
)

describe('whatever the operation', () => {
  it('what keeps to her words is within, and takes what it says', () => {
    fc.assert(
      fc.property(anyOrder, order => {
        expect(judge(order)).toEqual({ within: true, amounts: { price: String(order.price) } })
      }),
    )
  })

  it('one member more, wherever it stands, is beyond', () => {
    fc.assert(
      fc.property(anyOrder, otherName, anyValue, fc.boolean(), (order, name, value, inside) => {
        fc.pre(!['price', 'currency', 'payee', 'note', 'name', '__proto__'].includes(name))
        const params = inside
          ? { ...order, payee: { ...order.payee, [name]: value } }
          : { ...order, [name]: value }
        expect(judge(params)).toEqual(beyond('members'))
      }),
    )
  })

  it('any other value in place of one that she named is beyond', () => {
    const names = fc.constantFrom('price', 'currency', 'payee', 'name')
    fc.assert(
      fc.property(anyOrder, names, fc.oneof(anyValue, fc.string()), (order, name, value) => {
        const right =
          (name === 'price' && typeof value === 'number' && value >= 0 && value <= 50) ||
          value === 'CHF' ||
          value === 'Zoë' ||
          value === 'Corner Bakery'
        fc.pre(!right)
        const params = name === 'name' ? { ...order, payee: { name: value } } : { ...order, [name]: value }
        expect(judge(params).within).toBe(false)
      }),
    )
  })

  it('no order of operations takes more than a window has', () => {
    fc.assert(
      fc.property(fc.array(cents, { minLength: 1, maxLength: 30 }), prices => {
        let usedCents = 0
        for (const price of prices) {
          const uses: WindowUse[] = [{ of: 'price', per: 'day', used: (usedCents / 100).toFixed(2) }]
          if (judge({ ...ORDER, price }, {}, uses).within) usedCents += Math.round(price * 100)
          else expect(usedCents + Math.round(price * 100)).toBeGreaterThan(20_000)
        }
        expect(usedCents).toBeLessThanOrEqual(20_000)
      }),
    )
  })

  it('is never made within by anything else that was used', () => {
    fc.assert(
      fc.property(anyOrder, fc.nat({ max: 300 }), fc.nat({ max: 300 }), (order, less, more) => {
        const use = (used: number): WindowUse[] => [{ of: 'price', per: 'day', used: String(used) }]
        const [few, many] = [Math.min(less, more), Math.max(less, more)]
        if (judge(order, {}, use(many)).within) expect(judge(order, {}, use(few)).within).toBe(true)
      }),
    )
  })
})
