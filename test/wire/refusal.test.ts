import { describe, expect, it } from 'vitest'
import {
  Refusal,
  refusalBody,
  REFUSALS,
  refuse,
  refusingAs,
  type RefusalCode,
} from '../../src/wire/refusal.ts'
import { refusalOf } from '../support/refusals.ts'

const codes = Object.keys(REFUSALS) as RefusalCode[]

describe('the table of refusals', () => {
  it('has temporarily_unavailable as the only word that is not terminal', () => {
    expect(codes.filter(code => !REFUSALS[code].terminal)).toEqual(['temporarily_unavailable'])
  })

  it.each([
    ['insufficient_authorization', 401],
    ['need_info', 403],
    ['request_submitted', 403],
    ['request_denied', 403],
    ['authorization_pending', 403],
    ['invalid_token', 401],
    ['access_revoked', 403],
    ['invalid_grant', 400],
    ['invalid_resource_id', 400],
    ['invalid_scope', 400],
    ['consequence_changed', 403],
    ['temporarily_unavailable', 503],
    ['request_body_too_large', 413],
    ['unsupported_media_type', 415],
  ] as const)('answers %s with %i', (code, status) => {
    expect(REFUSALS[code].status).toBe(status)
  })

  it.each(codes)('writes %s in the alphabet of RFC 6749, and says where it comes from', code => {
    expect(code).toMatch(/^[a-z_]+$/)
    expect(REFUSALS[code].row).not.toBe('')
  })
})

describe('a refusal', () => {
  it('carries the status of its code unless another is given', () => {
    expect(refusalOf(() => refuse('request_denied')).status).toBe(403)
    expect(refusalOf(() => refuse('request_denied', 'Wait.', { status: 429 })).status).toBe(429)
  })

  it('has a body of error, error_description and the extra members, which never replace the two', () => {
    const extra = { ticket: 't', error: 'x', error_description: 'y' }
    expect(refusalBody(new Refusal('invalid_request', 'Send it.', { extra }))).toEqual({
      error: 'invalid_request',
      error_description: 'Send it.',
      ticket: 't',
    })
    expect(refusalBody(new Refusal('not_found'))).toEqual({ error: 'not_found' })
  })

  it('keeps its sentence when a parser fault is given another word', () => {
    const fault = refusalOf(() => refusingAs('request_denied', () => refuse('invalid_request', 'Sign it.')))
    expect([fault.code, fault.status, fault.detail]).toEqual(['request_denied', 403, 'Sign it.'])
    expect(refusalOf(() => refusingAs('request_denied', () => refuse('invalid_grant'))).code).toBe(
      'invalid_grant',
    )
    expect(() => refusingAs('request_denied', () => JSON.parse('{'))).toThrow(SyntaxError)
    expect(refusingAs('request_denied', () => 7)).toBe(7)
  })
})
