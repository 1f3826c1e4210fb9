/** Docs/choices.md, "Policy vocabulary": what an approval opens is never told as less than it is. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evaluateTier, mayLetThrough } from '../../src/rules/tier.ts'
import { anyFacts, anyTier, rule, UNKNOWN_FACTS } from './facts.ts'

describe('what an approval opens', () => {
  const active = { ...UNKNOWN_FACTS, connection: 'active' as const }
  it.each([
    ['a tier that asks about nothing', { ask_me: false, rules: [] }, true],
    ['a tier that asks about each operation', { ask_me: true, rules: [] }, false],
    ['one that relaxes with time', { ask_me: true, rules: [rule('auto', 'standing.age_above:30d')] }, true],
    [
      'one that relaxes by what is known to be otherwise',
      { ask_me: true, rules: [rule('auto', 'standing.approved_at_tier')] },
      false,
    ],
    ['one that asks of strangers alone', { ask_me: false, rules: [rule('ask', 'standing.none')] }, true],
    [
      'one that may ask of some requests',
      { ask_me: false, rules: [rule('ask', 'request.reason_absent')] },
      true,
    ],
  ])('%s', (_what, tier, opens) => {
    const facts = { ...active, standing: { ...active.standing, approvedAtTier: false } }
    expect(mayLetThrough(tier, facts)).toBe(opens)
  })

  it('is nothing if a rule is sure to ask', () => {
    const facts = { ...active, assurance: { ...active.assurance, accountability: 0 } }
    const rules = [rule('ask', 'assurance.accountability_below:1')]
    expect(mayLetThrough({ ask_me: false, rules }, facts)).toBe(false)
  })

  it('what lets a request through could be told before, whatever was not known then', () => {
    fc.assert(
      fc.property(
        anyTier,
        anyFacts,
        fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }),
        (tier, facts, kept) => {
          const known = [...kept]
          const forget = <Facts extends object>(some: Facts): Facts =>
            Object.fromEntries(
              Object.entries(some).map(([name, value]) => [name, known.pop() === true ? value : undefined]),
            ) as Facts
          const { connection, standing, assurance, request } = facts
          const before = {
            connection,
            standing: forget(standing),
            assurance: forget(assurance),
            request: forget(request),
          }
          fc.pre(evaluateTier(tier, facts).effect === 'auto')
          expect(mayLetThrough(tier, before)).toBe(true)
        },
      ),
    )
  })
})
