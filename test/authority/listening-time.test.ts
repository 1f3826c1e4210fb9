/**
 * Contract, "Events", 2: an enforcement point is told as silent only by an authority that would have heard
 * it.
 */
import { expect, it } from 'vitest'
import { listeningFor } from '../../src/authority/listening-time.ts'

function listener() {
  let now = 1_000_000
  const listening = listeningFor({ clock: () => now, apartMsMax: 120_000 })
  return { listening, after: (ms: number) => ((now += ms), listening.ms()) }
}

it('counts from its start, over turns that follow each other', () => {
  const { after } = listener()
  expect([after(60_000), after(60_000), after(120_000)]).toEqual([60_000, 120_000, 240_000])
})

it('begins again after a turn that failed', () => {
  const { listening, after } = listener()
  after(60_000)
  listening.broken()
  expect(after(60_000)).toBe(60_000)
})

it('begins again if it was away between two turns', () => {
  const { after } = listener()
  expect([after(60_000), after(120_001), after(60_000)]).toEqual([60_000, 0, 60_000])
})
