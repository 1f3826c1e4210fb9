import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  QUEUE_CAPS,
  queueAnswer,
  type QueueCounts,
  type QueueRequest,
} from '../../src/rules/pending-queue.ts'

const EMPTY: QueueCounts = { unattested: 0, attested: 0, ofOperator: 0, operationsOfHandle: 0 }
const STRANGER: QueueRequest = { kind: 'connection', attested: false, repeats: false }
const ATTESTED: QueueRequest = { kind: 'connection', attested: true, repeats: false }
const OPERATION: QueueRequest = { kind: 'operation', attested: false, repeats: false }

describe("the owner's pending queue", () => {
  it.each<[string, QueueRequest, keyof QueueCounts, number]>([
    ['5 agents whose operator has not published the key', STRANGER, 'unattested', 5],
    ['40 agents whose operator has', ATTESTED, 'attested', 40],
    ['5 agents of one operator', ATTESTED, 'ofOperator', 5],
    ['20 operations of one connection', OPERATION, 'operationsOfHandle', 20],
  ])('holds %s, and refuses one more with a reason', (_what, request, count, cap) => {
    expect(queueAnswer({ ...EMPTY, [count]: cap - 1 }, request)).toEqual({ admit: true })
    for (const waiting of [cap, cap + 1])
      expect(queueAnswer({ ...EMPTY, [count]: waiting }, request)).toEqual({
        admit: false,
        reason: expect.stringMatching(/^Too many .+ wait for the owner; try again .+\.$/),
      })
  })

  it('splits in two lanes: a full one never refuses the other', () => {
    expect(queueAnswer({ ...EMPTY, unattested: 1000 }, ATTESTED).admit).toBe(true)
    expect(queueAnswer({ ...EMPTY, attested: 1000, ofOperator: 1000 }, STRANGER).admit).toBe(true)
    expect(
      queueAnswer({ ...EMPTY, unattested: 1000, attested: 1000, ofOperator: 1000 }, OPERATION).admit,
    ).toBe(true)
    expect(queueAnswer({ ...EMPTY, operationsOfHandle: 1000 }, STRANGER).admit).toBe(true)
  })

  it.each([STRANGER, ATTESTED, OPERATION])(
    'a repeat joins the waiting item, however full it is: %o',
    request => {
      const full = { unattested: 1000, attested: 1000, ofOperator: 1000, operationsOfHandle: 1000 }
      expect(queueAnswer(full, { ...request, repeats: true })).toEqual({ admit: true })
    },
  )

  it('each cap is a setting', () => {
    const caps = { unattested: 1, attested: 1, perOperator: 1, operationsPerConnection: 1 }
    const one = { unattested: 1, attested: 1, ofOperator: 1, operationsOfHandle: 1 }
    for (const request of [STRANGER, ATTESTED, OPERATION]) {
      expect(queueAnswer(EMPTY, request, caps).admit).toBe(true)
      expect(queueAnswer(one, request, caps).admit).toBe(false)
    }
  })

  it('never admits more when more is waiting', () => {
    const count = fc.nat({ max: 50 })
    const counts = fc.record({
      unattested: count,
      attested: count,
      ofOperator: count,
      operationsOfHandle: count,
    })
    fc.assert(
      fc.property(
        counts,
        fc.constantFrom<keyof QueueCounts>('unattested', 'attested', 'ofOperator', 'operationsOfHandle'),
        fc.constantFrom(STRANGER, ATTESTED, OPERATION),
        (counts, key, request) => {
          const more = { ...counts, [key]: counts[key] + 1 }
          if (!queueAnswer(counts, request).admit) expect(queueAnswer(more, request).admit).toBe(false)
        },
      ),
    )
    expect(QUEUE_CAPS).toEqual({ unattested: 5, attested: 40, perOperator: 5, operationsPerConnection: 20 })
  })
})
