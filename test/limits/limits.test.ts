/** contract, "Limits" (ours to choose): what strangers send takes no more memory, work or time than this. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BoundedMap } from '../../src/limits/bounded-map.ts'
import { LATE, waitAtMost } from '../../src/limits/patience.ts'
import { createRateShares } from '../../src/limits/rate-shares.ts'

describe('A bounded map', () => {
  it('holds what was set last, in that order, and no more than its bound', () => {
    const sets = fc.array(fc.tuple(fc.integer({ min: 0, max: 12 }), fc.integer()), { maxLength: 60 })
    fc.assert(
      fc.property(sets, fc.integer({ min: 1, max: 8 }), (pairs, bound) => {
        const map = new BoundedMap<number, number>(bound)
        for (const [key, value] of pairs) map.set(key, value)
        const lastFirst = new Map([...pairs].reverse().map(([key]) => [key, true]))
        const kept = [...lastFirst.keys()].slice(0, bound).reverse()
        expect([...map.keys()]).toEqual(kept)
        for (const key of kept) expect(map.get(key)).toBe(pairs.findLast(([one]) => one === key)![1])
      }),
    )
  })
})

describe("A source's share", () => {
  const at = (perMinute: number, sourcesMax = 10) => {
    const time = { now: 0 }
    return { time, shares: createRateShares({ perMinute, sourcesMax, clock: () => time.now }) }
  }

  it('is taken until nothing is left, and comes back steadily', () => {
    const { time, shares } = at(6)
    expect(Array.from({ length: 7 }, () => shares.take('a'))).toEqual([0, 0, 0, 0, 0, 0, 10])
    time.now = 9_999
    expect(shares.take('a')).toBe(1)
    time.now = 10_000
    expect([shares.wait('a'), shares.wait('a'), shares.take('a'), shares.take('a')]).toEqual([0, 0, 0, 10])
  })

  it('is charged below what is left, but never below nothing', () => {
    const { shares } = at(2)
    for (let charge = 0; charge < 5; charge++) shares.charge('a')
    expect([shares.wait('a'), shares.wait('b')]).toEqual([30, 0])
  })

  it('is remembered of those seen last, refused or not', () => {
    const { shares } = at(1, 2)
    for (const source of ['a', 'b', 'a', 'c']) shares.take(source)
    expect([shares.wait('a'), shares.wait('b'), shares.wait('c')]).toEqual([60, 0, 60])
  })
})

describe('Waiting at most so long', () => {
  it('answers what the work answers, or throws what it throws', async () => {
    expect(await waitAtMost(60_000, Promise.resolve('done'))).toBe('done')
    await expect(waitAtMost(60_000, Promise.reject(new Error('broken')))).rejects.toThrow('broken')
  })

  it('ends at its time, even if no time is left, and the work goes on', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    expect(await waitAtMost(-5, promise)).toBe(LATE)
    expect(await waitAtMost(1, promise)).toBe(LATE)
    resolve('later')
    expect(await waitAtMost(60_000, promise)).toBe('later')
  })

  it('has a longest time, and is not over at once if more is asked for', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    const waiting = waitAtMost(Infinity, promise)
    await new Promise(setImmediate)
    resolve('done')
    expect(await waiting).toBe('done')
  })
})
