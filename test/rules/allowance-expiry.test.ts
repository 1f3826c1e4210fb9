/**
 * When a grant within an allowance ends: contract, "Policy vocabulary and tiers", "RPT claims" (`exp`). What
 * is taken in a window is spent in it or not at all.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { latestExpiry } from '../../src/rules/allowance/expiry.ts'
import type { AllowancePeriod } from '../../src/wire/documents/allowance.ts'

const NOW = Date.parse('2026-03-02T12:00:00Z') / 1000
const iso = (seconds: number) => new Date(seconds * 1000).toISOString()
type Ending = [per: AllowancePeriod, endsAt: number | null]
const latest = (hold_s: number, until: number | null, ends: Ending[], now = NOW) =>
  latestExpiry(
    { hold_s, until: until === null ? null : iso(until) },
    ends.map(([per, endsAt]) => ({ per, endsAt })),
    now,
  )

describe('A grant within an allowance ends', () => {
  it.each<[string, number | undefined, Parameters<typeof latest>]>([
    ['after hold_s, if nothing ends sooner', NOW + 300, [300, null, []]],
    ['after hold_s, where only the whole life counts', NOW + 300, [300, null, [['all', null]]]],
    ['with its window', NOW + 20, [300, null, [['day', NOW + 20]]]],
    [
      'with the first of its windows',
      NOW + 20,
      [
        300,
        null,
        [
          ['day', NOW + 200],
          ['hour', NOW + 20],
        ],
      ],
    ],
    ['at until', NOW + 30, [300, NOW + 30, [['day', NOW + 200]]]],
    ['at a whole second, which is not after any of these', NOW + 60, [60, null, [], NOW + 0.7]],
    ['a second after its issue at the soonest', NOW + 1, [300, null, [['hour', NOW + 1]]]],
    [
      'not at all, because it cannot be issued, if less than a second is left',
      undefined,
      [300, null, [['hour', NOW + 1]], NOW + 0.1],
    ],
    ['not at all at until', undefined, [300, NOW, []]],
    ['not at all if the window is over', undefined, [300, null, [['day', NOW - 5]]]],
    ['not at all if nobody knows when its day ends', undefined, [300, null, [['day', null]]]],
  ])('%s', (_when, end, asked) => {
    expect(latest(...asked)).toBe(end)
  })

  it('never after a bound, and never sooner than a second before the first', () => {
    const seconds = fc.double({ min: 1, max: 100_000, noNaN: true })
    const windows = fc.array(seconds, { maxLength: 8 })
    fc.assert(
      fc.property(fc.integer({ min: 60, max: 3_600 }), windows, seconds, (hold_s, ends, since) => {
        const now = NOW + since
        const bound = Math.min(now + hold_s, ...ends.map(end => NOW + end))
        const end = latest(
          hold_s,
          null,
          ends.map(one => ['hour', NOW + one]),
          now,
        )
        if (end === undefined) expect(bound).toBeLessThan(now + 2)
        else expect(end > bound - 1 && end <= bound && end >= now + 1).toBe(true)
      }),
    )
  })
})
