/**
 * When an emergency is accepted: contract, "The organization's authority" (`/break-glass`), "What the service
 * does" (nothing above the owner can widen).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { patternMatches } from '../../src/rules/organization/charter-patterns.ts'
import {
  emergencyFault,
  type EmergencyRequest,
  type EmergencyRecord,
} from '../../src/rules/organization/emergency.ts'
import { memberView, type MemberView } from '../../src/rules/organization/member-view.ts'
import type { CharterBreakGlass } from '../../src/wire/organization/charter.ts'
import { CHARTER } from './charters.ts'

const NOW = 1_800_000_000
const KEY = 'k'.repeat(43)
const CLAUSE: CharterBreakGlass = {
  enabled: true,
  resources: ['acme/files/*'],
  max_expires_in: 300,
  require_reason: true,
  invokers: ['https://ops.example', 'https://ops.example.'],
}
const viewWith = (changes: Partial<MemberView> = {}): MemberView => ({
  ...memberView({
    organization: { id: 'acme', name: 'Acme' },
    issuer: 'https://org.example',
    charter: { ...CHARTER, break_glass: CLAUSE },
    charter_version: 1,
    published_at: '2026-11-21T09:00:00.000Z',
    owner: 'bea',
    role: 'staff',
    view: 1,
  }),
  ...changes,
})
const clauseWith = (changes: Partial<CharterBreakGlass>) =>
  viewWith({ break_glass: { ...CLAUSE, ...changes } })
const GRANT: EmergencyRequest['grant'] = {
  jti: 'rpt_1',
  resource_id: 'acme/files/7',
  scopes: ['read'],
  cnf_jkt: KEY,
  operation: { tool: 'open', params_s256: 's256:x' },
  exp: NOW + 300,
}
const ASKED: EmergencyRequest = { grant: GRANT, reason: 'fire', authorised_by: 'ines', iat: NOW }
const granting = (changes: Partial<EmergencyRequest['grant']>) => ({ grant: { ...GRANT, ...changes } })
const RECORD: EmergencyRecord = {
  isHers: true,
  scopes: ['read', 'burn'],
  isRevoked: false,
  isBlocked: false,
  now: NOW,
}

const faultOf = (
  asked: Partial<EmergencyRequest> = {},
  record: Partial<EmergencyRecord> = {},
  bound: { agreed?: MemberView; view?: MemberView } = {},
) =>
  emergencyFault(
    { agreed: viewWith(), view: viewWith(), ...bound },
    { ...ASKED, ...asked },
    { ...RECORD, ...record },
  )

describe('An emergency is accepted', () => {
  it('inside the clause that she agreed to, by an administrator or by an invoker of it', () => {
    expect(faultOf()).toBeUndefined()
    expect(faultOf({ authorised_by: 'https://ops.example' })).toBeUndefined()
  })

  it.each<[string, Parameters<typeof faultOf>, string]>([
    [
      'on a resource that the clause does not name',
      [granting({ resource_id: 'acme/mail' })],
      'outside_clause',
    ],
    ['on a resource that is not hers alone', [{}, { isHers: false }], 'outside_clause'],
    ['where she agreed to no clause', [{}, {}, { agreed: clauseWith({ enabled: false }) }], 'outside_clause'],
    ['where no clause is in force', [{}, {}, { view: clauseWith({ enabled: false }) }], 'outside_clause'],
    [
      'on what only a later clause names',
      [{}, {}, { agreed: clauseWith({ resources: ['acme/files/8'] }) }],
      'outside_clause',
    ],
    ['on what is claimed no more', [{}, {}, { view: viewWith({ claims: ['acme/*'] }) }], 'outside_clause'],
    [
      'on what only a later charter claims',
      [{}, {}, { agreed: viewWith({ claims: ['acme/*'] }) }],
      'outside_clause',
    ],
    ['by an invoker that is none', [{ authorised_by: 'https://bots.example' }], 'invoker'],
    ['by an invoker with the dot of the root', [{ authorised_by: 'https://ops.example.' }], 'invoker'],
    [
      'by an invoker of a later charter',
      [{ authorised_by: 'https://ops.example' }, {}, { agreed: clauseWith({ invokers: [] }) }],
      'invoker',
    ],
    ['without a reason', [{ reason: null }], 'reason'],
    ['with an empty reason', [{ reason: ' ' }], 'reason'],
    [
      'without a reason where only a later charter needs none',
      [{ reason: null }, {}, { view: clauseWith({ require_reason: false }) }],
      'reason',
    ],
    ['for longer than the clause allows', [granting({ exp: NOW + 301 })], 'lifetime'],
    ['for longer than she agreed to', [{}, {}, { agreed: clauseWith({ max_expires_in: 299 }) }], 'lifetime'],
    ['after its end', [{ ...granting({ exp: NOW }), iat: NOW - 300 }], 'lifetime'],
    ['with a scope that the resource has not', [{}, { scopes: ['send'] }], 'scope'],
    ['with no scope', [granting({ scopes: [] })], 'scope'],
    ['with a scope above the ceiling', [granting({ scopes: ['read', 'burn'] })], 'scope'],
    [
      'with a scope above the ceiling that she agreed to',
      [{}, {}, { agreed: viewWith({ allowed_scopes: ['send'] }) }],
      'scope',
    ],
    ['where she blocked its operator', [{}, { isBlocked: true }], 'operator_blocked'],
    ['where she revoked the key', [{}, { isRevoked: true }], 'key_revoked'],
  ])('not %s', (_, given, fault) => {
    expect(faultOf(...given)).toBe(fault)
  })

  it('never by a later charter alone, whatever it says', () => {
    const clause: fc.Arbitrary<CharterBreakGlass> = fc.record({
      enabled: fc.boolean(),
      resources: fc.subarray(['acme/files/*', 'acme/files/7', 'acme/*', 'acme/*/*']),
      max_expires_in: fc.integer({ min: 1, max: 600 }),
      require_reason: fc.boolean(),
      invokers: fc.subarray(['https://ops.example', 'https://bots.example']),
    })
    const asked = fc.record({
      resource_id: fc.constantFrom('acme/files/7', 'acme/files/8', 'acme/mail'),
      seconds: fc.integer({ min: 1, max: 600 }),
      reason: fc.constantFrom('fire', null),
      authorised_by: fc.constantFrom('ines', 'https://ops.example', 'https://bots.example'),
    })
    fc.assert(
      fc.property(clause, clause, asked, (then, now, { resource_id, seconds, reason, authorised_by }) => {
        const told = { ...granting({ resource_id, exp: NOW + seconds }), reason, authorised_by }
        if (faultOf(told, {}, { agreed: clauseWith(then), view: clauseWith(now) }) !== undefined) return
        for (const one of [then, now]) {
          expect(one.enabled).toBe(true)
          expect(one.resources.some(each => patternMatches(each, resource_id))).toBe(true)
          expect(seconds).toBeLessThanOrEqual(one.max_expires_in)
          expect(one.require_reason && reason === null).toBe(false)
          expect(authorised_by === 'ines' || one.invokers.includes(authorised_by)).toBe(true)
        }
      }),
    )
  })
})
