/**
 * Owns exact arithmetic on amounts, which come and go as decimal text: no double comes near them. Contract:
 * "Policy vocabulary and tiers".
 */

/** What a window may hold: the sum of many amounts, with zeros at its end where Postgres writes them. */
const SUM = /^(\d{1,25})(?:\.(\d{1,9}))?$/
const FRACTION_DIGITS = 9

/** The number in billionths; undefined for a text that is no amount and no sum. */
function billionths(text: string): bigint | undefined {
  const parts = SUM.exec(text)
  return parts === null ? undefined : BigInt(parts[1]! + (parts[2] ?? '').padEnd(FRACTION_DIGITS, '0'))
}

/** Whether `amount` is at most `max`. False if either cannot be read, so that nothing passes by it. */
export function isAtMost(amount: string, max: string): boolean {
  const [one, other] = [billionths(amount), billionths(max)]
  return one !== undefined && other !== undefined && one <= other
}

/** The sum, without zeros at its end; undefined if either cannot be read, or if the sum is too long. */
export function sumOf(one: string, other: string): string | undefined {
  const [a, b] = [billionths(one), billionths(other)]
  if (a === undefined || b === undefined) return undefined
  const sum = decimalText(a + b)
  return SUM.test(sum) ? sum : undefined
}

/**
 * How much of `max` is left beside `used`, without zeros at its end: nothing if more was used, or if either
 * cannot be read.
 */
export function leftOf(max: string, used: string): string {
  const [a, b] = [billionths(max), billionths(used)]
  return a === undefined || b === undefined || a < b ? '0' : decimalText(a - b)
}

function decimalText(number: bigint): string {
  const digits = number.toString().padStart(FRACTION_DIGITS + 1, '0')
  const whole = digits.slice(0, -FRACTION_DIGITS)
  const fraction = digits.slice(-FRACTION_DIGITS).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}
