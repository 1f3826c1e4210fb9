import { Histogram, Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { difference, quantile, readHistogram } from '../../bench/histogram.ts'

const BUCKETS = [1, 2, 4]

async function textOf(values: Record<string, number[]>): Promise<string> {
  const registry = new Registry()
  const histogram = new Histogram({
    name: 'seconds',
    help: 'h',
    labelNames: ['of'],
    buckets: BUCKETS,
    registers: [registry],
  })
  for (const [of, all] of Object.entries(values)) for (const value of all) histogram.observe({ of }, value)
  return registry.metrics()
}

describe('A histogram is read off the text in which a process publishes it', () => {
  it('over all its labels', async () => {
    const read = readHistogram(await textOf({ a: [0.5, 3], b: [1.5, 9] }), 'seconds')
    expect(read).toEqual({ bounds: [1, 2, 4, Infinity], counts: [1, 2, 3, 4] })
  })

  it('and one that is not there is told as absent', async () => {
    expect(readHistogram(await textOf({}), 'others')).toBeUndefined()
  })

  it('a quantile lies between the bounds of its bucket, in proportion to the rank', async () => {
    const read = readHistogram(await textOf({ a: [1.5, 1.5, 1.5, 1.5] }), 'seconds')!
    expect(quantile(read, 0.5)).toBe(1.5)
    expect(quantile(read, 0.25)).toBe(1.25)
  })

  it('a quantile beyond the last bound is that bound, and there is none of nothing', async () => {
    const read = readHistogram(await textOf({ a: [9] }), 'seconds')!
    expect(quantile(read, 0.5)).toBe(4)
    expect(quantile(difference(read, read), 0.5)).toBeNaN()
  })

  it('what was observed before does not count', async () => {
    const before = readHistogram(await textOf({ a: [0.5, 0.5, 0.5] }), 'seconds')!
    const after = readHistogram(await textOf({ a: [0.5, 0.5, 0.5, 3] }), 'seconds')!
    expect(quantile(difference(before, after), 0.5)).toBe(3)
  })
})
