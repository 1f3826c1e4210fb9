/**
 * The organization's ceiling at the call: contract, "Authorized call", order 2; "What the service does" (it
 * may only narrow).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  breakGlassCeilingFault,
  grantCeilingFault,
  type GrantExtent,
} from '../../src/rules/organization/grant-ceiling.ts'
import { DELEGATIONS } from '../../src/wire/organization/charter.ts'
import type { EnforcedMembership } from '../../src/wire/documents/enforced-membership.ts'

type Member = Extract<EnforcedMembership, { member: true }>
const MEMBER: Member = {
  member: true,
  since: '2026-11-01T09:00:00Z',
  as_uri: 'https://as.example',
  view: 4,
  charter_version: 7,
  claims: ['amy/work-*'],
  grants: ['amy/work-mail', 'amy/work-out'],
  delegation: 'any-agent',
  max_expires_in: 600,
  allowed_scopes: ['read', 'send'],
  always_ask: ['amy/work-out'],
  break_glass: { enabled: true, resources: ['amy/work-vault'], max_expires_in: 300 },
}
const GRANT: GrantExtent = {
  resource_id: 'amy/work-mail',
  scopes: ['read'],
  lifetimeSeconds: 600,
  single_use: false,
}

describe("A grant exceeds the organization's ceiling", () => {
  it.each<[string | undefined, string, Partial<Member>, Partial<GrantExtent>]>([
    [undefined, 'where it lies within', {}, {}],
    ['not_shared', 'over a resource that is governed and not shared', { grants: ['amy/work-m'] }, {}],
    ['not_delegated', 'where she may let no agent act', { delegation: 'none' }, {}],
    [
      undefined,
      'which agent is her own the enforcement point cannot tell',
      { delegation: 'first-party-only' },
      {},
    ],
    ['scope', 'by one scope', {}, { scopes: ['read', 'delete'] }],
    ['scope', 'where none is allowed', { allowed_scopes: [] }, {}],
    [undefined, 'where any is allowed', { allowed_scopes: null }, { scopes: ['delete'] }],
    ['lifetime', 'by a second', {}, { lifetimeSeconds: 601 }],
    [
      'operation',
      'where every operation is asked about, and it is a standing one',
      {},
      { resource_id: 'amy/work-out' },
    ],
    [undefined, 'and a single-use one is not', {}, { resource_id: 'amy/work-out', single_use: true }],
    [
      undefined,
      'and what it does not govern is hers',
      { grants: [], delegation: 'none' },
      { resource_id: 'amy/home' },
    ],
  ])('%s: %s', (fault, _when, member, grant) => {
    expect(grantCeilingFault({ ...MEMBER, ...member }, { ...GRANT, ...grant })).toBe(fault)
  })

  it('if she is no member, and it claims the resource', () => {
    const none: EnforcedMembership = { member: false, claims: ['amy/work-*'] }
    expect(grantCeilingFault(none, GRANT)).toBe('not_a_member')
    expect(grantCeilingFault(none, { ...GRANT, resource_id: 'amy/home' })).toBeUndefined()
  })
})

const VAULT: GrantExtent = {
  resource_id: 'amy/work-vault',
  scopes: ['read'],
  lifetimeSeconds: 300,
  single_use: true,
}

describe('A grant of an emergency window exceeds the ceiling', () => {
  it.each<[string | undefined, string, Partial<Member>, Partial<GrantExtent>]>([
    [undefined, 'where it lies within the clause, shared or not', { grants: [], delegation: 'none' }, {}],
    [
      'no_break_glass',
      'where the clause is off',
      { break_glass: { ...MEMBER.break_glass, enabled: false } },
      {},
    ],
    ['no_break_glass', 'over a resource that the clause does not name', {}, { resource_id: 'amy/work-mail' }],
    ['no_break_glass', 'over one that is not governed', { claims: [] }, {}],
    ['no_break_glass', 'where it is not for one call', {}, { single_use: false }],
    ['scope', 'by one scope', {}, { scopes: ['open'] }],
    ['lifetime', 'by a second', {}, { lifetimeSeconds: 301 }],
  ])('%s: %s', (fault, _when, member, grant) => {
    expect(breakGlassCeilingFault({ ...MEMBER, ...member }, { ...VAULT, ...grant })).toBe(fault)
  })

  it('if she is no member', () => {
    expect(breakGlassCeilingFault({ member: false, claims: ['amy/work-*'] }, VAULT)).toBe('not_a_member')
  })
})

const pattern = fc.constantFrom('amy/work-*', 'amy/work-mail', 'amy/*', 'amy/work-out', 'amy/home')
const patterns = fc.uniqueArray(pattern)
const scopes = fc.uniqueArray(fc.constantFrom('read', 'send', 'delete'))
const member: fc.Arbitrary<Member> = fc
  .record({
    claims: patterns,
    grants: patterns,
    delegation: fc.constantFrom(...DELEGATIONS),
    max_expires_in: fc.integer({ min: 1, max: 50 }),
    allowed_scopes: fc.option(scopes),
    always_ask: patterns,
    break_glass: fc.record({
      enabled: fc.boolean(),
      resources: patterns,
      max_expires_in: fc.integer({ min: 1, max: 50 }),
    }),
  })
  .map(parts => ({ ...MEMBER, ...parts }))
const held: fc.Arbitrary<GrantExtent> = fc.record({
  resource_id: fc.constantFrom('amy/work-mail', 'amy/work-out', 'amy/home', 'amy/work-vault'),
  scopes,
  lifetimeSeconds: fc.integer({ min: 1, max: 60 }),
  single_use: fc.boolean(),
})
const JUDGES = [
  ['a grant', grantCeilingFault],
  ['a grant of an emergency window', breakGlassCeilingFault],
] as const

describe.each(JUDGES)('The ceiling is monotone for %s', (_which, fault) => {
  it('a narrower grant is never refused if a wider one passes', () => {
    fc.assert(
      fc.property(member, held, fc.nat(60), (ceiling, wide, less) => {
        fc.pre(fault(ceiling, wide) === undefined)
        const narrow = {
          ...wide,
          scopes: wide.scopes.slice(1),
          lifetimeSeconds: Math.max(1, wide.lifetimeSeconds - less),
          single_use: true,
        }
        expect(fault(ceiling, narrow)).toBeUndefined()
      }),
    )
  })

  it('a narrower ceiling over the same claims never lets through what a wider one refuses', () => {
    fc.assert(
      fc.property(member, held, fc.nat(50), (wide, grant, less) => {
        fc.pre(fault(wide, grant) !== undefined)
        const { break_glass } = wide
        const narrow: Member = {
          ...wide,
          grants: wide.grants.slice(1),
          max_expires_in: Math.max(1, wide.max_expires_in - less),
          allowed_scopes: (wide.allowed_scopes ?? ['read', 'send']).slice(1),
          always_ask: [...wide.always_ask, 'amy/*'],
          break_glass: {
            enabled: false,
            resources: break_glass.resources.slice(1),
            max_expires_in: Math.max(1, break_glass.max_expires_in - less),
          },
        }
        expect(fault(narrow, grant)).toBeDefined()
      }),
    )
  })
})

it('what nobody claims is never refused by a ceiling', () => {
  fc.assert(
    fc.property(member, held, (ceiling, grant) => {
      expect(grantCeilingFault({ ...ceiling, claims: [] }, grant)).toBeUndefined()
    }),
  )
})
