/** Leased liveness, an extension of "Introspection and consume answers" (docs/choices.md). */
import { describe, expect, it } from 'vitest'
import {
  LEASE_EVENT,
  LEASE_ID,
  LEASE_MS,
  LEASE_RENEW_MS,
  LEASE_SETTLEMENT_MS,
  LEASE_SILENT_MS,
  parseDropNumber,
  parseLeaseMessage,
} from '../../src/wire/resources/leases.ts'
import { refusalOf } from '../support/refusals.ts'

const lease = { id: 'AAAAAAAAAAAAAAAAAAAAAA', lease_ms: LEASE_MS, renew_ms: LEASE_RENEW_MS, asked: 0 }
const event = (type: string, data: string): { type: string; data: string; id: string } => ({
  type,
  data,
  id: '',
})

describe('the times of a lease', () => {
  it('leave room for clocks that run 5 % apart, and for a holder to renew three times', () => {
    expect(LEASE_SETTLEMENT_MS).toBeGreaterThan(LEASE_MS * 1.05)
    expect(LEASE_SILENT_MS).toBeGreaterThanOrEqual(LEASE_SETTLEMENT_MS)
    expect(LEASE_RENEW_MS * 3).toBeLessThan(LEASE_MS)
  })
})

describe('a message to a holder', () => {
  it('names the lease that was given', () => {
    expect(lease.id).toMatch(LEASE_ID)
    expect(parseLeaseMessage(event(LEASE_EVENT.lease, JSON.stringify({ ...lease, later: 1 })))).toEqual({
      type: 'lease',
      lease,
    })
  })

  it('says up to which number it must have dropped what it held', () => {
    expect(parseLeaseMessage(event(LEASE_EVENT.invalidate, '{"asked":3}'))).toEqual({
      type: 'invalidate',
      asked: 3,
    })
    expect(parseDropNumber({ asked: 3 })).toBe(3)
  })

  it('of another type is none', () => {
    expect(parseLeaseMessage(event('greeting', 'hello'))).toBeUndefined()
  })

  it.each([
    ['lease', '{"id":"x","lease_ms":1,"asked":0}'],
    ['lease', '{"id":"x","lease_ms":1,"renew_ms":0,"asked":0}'],
    ['invalidate', '{"asked":-1}'],
    ['invalidate', '{"asked":"1"}'],
    ['invalidate', '3'],
    ['invalidate', ''],
  ])('is refused where it is malformed: %s %s', (type, data) => {
    expect(refusalOf(() => parseLeaseMessage(event(type, data))).code).toBe('invalid_request')
  })
})
