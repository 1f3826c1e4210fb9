/** How an allowance is written: contract, "Policy vocabulary and tiers", "Owner API". */
import { describe, expect, it } from 'vitest'
import { ALLOWANCE_CONTENT, OWNER_ALLOWANCE } from '../../src/wire/documents/allowance.ts'
import { parsePointer } from '../../src/wire/json-pointer.ts'
import { allowance, SHOPPING } from '../support/allowance.ts'

const read = (changes: object) => ALLOWANCE_CONTENT.safeParse({ ...SHOPPING, ...changes })
const at = (members: object) => ({ tiers: { shopping: { ...SHOPPING.tiers.shopping, ...members } } })

describe('an allowance', () => {
  it('has defaults for all that it may leave out', () => {
    expect(ALLOWANCE_CONTENT.parse({})).toEqual({
      until: null,
      hold_s: 300,
      amounts: [],
      windows: [],
      tiers: {},
    })
    const tier = { tools: ['place_order'] }
    expect(ALLOWANCE_CONTENT.parse({ tiers: { shopping: tier } }).tiers).toEqual({
      shopping: { ...tier, amounts: {}, only: [], free: [] },
    })
  })

  it('is saved again as it was read', () => {
    const { id, version, ...members } = allowance({ until: '2026-03-08T22:00:00.000Z' })
    expect(ALLOWANCE_CONTENT.parse({ id, version, ...members })).toEqual({ id, version, ...members })
    expect(OWNER_ALLOWANCE.parse({ id, version, ...members })).toEqual({ id, version, ...members })
    const used = { use: [{ windows: [] }], more: true, held_more: true }
    expect(ALLOWANCE_CONTENT.safeParse({ id, version, ...members, ...used }).success).toBe(true)
    expect(OWNER_ALLOWANCE.safeParse({ id, version, ...members, ...used }).success).toBe(false)
  })

  it.each([
    ['2026-03-08T22:00:00Z', true],
    ['2028-02-29T22:00:00.5+01:00', true],
    ['1970-01-01T00:00:00Z', true],
    ['2026-02-29T00:00:00Z', false],
    ['2026-02-30T00:00:00Z', false],
    ['2026-13-01T00:00:00Z', false],
    ['2026-03-08T22:00:00', false],
    ['2026-03-08 22:00:00Z', false],
    ['2026-03-08', false],
    ['2026-03-08T22:00:00+99:00', false],
    ['0000-01-01T00:00:00Z', false],
    ['1969-12-31T23:59:59Z', false],
    ['9999-12-31T23:59:59-12:00', false],
    ['infinity', false],
    ['', false],
  ])('has the end %j: %s', (until, is) => {
    expect(read({ until }).success).toBe(is)
  })

  it.each<[string, object]>([
    ['an unknown member', { each_max: '5' }],
    ['an amount as a number', { amounts: [{ name: 'price', each_max: 50 }] }],
    ['an amount with an exponent', { amounts: [{ name: 'price', each_max: '5e1' }] }],
    ['an amount below nothing', { amounts: [{ name: 'price', each_max: '-5' }] }],
    ['an amount with a leading zero', { amounts: [{ name: 'price', each_max: '05' }] }],
    ['an amount of 16 digits', { amounts: [{ name: 'price', each_max: '1'.repeat(16) }] }],
    ['an amount in Arabic digits', { amounts: [{ name: 'price', each_max: '٥' }] }],
    ['a name with a capital', { amounts: [{ name: 'Price' }] }],
    ['five amounts', { amounts: ['a', 'b', 'c', 'd', 'e'].map(name => ({ name })) }],
    ['an unknown period', { windows: [{ of: 'price', per: 'year', max: '1' }] }],
    ['nine windows', { windows: Array(9).fill(SHOPPING.windows[0]) }],
    ['a grant of a moment', { hold_s: 59 }],
    ['a grant of more than an hour', { hold_s: 3_601 }],
    ['an offset in place of a zone', { zone: '+01:00' }],
    ['no tool', at({ tools: [] })],
    ['17 tools', at({ tools: Array.from({ length: 17 }, (_, n) => `t${n}`) })],
    ['a tool with a control character', at({ tools: ['place\u0000'] })],
    ['the empty pointer', at({ free: [''] })],
    ['a pointer without a slash', at({ free: ['note'] })],
    ['a pointer with a broken escape', at({ free: ['/a~2'] })],
    ['17 free pointers', at({ free: Array.from({ length: 17 }, (_, n) => `/f${n}`) })],
    ['no value that it may be', at({ only: [{ pointer: '/a', one_of: [] }] })],
    ['101 values that it may be', at({ only: [{ pointer: '/a', one_of: Array(101).fill(1) }] })],
    ['an unknown form', at({ amounts: { price: { pointer: '/price', as: 'float' } } })],
    ['a tier by no name of one', { tiers: { '../x': SHOPPING.tiers.shopping } }],
  ])('has not %s', (_what, changes) => {
    expect(read(changes).success).toBe(false)
  })
})

describe('a pointer', () => {
  it.each([
    ['/a', ['a']],
    ['/a/b', ['a', 'b']],
    ['/', ['']],
    ['/a//b', ['a', '', 'b']],
    ['/a~1b', ['a/b']],
    ['/a~0b', ['a~b']],
    ['/a~01', ['a~1']],
    ['/0/-', ['0', '-']],
    ['/__proto__', ['__proto__']],
    ['/é\n', ['é\n']],
  ])('%j passes %j (RFC 6901)', (text, steps) => {
    expect(parsePointer(text)).toEqual(steps)
  })

  it.each(['', 'a', 'a/b', '#/a', '/a~', '/a~2', ' /a'])('%j is none', text => {
    expect(parsePointer(text)).toBeUndefined()
  })
})
