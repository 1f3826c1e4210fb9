/**
 * Owns how an amount is written: as decimal text, because a double would round it. Contract: "Policy
 * vocabulary and tiers".
 */

/**
 * One spelling of each amount but for zeros at its end: no sign, no exponent, no leading zero, ASCII digits,
 * at most 15 of them and 9 behind the full stop.
 */
export const DECIMAL = /^(0|[1-9]\d{0,14})(\.\d{1,9})?$/
