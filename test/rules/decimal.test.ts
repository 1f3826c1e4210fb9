/** Amounts are added and compared exactly: contract, "Policy vocabulary and tiers". */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAtMost, leftOf, sumOf } from '../../src/rules/allowance/decimal.ts'

const BILLION = 1_000_000_000n
/** The text of so many billionths, with all nine digits behind the full stop. */
const text = (billionths: bigint): string =>
  `${billionths / BILLION}.${(billionths % BILLION).toString().padStart(9, '0')}`
const amount = fc.bigInt({ min: 0n, max: 999_999_999_999_999n * BILLION })

describe('an amount', () => {
  it.each([
    ['0.1', '0.2', '0.3'],
    ['0.1', '0.9', '1'],
    ['200', '0', '200'],
    ['0', '0', '0'],
    ['1.50', '1.5', '3'],
    ['150.000000000', '50', '200'],
    ['0.000000001', '0.000000009', '0.00000001'],
    ['999999999999999.999999999', '0.000000001', '1000000000000000'],
    ['9007199254740993', '1', '9007199254740994'],
  ])('%s and %s are %s', (one, other, sum) => {
    expect(sumOf(one, other)).toBe(sum)
    expect(sumOf(other, one)).toBe(sum)
  })

  it.each([
    ['50', '50', true],
    ['50.00', '50', true],
    ['50', '50.000000000', true],
    ['50.000000001', '50', false],
    ['9', '10', true],
    ['10', '9', false],
    ['0.10', '0.9', true],
    ['9007199254740993', '9007199254740992', false],
  ])('%s is at most %s: %s', (one, max, is) => {
    expect(isAtMost(one, max)).toBe(is)
  })

  it.each(['', ' 1', '1 ', '-1', '+1', '1e3', '0x10', '1.', '.5', '1,5', '1.0000000001', '١', '１', 'NaN'])(
    'that is written %j is none: it passes nothing, and has no sum',
    written => {
      expect([isAtMost(written, '50'), isAtMost('50', written)]).toEqual([false, false])
      expect([sumOf(written, '1'), sumOf('1', written)]).toEqual([undefined, undefined])
    },
  )

  it('that a window could not hold has no sum', () => {
    expect(sumOf('9'.repeat(25), '1')).toBeUndefined()
    expect(sumOf('9'.repeat(25), '0.5')).toBe(`${'9'.repeat(25)}.5`)
  })

  it.each([
    ['200', '62.5', '137.5'],
    ['200', '200.000000000', '0'],
    ['1', '0.000000001', '0.999999999'],
    ['9007199254740993', '1', '9007199254740992'],
    ['3', '5', '0'],
    ['3', '1e0', '0'],
    ['', '1', '0'],
  ])('of %s beside %s leaves %s, and never less than nothing', (max, used, left) => {
    expect(leftOf(max, used)).toBe(left)
  })

  it('is added and compared as the whole number of its billionths', () => {
    fc.assert(
      fc.property(amount, amount, (a, b) => {
        expect(isAtMost(text(a), text(b))).toBe(a <= b)
        const sum = sumOf(text(a), text(b))!
        expect(isAtMost(sum, text(a + b)) && isAtMost(text(a + b), sum)).toBe(true)
        expect(isAtMost(leftOf(sum, text(a)), text(b)) && isAtMost(text(b), leftOf(sum, text(a)))).toBe(true)
      }),
    )
  })
})
