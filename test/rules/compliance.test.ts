/**
 * What an organization is told of its ceiling: contract, "The organization's authority" (never her terms).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { complianceReport } from '../../src/rules/organization/compliance.ts'
import type { TierUnderCeiling } from '../../src/rules/organization/tier-ceiling.ts'
import { memberView } from '../../src/rules/organization/member-view.ts'
import { parseCharter } from '../../src/wire/organization/charter.ts'
import { CLAIMING } from '../support/membership.ts'
import { charterOf } from '../support/organization.ts'

const view = memberView({
  organization: { id: 'acme', name: 'Acme' },
  issuer: 'https://org.example',
  charter: parseCharter(JSON.parse(JSON.stringify(charterOf(CLAIMING)))),
  charter_version: 3,
  published_at: '2026-11-21T09:00:00.000Z',
  owner: 'alice',
  role: 'staff',
  view: 1,
})
const bound = { agreed: { ...view, charter_version: 2 }, view }

/** A letter that stands in whatever she wrote, and nowhere else. */
const HERS = 'ß'
const hers = fc.string({ maxLength: 12 }).map(text => HERS + text)
const resource = fc.oneof(
  fc.constantFrom('alice/portfolio', 'alice/trades', 'alice/account'),
  hers.map(text => `alice/${text}`),
)
const anyTier: fc.Arbitrary<TierUnderCeiling & { name: string; tier_id: string }> = fc.record({
  name: hers,
  tier_id: hers,
  ask_me: fc.boolean(),
  clearance: fc.dictionary(hers, fc.array(hers)),
  resources: fc.uniqueArray(resource, { maxLength: 4 }),
  terms: fc.record({
    purpose: hers,
    scope: fc.array(fc.oneof(hers, fc.constant('read'))),
    expires_in: fc.integer({ min: 1, max: 2_000 }),
    prohibited: fc.array(hers),
    per_operation: fc.boolean(),
  }),
})
const fields = fc.array(fc.constantFrom('expires_in' as const, 'scope' as const, 'ask_me' as const))

describe('A report of compliance', () => {
  it('is of numbers and names of fields, whatever her tiers are called, say and hold', () => {
    fc.assert(
      fc.property(fc.array(anyTier, { maxLength: 5 }), fields, (tiers, clamped_fields) => {
        const governed_resources = ['alice/portfolio', 'alice/trades']
        const report = complianceReport({ bound, governed_resources, tiers, clamped_fields })
        const sent = JSON.stringify(report)
        expect(sent).not.toContain(HERS)
        expect(sent).not.toContain('alice')
        expect(Object.keys(report).sort()).toEqual([
          'agreed_version',
          'charter_version',
          'clamped_fields',
          'resources_governed',
          'tiers_governed',
          'within',
        ])
      }),
    )
  })

  it('counts what is governed, and says whether a tier lies beyond the ceiling', () => {
    const tier = (resources: string[], expires_in: number): TierUnderCeiling => ({
      ask_me: false,
      clearance: {},
      resources,
      terms: { scope: ['read'], expires_in, prohibited: ['passing it on'], per_operation: false },
    })
    const governed_resources = ['alice/portfolio', 'alice/trades']
    const of = (tiers: TierUnderCeiling[]) =>
      complianceReport({ bound, governed_resources, tiers, clamped_fields: ['scope', 'expires_in', 'scope'] })
    const own = tier(['alice/diary'], 100_000)
    expect(of([tier(['alice/portfolio', 'alice/diary'], 900), own])).toEqual({
      charter_version: 3,
      agreed_version: 2,
      resources_governed: 2,
      tiers_governed: 1,
      clamped_fields: ['expires_in', 'scope'],
      within: true,
    })
    expect(of([tier(['alice/portfolio'], 901)]).within).toBe(false)
  })
})
