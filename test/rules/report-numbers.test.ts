import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gapsBetween } from '../../src/rules/report-numbers.ts'

describe('The numbers of access reports', () => {
  it.each<[string, [after: number, upTo: number, came: number[]], [number, number][]]>([
    ['that follow each other leave no gap', [0, 3, [1, 2, 3]], []],
    ['that begin late leave one before them', [0, 3, [3]], [[1, 2]]],
    ['leave one between them', [4, 9, [5, 8, 9]], [[6, 7]]],
    ['leave one up to where the run says that it has come', [4, 9, [5]], [[6, 9]]],
    ['in any order and twice are the same numbers', [0, 4, [4, 2, 2, 1]], [[3, 3]]],
    ['of what was settled before open none', [10, 10, [3, 7]], []],
    ['of what was settled before fill none of the new', [10, 12, [9, 10]], [[11, 12]]],
  ])('%s', (_what, of, gaps) => {
    expect(gapsBetween(...of)).toEqual(gaps.map(([from, to]) => ({ from, to })))
  })

  it('are each either come, settled before, or in exactly one gap', () => {
    const number = fc.integer({ min: 1, max: 60 })
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40 }), fc.array(number), (after, came) => {
        const upTo = Math.max(after, ...came)
        const gaps = gapsBetween(after, upTo, came)
        for (let n = 1; n <= upTo; n++) {
          const inGaps = gaps.filter(({ from, to }) => from <= n && n <= to).length
          expect(inGaps).toBe(n > after && !came.includes(n) ? 1 : 0)
        }
      }),
    )
  })
})
