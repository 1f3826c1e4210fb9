/** contract, "Events" (organization notice): which answers end a notice, and when it is told again. */
import { describe, expect, it } from 'vitest'
import { noticeOutcome, noticePause } from '../../src/rules/organization/notice.ts'

describe('A notice', () => {
  it.each([
    ['ended', [200, 201, 204, 299, 403, 404, 409]],
    ['stopped', [400, 401]],
    ['again', [undefined, 100, 302, 402, 405, 410, 413, 429, 500, 502, 503, 504]],
  ] as const)('is %s by these answers', (outcome, statuses) => {
    for (const status of statuses) expect(noticeOutcome(status)).toBe(outcome)
  })

  it('is told again after a second, then later each time, and never later than five minutes', () => {
    expect([0, 1, 5, 8, 9, 1_000].map(attempts => noticePause(attempts, 0))).toEqual([
      1, 2, 32, 256, 300, 300,
    ])
    expect(noticePause(9, 1)).toBe(150)
  })
})
