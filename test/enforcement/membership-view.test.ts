/** How old a membership may be at the call: contract, "Authorized call", order 2. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { deadlineAt } from '../../src/enforcement/deadline.ts'
import {
  createMembershipView,
  type MembershipView,
} from '../../src/enforcement/organization/membership-view.ts'
import type { EnforcedMembership } from '../../src/wire/documents/enforced-membership.ts'

const of = (view: number, since = '2026-11-01T09:00:00.000Z'): EnforcedMembership => ({
  member: true,
  since,
  as_uri: 'https://as.example',
  view,
  charter_version: 1,
  claims: [],
  grants: [],
  delegation: 'none',
  max_expires_in: 1,
  allowed_scopes: null,
  always_ask: [],
  break_glass: { enabled: false, resources: [], max_expires_in: 1 },
})
const viewOf = (membership: EnforcedMembership) => (membership.member ? membership.view : 'none')

let asked: number
let answer: () => Promise<EnforcedMembership>
let view: MembershipView
const clock = () => Date.now()
const current = async () => viewOf(await view.current(deadlineAt(clock() + 500, clock)))
beforeEach(() => {
  vi.useFakeTimers()
  asked = 0
  answer = async () => of(asked)
  view = createMembershipView({
    read: () => {
      asked++
      return answer()
    },
    clock,
  })
})
afterEach(() => {
  view.stop()
  vi.useRealTimers()
})

describe('The membership of an owner', () => {
  it('is asked for by nobody until a call needs it, then once, however many calls wait', async () => {
    await vi.advanceTimersByTimeAsync(60_000)
    expect(asked).toBe(0)
    expect(await Promise.all(Array.from({ length: 50 }, current))).toEqual(Array(50).fill(1))
    expect(asked).toBe(1)
  })

  it('is refreshed beside the calls from 5 s on, so that no later call waits for it', async () => {
    await current()
    for (let second = 1; second <= 50; second++) {
      await vi.advanceTimersByTimeAsync(1_000)
      // An answer at once, and no promise.
      expect(view.current(deadlineAt(0, clock))).not.toBeInstanceOf(Promise)
    }
    expect(asked).toBeGreaterThanOrEqual(9)
    expect(asked).toBeLessThanOrEqual(11)
  })

  it('is not asked for any more if nobody called for a minute', async () => {
    await current()
    await vi.advanceTimersByTimeAsync(120_000)
    const then = asked
    await vi.advanceTimersByTimeAsync(600_000)
    expect(asked).toBe(then)
  })

  it('is used to 10 s of age if the organization is silent, and is then an outage', async () => {
    await current()
    answer = () => Promise.reject(new Error('silent'))
    await vi.advanceTimersByTimeAsync(9_999)
    expect(await current()).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    await expect(current()).rejects.toThrow('silent')
    // A caller right after that is answered at once, without another request.
    const then = asked
    await expect(current()).rejects.toThrow('silent')
    expect(asked).toBe(then)
    answer = async () => of(9)
    await vi.advanceTimersByTimeAsync(2_000)
    expect(await current()).toBe(9)
  })

  it('is as old as the question was, not as the answer', async () => {
    answer = async () => {
      await new Promise(resolve => setTimeout(resolve, 3_000))
      return of(1)
    }
    const first = view.current(deadlineAt(clock() + 4_000, clock))
    await vi.advanceTimersByTimeAsync(3_000)
    expect(viewOf(await first)).toBe(1)
    answer = () => new Promise(() => undefined)
    await vi.advanceTimersByTimeAsync(7_000)
    await expect(
      Promise.race([current(), vi.advanceTimersByTimeAsync(501).then(() => 'nothing')]),
    ).rejects.toMatchObject({ code: 'temporarily_unavailable' })
  })

  it('that a call waits for ends its waiting at its own deadline', async () => {
    answer = () => new Promise(() => undefined)
    const waiting = expect(current()).rejects.toMatchObject({ code: 'temporarily_unavailable', status: 503 })
    await vi.advanceTimersByTimeAsync(501)
    await waiting
  })

  it('never goes back: an earlier view, and an earlier membership, count as no answer', async () => {
    answer = async () => of(5)
    expect(await current()).toBe(5)
    for (const earlier of [of(4), of(9, '2026-10-01T09:00:00.000Z')]) {
      answer = async () => earlier
      await vi.advanceTimersByTimeAsync(10_000)
      await expect(current()).rejects.toMatchObject({ code: 'temporarily_unavailable' })
    }
    // Having left and joined again she is told of from the first view on.
    answer = async () => ({ member: false, claims: [] })
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await current()).toBe('none')
    answer = async () => of(4)
    await vi.advanceTimersByTimeAsync(10_000)
    await expect(current()).rejects.toMatchObject({ code: 'temporarily_unavailable' })
    answer = async () => of(1, '2026-11-20T09:00:00.000Z')
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await current()).toBe(1)
  })
})
