/**
 * Owns random choices that a seed repeats: which operation comes next, and what is done to which process.
 */

export interface Chance {
  /** From 0 to below 1. */
  next(): number
  /** A whole number from 0 to below `count`. */
  below(count: number): number
  of<T>(all: readonly T[]): T
  /** One of the names, as often as its weight says. */
  weighed<T extends string>(weights: Readonly<Record<T, number>>): T
}

/** mulberry32: small, and the same on every machine. */
export function chance(seed: number): Chance {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (count: number): number => Math.floor(next() * count)
  return {
    next,
    below,
    of: all => all[below(all.length)]!,
    weighed: <T extends string>(weights: Readonly<Record<T, number>>): T => {
      const entries = Object.entries(weights) as [T, number][]
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      return entries.find(([, weight]) => (left -= weight) < 0)?.[0] ?? entries[0]![0]
    },
  }
}
