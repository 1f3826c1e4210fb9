/**
 * How far a later charter reaches a member: contract, "What the service does" (nothing above the owner can
 * widen), "Versioning".
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { agreedCharter, type CharterBinding } from '../../src/rules/organization/agreed-charter.ts'
import { patternMatches } from '../../src/rules/organization/charter-patterns.ts'
import { approvalSentences } from '../../src/rules/organization/charter-sentences.ts'
import type { MemberView } from '../../src/rules/organization/member-view.ts'
import { approvalsUntilAgreed, enlargements, reachOf } from '../../src/rules/organization/membership.ts'
import { underApproval } from '../../src/rules/organization/tier-ceiling.ts'
import type { TierRules } from '../../src/rules/tier.ts'

const segment = fc.stringMatching(/^[ab*]{1,3}$/)
const pattern = fc.tuple(fc.constantFrom('amy', 'ben'), segment).map(parts => parts.join('/'))
const patterns = fc.uniqueArray(pattern, { maxLength: 4 })
const bound: fc.Arbitrary<CharterBinding> = fc.record({
  claims: patterns,
  break_glass: fc.record({
    enabled: fc.boolean(),
    resources: patterns,
    max_expires_in: fc.integer({ min: 1, max: 3600 }),
    require_reason: fc.boolean(),
    invokers: fc.uniqueArray(fc.constantFrom('https://a.example', 'https://b.example')),
  }),
})
const id = fc
  .tuple(fc.constantFrom('amy', 'ben'), fc.stringMatching(/^[abc]{1,4}$/))
  .map(parts => parts.join('/'))
const names = (list: readonly string[], one: string) => list.some(each => patternMatches(each, one))

describe('A later charter reaches a member', () => {
  it('never beyond what she agreed to, and never beyond what is in force', () => {
    fc.assert(
      fc.property(bound, bound, id, (inForce, agreed, one) => {
        const both = agreedCharter(inForce, agreed)
        if (names(both.claims, one))
          expect([names(inForce.claims, one), names(agreed.claims, one)]).toEqual([true, true])
        const [now, then, clause] = [inForce.break_glass, agreed.break_glass, both.break_glass]
        if (names(clause.resources, one))
          expect([names(now.resources, one), names(then.resources, one)]).toEqual([true, true])
        expect(clause.enabled).toBe(now.enabled && then.enabled)
        expect(clause.max_expires_in).toBe(Math.min(now.max_expires_in, then.max_expires_in))
        expect(clause.require_reason).toBe(now.require_reason || then.require_reason)
        for (const invoker of clause.invokers)
          expect([now.invokers.includes(invoker), then.invokers.includes(invoker)]).toEqual([true, true])
      }),
    )
  })

  it('wholly, if she agreed to the same', () => {
    fc.assert(
      fc.property(bound, same => {
        expect(agreedCharter(same, same)).toEqual(same)
      }),
    )
  })

  it('also by what one of the two says more narrowly', () => {
    const of = (...claims: string[]): CharterBinding => ({
      claims,
      break_glass: { enabled: false, resources: [], max_expires_in: 1, require_reason: true, invokers: [] },
    })
    expect(agreedCharter(of('amy/*'), of('amy/work-*', 'ben/x')).claims).toEqual(['amy/work-*'])
    expect(agreedCharter(of('amy/work-*', 'amy/home-*'), of('amy/*-*')).claims).toEqual([
      'amy/work-*',
      'amy/home-*',
    ])
  })
})

/** A view that says this, and no emergency. */
const viewOf = (says: Pick<MemberView, 'claims' | 'always_ask'>): MemberView => {
  const break_glass = { enabled: false, resources: [], max_expires_in: 1, require_reason: true, invokers: [] }
  return { ...says, grants: says.claims, break_glass, identity_provider: null } as unknown as MemberView
}

describe('Where a later view asks for no approval any more', () => {
  const asking = fc.record({ claims: patterns, always_ask: patterns })
  const ids = fc.array(id, { minLength: 8, maxLength: 8 })
  const tier: TierRules = { ask_me: true, rules: [{ when: ['standing.approved_at_tier'], then: 'auto' }] }

  it('she is told of each resource at which no rule of hers counts until she has agreed again', () => {
    let waiting = 0
    fc.assert(
      fc.property(asking, asking, ids, (then, now, resources) => {
        const bothViews = { agreed: viewOf(then), view: viewOf(now) }
        const patternsUntilAgreed = approvalsUntilAgreed(bothViews)
        for (const one of resources) {
          const isGoverned = reachOf(one, bothViews) !== null
          const isFiltered = underApproval(tier, one, bothViews).rules.length === 0
          if (!isGoverned || !isFiltered || names(now.always_ask, one)) continue
          waiting += 1
          expect(names(patternsUntilAgreed, one)).toBe(true)
        }
      }),
      { numRuns: 2_000 },
    )
    expect(waiting).toBeGreaterThan(20)
  })

  it('she reads in sentences that each fit where no rule of hers counts', () => {
    const always_ask = Array.from({ length: 200 }, (_, i) => `amy/${String(i).padStart(200, 'x')}`)
    const agreed = viewOf({ claims: ['amy/*'], always_ask })
    const view = viewOf({ claims: ['amy/*'], always_ask: [] })
    const texts = approvalSentences(approvalsUntilAgreed({ agreed, view }))
    for (const pattern of always_ask) expect(texts.join(' ')).toContain(pattern)
    for (const text of texts) {
      expect(text.length).toBeLessThanOrEqual(2_000)
      expect(text).toMatch(/^Of what it governs, no rule of yours lets an operation on .* through before you/)
    }
    expect(approvalsUntilAgreed({ agreed, view: agreed })).toEqual([])
  })
})

describe('Two charters of 200 claims', () => {
  it('are compared once, however often the record is read', () => {
    const list = (end: string) => Array.from({ length: 200 }, (_, i) => `amy/${'x*'.repeat(60)}${end}${i}*`)
    const [agreed, view] = ['a', 'b'].map(end => viewOf({ claims: list(end), always_ask: list(end) }))
    const compare = (): string[] => enlargements(structuredClone({ agreed: agreed!, view: view! }))
    const used = (rounds: number): number => {
      const before = process.cpuUsage().user
      for (let round = 0; round < rounds; round++) expect(compare()).toHaveLength(200)
      return process.cpuUsage().user - before
    }
    const first = used(1)
    expect(used(4)).toBeLessThan(first)
  })
})

describe('A hostile organization', () => {
  it('holds nobody up with patterns that differ at their very end, however many resources she has', () => {
    const claims = (end: string) => Array.from({ length: 200 }, (_, i) => `amy/*${'x'.repeat(200)}${end}${i}`)
    const [agreed, view] = ['a', 'b'].map(end => ({
      claims: claims(end),
      grants: claims(end),
      break_glass: {
        enabled: true,
        resources: claims(end),
        max_expires_in: 1,
        require_reason: true,
        invokers: [],
      },
    })) as unknown as [MemberView, MemberView]
    const before = process.cpuUsage().user
    for (let i = 0; i < 200; i++) expect(reachOf(`amy/${'x'.repeat(200)}${i}`, { agreed, view })).toBeNull()
    expect(process.cpuUsage().user - before).toBeLessThan(2_000_000)
  })
})

describe('A charter of 200 claims', () => {
  it('is held against 1,000 resources, several times, in less than 100 ms of the processor', () => {
    const ids = Array.from({ length: 1_000 }, (_, i) => `amy/tools-${i}/mcp`)
    // Other claims each time, so that nothing is known of them; the best of three, as others compile
    // meanwhile.
    const used = [1, 2, 3].map(round => {
      const claims = Array.from({ length: 200 }, (_, i) => `amy/tools-${i + 900}*${'p'.repeat(round)}`)
      const break_glass = { resources: [], invokers: [] }
      const view = { claims, grants: claims, break_glass } as unknown as MemberView
      const bound = { agreed: { ...view }, view }
      const before = process.cpuUsage().user
      for (let pass = 0; pass < 4; pass++) expect(ids.every(id => reachOf(id, bound) === null)).toBe(true)
      return (process.cpuUsage().user - before) / 1_000
    })
    expect(Math.min(...used)).toBeLessThan(100)
  })
})
