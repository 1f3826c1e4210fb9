import { describe, expect, it } from 'vitest'
import { readRate } from '../../bench/cross-check.ts'

const output = (succeeded: number): string =>
  [
    'finished in 2.15s, 4651.16 req/s, 1.04MB/s',
    `requests: 10000 total, 10000 started, 10000 done, ${succeeded} succeeded, ${10_000 - succeeded} failed, 0 errored, 0 timeout`,
    `status codes: ${succeeded} 2xx, 0 3xx, 0 4xx, ${10_000 - succeeded} 5xx`,
  ].join('\n')

describe('What h2load says of a run', () => {
  it('counts only where each call was answered', () => {
    expect(readRate(output(10_000), 10_000)).toBe(4651.16)
    expect(() => readRate(output(9_999), 10_000)).toThrow('not each of its 10000 calls')
    expect(() => readRate('', 1)).toThrow('not each of its 1 calls')
  })
})
