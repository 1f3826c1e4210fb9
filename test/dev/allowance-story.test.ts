/** When the story of an allowance may be told: contract, "Policy vocabulary and tiers". */
import { describe, expect, it } from 'vitest'
import { noonZone } from '../../src/dev/story/allowance-scene.ts'

const clockIn = (timeZone: string, ms: number): string =>
  new Intl.DateTimeFormat('en-GB', {
    timeZone,
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  }).format(ms)

describe('The day of the story of an allowance', () => {
  it('is in the hour after its noon whenever the story begins, so that it does not end by itself', () => {
    const ends = Array.from({ length: 24 }, (_, hour) => Date.UTC(2026, 10, 29, hour, 59, 59))
    expect(ends.map(ms => clockIn(noonZone(ms), ms))).toEqual(ends.map(() => '12:59'))
  })
})
