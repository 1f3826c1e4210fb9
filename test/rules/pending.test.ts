import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  collectionFault,
  QUEUE_CAPS,
  queueAnswer,
  type CollectionFacts,
  type QueueCounts,
  type QueueRequest,
} from '../../src/rules/pending.ts'

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

describe('an approval is collected', () => {
  const STANDS: CollectionFacts = {
    operatorBlocked: false,
    connection: 'active',
    sameGeneration: true,
    tierGoverns: true,
    resourceServerActive: true,
    resourceRegistered: true,
    unchanged: true,
    governedSince: false,
    organizationTook: undefined,
    delegated: true,
    clearanceMet: true,
    refusedByRule: false,
  }

  it('while everything it was about still stands', () => {
    expect(collectionFault(STANDS)).toBeUndefined()
  })

  it.each<[string, Partial<CollectionFacts>, RegExp]>([
    ['the owner blocked the operator', { operatorBlocked: true }, /blocked the operator/],
    ['the organization took back what it shares', { organizationTook: 'not_shared' }, /no longer shares it/],
    ['an organization came to govern it', { governedSince: true }, /come to govern this resource/],
    ['the organization lets the agent act no more', { delegated: false }, /only the owner’s own agents/],
    ['the owner revoked the connection', { connection: 'revoked' }, /revoked this connection/],
    ['there is no connection', { connection: 'none' }, /revoked this connection/],
    ['the agent was revoked and admitted again', { sameGeneration: false }, /revoked this connection/],
    ['no tier governs the resource', { tierGoverns: false }, /No tier governs/],
    ['the resource server was withdrawn', { resourceServerActive: false }, /protection access/],
    ['she asks for a clearance', { clearanceMet: false }, /clearance/],
    ['a rule refuses it by now', { refusedByRule: true }, /policy refuses/],
    ['the terms or the resource changed', { unchanged: false }, /changed since/],
    ['the resource is gone', { resourceRegistered: false }, /no longer registered/],
  ])('but is refused where %s', (_why, changed, sentence) => {
    expect(collectionFault({ ...STANDS, ...changed })?.sentence).toMatch(sentence)
  })
})
