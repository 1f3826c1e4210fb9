/** How old a mandate may be that calls are counted under: contract, "Authorized call", order 2. */
import { beforeEach, describe, expect, it } from 'vitest'
import { deadlineAt } from '../../src/enforcement/deadline.ts'
import { outage } from '../../src/enforcement/outage.ts'
import { createMandateView, type MandateView } from '../../src/enforcement/joint/mandate-view.ts'
import type { MandateAnswer } from '../../src/enforcement/joint/tally-client.ts'
import { mandateOf } from '../support/joint.ts'

const first = mandateOf()
const second = mandateOf({ resources: ['family-1/savings'] })
let now: number
let asked: number
let answer: () => Promise<MandateAnswer>
let view: MandateView
const current = () => view.current(deadlineAt(now + 2_000, () => now))

beforeEach(() => {
  now = 0
  asked = 0
  answer = () => Promise.resolve(first)
  const read = () => {
    asked++
    return answer()
  }
  view = createMandateView({ read, clock: () => now })
})
const expectOutage = () => expect(current()).rejects.toMatchObject({ code: 'temporarily_unavailable' })
const fail = () => (answer = () => Promise.reject(outage('The tally could not be asked.')))
const hang = () => (answer = () => new Promise(() => undefined))

describe('A mandate', () => {
  it('is read when it is first needed, once for all who ask at the time', async () => {
    expect(asked).toBe(0)
    expect(await Promise.all([current(), current(), current()])).toEqual([first, first, first])
    expect(asked).toBe(1)
  })

  it('that is younger than 15 s is not read again, and from then on beside the calls', async () => {
    await current()
    now = 14_999
    await current()
    expect(asked).toBe(1)
    now = 15_000
    hang()
    expect(await current()).toBe(first)
    expect(asked).toBe(2)
  })

  it('that is 30 s old is read again before it is used, so that a change is in force', async () => {
    await current()
    now = 30_000
    answer = () => Promise.resolve(second)
    expect(await current()).toBe(second)
  })

  it('that cannot be read is used until it is 300 s old, and then there is none', async () => {
    await current()
    fail()
    now = 299_000
    expect(await current()).toBe(first)
    now = 300_000
    await expectOutage()
    answer = () => Promise.resolve(second)
    now = 302_000
    expect(await current()).toBe(second)
  })

  it('whose reading fails is asked for at most once in a second', async () => {
    fail()
    await expectOutage()
    await expectOutage()
    expect(asked).toBe(1)
    now = 1_000
    await expectOutage()
    expect(asked).toBe(2)
  })

  it('whose reading hangs stops nobody for longer than half a second', async () => {
    await current()
    hang()
    now = 31_000
    const waiting = current()
    now = 31_600
    expect(await current()).toBe(first)
    expect(await waiting).toBe(first)
    expect(asked).toBe(2)
  })

  it('of an unlawful form is what it is, and no outage', async () => {
    answer = () => Promise.resolve({ fault: 'holders: name 2 to 16' })
    expect(await current()).toEqual({ fault: 'holders: name 2 to 16' })
  })
})
