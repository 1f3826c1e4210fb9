/** Contract, "Policy vocabulary and tiers": an allowance takes back a part of what a rule opens, no more. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allowancesIn,
  tierAllowanceFault,
  tierAllowanceWarnings,
} from '../../src/rules/allowance/tier-allowance.ts'
import type { RequestFacts } from '../../src/rules/conditions.ts'
import { jointServer } from '../../src/rules/joint/joint.ts'
import { evaluateTier, rulesFault, type Effect, type Rule } from '../../src/rules/tier.ts'
import { asClientId, asOwner } from '../../src/wire/identifiers.ts'
import { allowance } from '../support/allowance.ts'
import { anyFacts, anyRule, factsWith, rule } from './facts.ts'

const AUTO = rule('auto', 'standing.approved_at_tier')
const BEYOND = rule('ask', 'operation.beyond:weekend')
const tier = (rules: Rule[], changes: object = {}) => ({ id: 'shopping', ask_me: true, rules, ...changes })

describe('a tier that names an allowance is saved', () => {
  it.each<[string, Rule[]]>([
    ['in a rule of its own', [AUTO, BEYOND]],
    ['that refuses', [AUTO, rule('refuse', 'operation.beyond:weekend')]],
    ['twice', [BEYOND, rule('refuse', 'operation.beyond:weekend'), AUTO]],
  ])('%s', (_how, rules) => {
    expect([rulesFault(rules), tierAllowanceFault(tier(rules), allowance())]).toEqual([undefined, undefined])
  })

  it.each<[string, ReturnType<typeof tier>, RegExp]>([
    [
      'beside another condition',
      tier([AUTO, rule('ask', 'operation.beyond:weekend', 'request.reason_absent')]),
      /^rules: let `operation\.beyond:weekend` be alone in its rule/,
    ],
    ['without ask_me', tier([BEYOND], { ask_me: false }), /^rules\[0\]: .* set `ask_me` to true as well/],
    [
      'and another allowance',
      tier([AUTO, BEYOND, rule('ask', 'operation.beyond:other')]),
      /^rules: `weekend` and `other` are two allowances; name one/,
    ],
    ['that does not name it', tier([AUTO, BEYOND], { id: 'trading' }), /^rules\[1\]: .* add `trading`/],
    ['by a name of every object', tier([BEYOND], { id: 'constructor' }), /^rules\[0\]: .* add `constructor`/],
  ])('but not %s', (_how, given, sentence) => {
    expect(tierAllowanceFault(given, allowance())).toMatch(sentence)
  })

  it('but not if she has no such allowance', () => {
    expect(tierAllowanceFault(tier([BEYOND]), undefined)).toMatch(
      /^rules\[0\]: you have no allowance `weekend`; make it first/,
    )
  })

  it('never in a rule that lets through, alone or beside another condition', () => {
    for (const when of [['operation.beyond:weekend'], ['standing.never_revoked', 'operation.beyond:weekend']])
      expect(rulesFault([rule('auto', ...when)])).toMatch(/`operation\.beyond` cannot be in an `auto` rule/)
  })
})

describe('an edit that takes the allowance out of a tier', () => {
  it('is refused while a rule lets through', () => {
    expect(tierAllowanceFault(tier([AUTO]), undefined, [BEYOND])).toMatch(
      /^rules\[0\]: take out the `auto` rules together with `operation\.beyond:weekend`/,
    )
  })

  it.each<[string, Rule[], Rule[]]>([
    ['no rule lets through any more', [rule('ask', 'request.reason_absent')], [AUTO, BEYOND]],
    ['no rule is left', [], [AUTO, BEYOND]],
    ['there was none in it', [AUTO], [AUTO]],
  ])('is saved if %s', (_when, rules, before) => {
    expect(tierAllowanceFault(tier(rules), undefined, before)).toBeUndefined()
  })
})

describe('a tier that names an allowance warns', () => {
  const resource = (
    resource_id: string,
    client_id = asClientId('tools'),
    approval: 'signed' | null = null,
  ) => ({
    resource_id,
    client_id,
    approval,
  })
  const governed = [
    resource('bea/shop'),
    resource('bea/vault', asClientId('tools'), 'signed'),
    resource('family/fund', jointServer(asOwner('family'))),
  ]

  it('of each resource at which every operation is beyond it', () => {
    expect(tierAllowanceWarnings({ rules: [AUTO, BEYOND] }, governed)).toEqual([
      expect.stringMatching(/^`bea\/vault` takes only what you sign/),
      expect.stringMatching(/^`family\/fund` is held jointly/),
    ])
  })

  it('of nothing without one', () => {
    expect(tierAllowanceWarnings({ rules: [AUTO] }, governed)).toEqual([])
  })
})

it('the allowances that rules name are found once each, whatever else they say', () => {
  const rules = [AUTO, rule('ask', 'operation.beyond:b'), rule('refuse', 'operation.beyond:a'), BEYOND]
  expect(allowancesIn([...rules, rule('ask', 'operation.beyond:', 'operation.trusted:c')])).toEqual([
    'b',
    'a',
    'weekend',
  ])
})

const RANK: Record<Effect, number> = { auto: 0, ask: 1, refuse: 2 }
const strictness = (rules: readonly Rule[], facts: RequestFacts): number =>
  RANK[evaluateTier({ ask_me: true, rules }, facts).effect]
const anyRules = fc.array(anyRule, { maxLength: 6 })
const anyBeyond = fc.constantFrom<Effect>('ask', 'refuse').map(then => rule(then, 'operation.beyond:trading'))
const judged = (facts: RequestFacts, operation: RequestFacts['operation']): RequestFacts => ({
  ...facts,
  operation,
})
const within = { allowance: 'trading', version: 2, beyond: false }

describe('whatever the tier and the facts, an allowance', () => {
  it('never makes an answer less strict than it is without one', () => {
    fc.assert(
      fc.property(anyRules, anyBeyond, anyFacts, fc.nat(), (rules, beyond, facts, place) => {
        const placed = rules.toSpliced(place % (rules.length + 1), 0, beyond)
        expect(strictness(placed, facts)).toBeGreaterThanOrEqual(strictness(rules, facts))
      }),
    )
  })

  it('never makes one less strict by its end than it was before', () => {
    fc.assert(
      fc.property(anyRules, anyBeyond, anyFacts, (rules, beyond, facts) => {
        const before = strictness([...rules, beyond], judged(facts, within))
        for (const after of [{ ...within, beyond: true, limit: 'until' }, undefined])
          expect(strictness([...rules, beyond], judged(facts, after))).toBeGreaterThanOrEqual(before)
      }),
    )
  })

  it('lets nothing through by what is known of another allowance', () => {
    fc.assert(
      fc.property(anyRules, anyBeyond, anyFacts, (rules, beyond, facts) => {
        const active = { ...facts, connection: 'active' as const }
        const other = judged(active, { ...within, allowance: 'other' })
        expect(strictness([...rules, beyond], other)).toBe(
          strictness([...rules, beyond], judged(active, undefined)),
        )
        expect(evaluateTier({ ask_me: true, rules: [...rules, beyond] }, other).effect).not.toBe('auto')
      }),
    )
  })

  it('asks of a known agent what is beyond it, and lets through the rest', () => {
    const rules = [AUTO, rule('ask', 'operation.beyond:trading')]
    const known = factsWith({ standing: { approvedAtTier: true } })
    const answer = (operation: RequestFacts['operation']) =>
      evaluateTier({ ask_me: true, rules }, judged(known, operation))
    expect(answer(within)).toMatchObject({ effect: 'auto', relaxed: true })
    expect(answer({ ...within, beyond: true })).toMatchObject({ effect: 'ask', relaxed: false })
    expect(answer(undefined).because).toContain('ask:operation.beyond:trading?')
  })
})
