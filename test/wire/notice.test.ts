import { describe, expect, it } from 'vitest'
import { asOwner } from '../../src/wire/identifiers.ts'
import {
  noticeIssuer,
  signNotice,
  verifyNotice,
  type Notice,
  type NoticeClaims,
} from '../../src/wire/organization/notice.ts'
import { signJws } from '../../src/wire/signatures/jws.ts'
import { TYP } from '../../src/wire/names.ts'
import { refusalOf } from '../support/refusals.ts'
import { ISSUER, newKey, NOW } from '../support/wire-samples.ts'

const key = newKey()
const ORG = 'https://org.example'
const CLAIMS: NoticeClaims = {
  iss: ORG,
  aud: ISSUER,
  sub: asOwner('bea'),
  membership: 'join_1',
  jti: 'ntc_1',
  iat: NOW,
  exp: NOW + 300,
}
const EXPECTED = { issuer: ORG, audience: ISSUER, now: NOW }
const verify = (payload: object, now = NOW) =>
  verifyNotice(signJws({ typ: TYP.notice, payload }, key), [key], { ...EXPECTED, now })

const GRANT = {
  jti: 'rpt_1',
  resource_id: 'acme/mail-in',
  scopes: ['read'],
  cnf_jkt: 'k',
  operation: { tool: 'mail_read', params_s256: 's256:x' },
  exp: NOW + 60,
}
const NOTICES: Notice[] = [
  { kind: 'membership_ended', by: 'administrator' },
  { kind: 'role_changed', role: 'staff' },
  { kind: 'role_changed', role: null },
  { kind: 'charter_changed', charter_version: 3 },
  { kind: 'break_glass_opened', resources: ['acme/*'], reason: 'outage', by: 'ines', window_s: 600 },
  { kind: 'break_glass', grant: GRANT, reason: null, authorised_by: 'ines' },
  { kind: 'break_glass_used', grant: { jti: 'rpt_1' } },
  { kind: 'break_glass_void', grant: { jti: 'rpt_1' } },
]

describe('A notice', () => {
  it.each(NOTICES)('is read as it was signed: $kind', notice => {
    const compact = signNotice(CLAIMS, notice, key)
    expect(noticeIssuer(compact)).toBe(ORG)
    expect(verifyNotice(compact, [key], EXPECTED)).toEqual({ claims: CLAIMS, kind: notice.kind, notice })
  })

  it('of a kind that is not known is one all the same', () => {
    for (const kind of ['moved_house', 'toString'])
      expect(verify({ ...CLAIMS, kind })).toEqual({ claims: CLAIMS, kind, notice: undefined })
  })

  it.each([
    ['of another organization', { iss: 'https://other.example' }],
    ['for another authorization server', { aud: 'https://other.example' }],
    ['without an owner', { sub: undefined }],
    ['without a membership', { membership: undefined }],
    ['without an id', { jti: undefined }],
    ['without an end', { exp: undefined }],
    ['that lasts longer than 300 s', { exp: NOW + 301 }],
    ['from the future', { iat: NOW + 61, exp: NOW + 100 }],
    ['without a kind', { kind: undefined }],
    ['without what its kind says', { role: undefined }],
    ['with another type of it', { role: 1 }],
  ])('%s is refused', (_what, changes) => {
    const good = { ...CLAIMS, kind: 'role_changed', role: 'staff' }
    expect(verify(good).kind).toBe('role_changed')
    expect(refusalOf(() => verify({ ...good, ...changes })).code).toBe('invalid_request')
  })

  it('has ended at its exp, and by another key is none', () => {
    expect(refusalOf(() => verify({ ...CLAIMS, ...NOTICES[0] }, NOW + 300)).code).toBe('invalid_request')
    const forged = signNotice(CLAIMS, NOTICES[0]!, newKey())
    expect(refusalOf(() => verifyNotice(forged, [key], EXPECTED)).code).toBe('invalid_request')
  })

  it('tells whose keys to look for only where it is one', () => {
    for (const text of ['x', 'a.b.c', signJws({ typ: TYP.notice, payload: { iss: 7 } }, key)])
      expect(refusalOf(() => noticeIssuer(text)).code).toBe('invalid_request')
    expect(refusalOf(() => noticeIssuer(signJws({ typ: TYP.notice, payload: { iss: 'x' } }, key))).code).toBe(
      'invalid_request',
    )
  })
})
