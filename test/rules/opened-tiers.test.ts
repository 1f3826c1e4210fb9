/** Docs/choices.md, "Policy vocabulary": what an approval opens is never told as less than it is. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { evaluateTier, mayLetThrough, type Rule } from '../../src/rules/tier.ts'
import { opensByGrant } from '../../src/rules/words/rule-words.ts'
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

describe('what a first grant opens', () => {
  const FIRST = 'ask:standing.first_at_tier'

  it.each([
    [`baseline:auto ${FIRST}`],
    [`baseline:auto ${FIRST} ask:request.reason_absent`],
    [`baseline:auto ${FIRST} ask:request.max_expiry:5m?`],
    [`baseline:auto ${FIRST} ask:standing.introduced+request.reason_absent`],
    [`baseline:auto ${FIRST} ask:assurance.provenance_below:1`],
    ['baseline:auto ask:request.reason_absent+standing.first_at_tier'],
    ['baseline:auto ask:standing.lineage_new_at_tier'],
    [`baseline:ask_me auto:standing.never_revoked ${FIRST}`],
    [`baseline:auto ${FIRST} organization:ask:request.reason_absent`],
  ])('is told if asked because of %s', words => {
    expect(opensByGrant(words.split(' '))).toBe(true)
  })

  it.each([
    ['baseline:auto ask:request.reason_absent'],
    ['baseline:auto ask:standing.age_below:90d'],
    [`baseline:ask_me ${FIRST}`],
    [`baseline:auto ${FIRST} ask:standing.introduced`],
    [`baseline:auto ${FIRST} ask:standing.revoked_before`],
    [`baseline:auto ${FIRST} organization:always_ask`],
    [`baseline:auto ${FIRST} organization:ask:standing.introduced`],
    [`baseline:auto ${FIRST} organization:ask:request.consequence_unknown?`],
    ['baseline:auto organization:ask:standing.first_at_tier?'],
    ['baseline:auto ask:of_a_later_version'],
  ])('is nothing if asked because of %s', words => {
    expect(opensByGrant(words.split(' '))).toBe(false)
  })

  it('is never told as less: what the rules that asked let through later, as the grant was the first, was told', () => {
    let opened = 0
    fc.assert(
      fc.property(anyTier, anyFacts, anyFacts, ({ ask_me, rules }, asked, later) => {
        const now = { ...asked, connection: 'active' as const }
        const { firstAtTier, lineageNewAtTier, introduced, revokedBefore } = now.standing
        const isMatched = (rule: Rule): boolean =>
          evaluateTier({ ask_me: false, rules: [rule] }, now).because.length > 1
        const matched = { ask_me, rules: rules.filter(isMatched) }
        const { effect, because } = evaluateTier({ ask_me, rules }, now)
        const answerTo = (first: object): string =>
          evaluateTier(matched, {
            ...later,
            connection: 'active',
            standing: { ...later.standing, introduced, revokedBefore, ...first },
          }).effect
        const opens =
          effect === 'ask' &&
          answerTo({ firstAtTier: false, lineageNewAtTier: false }) === 'auto' &&
          answerTo({ firstAtTier, lineageNewAtTier }) === 'ask'
        if (opens) opened++
        expect(!opens || opensByGrant(because)).toBe(true)
      }),
      { numRuns: 20_000 },
    )
    expect(opened).toBeGreaterThan(0)
  })
})
