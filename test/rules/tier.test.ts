import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RequestFacts } from '../../src/rules/conditions.ts'
import {
  CONDITIONS_PER_RULE_MAX,
  evaluateTier,
  RULES_MAX,
  rulesFault,
  tierFault,
  tierWarnings,
  type Effect,
  type GovernableResource,
  type Rule,
  type TierDraft,
} from '../../src/rules/tier.ts'
import {
  anyAskRule,
  anyAutoRule,
  anyFacts,
  anyRefuseRule,
  anyRule,
  anyTier,
  factsWith,
  OBSERVED,
  RELAXING,
  rule,
  UNKNOWN_FACTS,
  WRITTEN,
} from './facts.ts'

const RESOURCES: GovernableResource[] = [
  { resource_id: 'bea/portfolio', resource_scopes: ['read'], consequence: 'reversible', tier: null },
  { resource_id: 'bea/trades', resource_scopes: ['trade'], consequence: 'irreversible' },
  { resource_id: 'bea/statements', resource_scopes: ['read'], consequence: null, tier: 'statements' },
]
const READING: TierDraft = {
  id: 'reading',
  name: 'Reading',
  resources: ['bea/portfolio'],
  ask_me: false,
  rules: [],
  terms: {
    purpose: 'portfolio review',
    scope: ['read'],
    expires_in: 3600,
    prohibited: [],
    per_operation: false,
  },
}
const terms = (changes: Partial<TierDraft['terms']>): Partial<TierDraft> => ({
  terms: { ...READING.terms, ...changes },
})

describe('a tier is saved', () => {
  it.each<[string, Partial<TierDraft>]>([
    ['plain', {}],
    ['over a resource that it governs already', { id: 'statements', resources: ['bea/statements'] }],
    ['asking, and per operation', { ask_me: true, ...terms({ per_operation: true }) }],
    ['over nothing yet', { resources: [] }],
    ['over nothing yet, without a scope', { resources: [], ...terms({ scope: [] }) }],
    ['with a clearance', { clearance: { cleared_for: ['trading'] } }],
    ['with rules', { rules: [rule('auto', 'standing.age_above:90d'), rule('refuse', 'standing.none')] }],
  ])('%s', (_what, changes) => {
    expect(tierFault({ ...READING, ...changes }, RESOURCES)).toBeUndefined()
  })

  it.each<[string, Partial<TierDraft>, RegExp]>([
    ['ask_me without per_operation', { ask_me: true }, /^ask_me: .*per_operation/],
    ['per_operation without ask_me', terms({ per_operation: true }), /^terms\.per_operation: .*ask_me/],
    ['an empty id', { id: '' }, /^id: /],
    ['an id that would break a template id', { id: 'a/v1' }, /^id: /],
    ['an id that is a path step', { id: '..' }, /^id: /],
    ['an id of 65 characters', { id: 'a'.repeat(65) }, /^id: /],
    ['an empty name', { name: ' ' }, /^name: /],
    ['an empty purpose', terms({ purpose: '' }), /^terms\.purpose: /],
    ['no scope', terms({ scope: [] }), /^terms\.scope: /],
    ['an empty scope', terms({ scope: ['read', ''] }), /^terms\.scope: /],
    ['an empty scope over nothing yet', { resources: [], ...terms({ scope: [''] }) }, /^terms\.scope: /],
    ['an empty prohibition', terms({ prohibited: [''] }), /^terms\.prohibited: /],
    ['expires_in 0', terms({ expires_in: 0 }), /^terms\.expires_in: /],
    ['expires_in 1.5', terms({ expires_in: 1.5 }), /^terms\.expires_in: /],
    ['expires_in beyond ten years', terms({ expires_in: 315_360_001 }), /^terms\.expires_in: /],
    ['a clearance that nobody can meet', { clearance: { cleared_for: [] } }, /^clearance: /],
    ['an unregistered resource', { resources: ['bea/none'] }, /^resources\[0\]: no such resource/],
    [
      "another tier's resource",
      { resources: ['bea/portfolio', 'bea/statements'] },
      /^resources\[1\]: the tier `statements`/,
    ],
    [
      'a resource twice',
      { resources: ['bea/portfolio', 'bea/portfolio'] },
      /^resources\[1\]: it is listed twice/,
    ],
    [
      'a broken rule',
      { rules: [rule('ask', 'standing.trusted')] },
      /^rules\[0\]: `standing\.trusted` is not/,
    ],
  ])('but not with %s', (_what, changes, sentence) => {
    expect(tierFault({ ...READING, ...changes }, RESOURCES)).toMatch(sentence)
  })
})

describe('a rule is saved', () => {
  it.each(RELAXING)('auto may name %s', text => {
    expect(rulesFault([rule('auto', text)])).toBeUndefined()
  })

  it.each(OBSERVED)('auto may not name %s, alone or among relaxing ones', text => {
    const named = text.split(':')[0]!
    for (const when of [[text], ['standing.never_revoked', text]]) {
      const fault = rulesFault([rule('ask', 'standing.none'), rule('auto', ...when)])
      expect(fault).toContain('rules[1]: ')
      expect(fault).toContain(`\`${named}\` cannot be in an \`auto\` rule`)
    }
  })

  it.each(WRITTEN.map(({ text }) => text))('ask and refuse may name %s', text => {
    expect(rulesFault([rule('ask', text), rule('refuse', text)])).toBeUndefined()
  })

  it.each<[string, Rule[], RegExp]>([
    ['no condition', [rule('auto')], /name at least one condition/],
    ['no known effect', [rule('allow' as Effect, 'standing.none')], /`then` must be auto, ask or refuse/],
    [
      'too many conditions',
      [rule('ask', ...Array(CONDITIONS_PER_RULE_MAX + 1).fill('standing.none'))],
      /at most 20/,
    ],
    ['too many rules', Array<Rule>(RULES_MAX + 1).fill(rule('ask', 'standing.none')), /at most 100 rules/],
    ['a broken value', [rule('ask', 'standing.age_below:soon')], /`standing\.age_below` needs a duration/],
  ])('but not with %s', (_what, rules, sentence) => {
    expect(rulesFault(rules)).toMatch(sentence)
  })
})

describe('saving a tier warns', () => {
  it('if an irreversible resource is governed without ask_me', () => {
    const trading = { ...READING, resources: ['bea/trades'], ...terms({ scope: ['trade'] }) }
    expect(tierWarnings(trading, RESOURCES)).toEqual([
      expect.stringMatching(/`bea\/trades` is declared irreversible/),
    ])
    expect(tierWarnings({ ...trading, ask_me: true }, RESOURCES)).toEqual([])
  })

  it('if the terms offer none of the scopes of a resource', () => {
    expect(tierWarnings({ ...READING, ...terms({ scope: ['write'] }) }, RESOURCES)).toEqual([
      expect.stringMatching(/`bea\/portfolio` has none of the scopes/),
    ])
  })

  it('not where everything is as it should be, nor of resources it does not know', () => {
    expect(tierWarnings({ ...READING, resources: ['bea/portfolio', 'bea/none'] }, RESOURCES)).toEqual([])
  })
})

const AUTO = rule('auto', 'standing.approved_at_tier')
const ASK = rule('ask', 'request.reason_absent')
const REFUSE = rule('refuse', 'assurance.accountability_below:1')
const approved = { standing: { approvedAtTier: true } }
const unapproved = { standing: { approvedAtTier: false } }
const attested = { assurance: { accountability: 2 } }

describe('a tier answers', () => {
  it.each<[string, boolean, Rule[], RequestFacts, Effect]>([
    ['auto by default', false, [], factsWith({}), 'auto'],
    ['ask where it asks the owner', true, [], factsWith({}), 'ask'],
    ['auto where a relaxing rule matches', true, [AUTO], factsWith(approved), 'auto'],
    ['ask where no relaxing rule matches', true, [AUTO], factsWith(unapproved), 'ask'],
    ['ask where a rule asks', false, [ASK], factsWith({ request: { reasonAbsent: true } }), 'ask'],
    [
      'ask if one rule relaxes and another asks, first',
      true,
      [ASK, AUTO],
      factsWith({ ...approved, request: { reasonAbsent: true } }),
      'ask',
    ],
    [
      'ask if one rule relaxes and another asks, last',
      true,
      [AUTO, ASK],
      factsWith({ ...approved, request: { reasonAbsent: true } }),
      'ask',
    ],
    ['refuse where any rule refuses', true, [REFUSE, AUTO, ASK], factsWith(approved), 'refuse'],
    ['auto where the refusing rule does not match', false, [REFUSE], factsWith(attested), 'auto'],
    [
      'auto where one condition of a rule fails',
      false,
      [rule('ask', 'standing.none', 'request.reason_absent')],
      factsWith({ request: { reasonAbsent: true } }),
      'auto',
    ],
    [
      'ask if a relaxing rule needs two facts and has one',
      true,
      [rule('auto', 'standing.approved_at_tier', 'standing.age_above:300d')],
      factsWith(approved),
      'ask',
    ],
  ])('%s', (...[, ask_me, rules, facts, expected]) => {
    expect(evaluateTier({ ask_me, rules }, facts).effect).toBe(expected)
  })

  it.each(RELAXING)('a rule that cannot be evaluated does not let through: auto %s', text => {
    expect(evaluateTier({ ask_me: true, rules: [rule('auto', text)] }, UNKNOWN_FACTS).effect).toBe('ask')
  })

  it.each(WRITTEN.map(({ text }) => text))(
    'a rule that cannot be evaluated still asks and refuses: %s',
    text => {
      for (const effect of ['ask', 'refuse'] as const)
        expect(evaluateTier({ ask_me: false, rules: [rule(effect, text)] }, UNKNOWN_FACTS).effect).toBe(
          effect,
        )
    },
  )

  it('one false condition decides, whatever else cannot be evaluated', () => {
    const facts = factsWith({ standing: { introduced: false, calls: undefined } })
    const rules = [rule('refuse', 'standing.calls_above:2', 'standing.introduced')]
    expect(evaluateTier({ ask_me: false, rules }, facts).effect).toBe('auto')
  })

  it.each(OBSERVED)('an auto rule that was stored all the same with %s lets nothing through', text => {
    fc.assert(
      fc.property(anyFacts, facts => {
        const rules = [rule('auto', text), rule('auto', 'standing.never_revoked', text)]
        expect(evaluateTier({ ask_me: true, rules }, facts).effect).toBe('ask')
      }),
      { numRuns: 20 },
    )
  })

  it.each<[string, Rule, Effect]>([
    ['an auto rule without conditions lets nothing through', rule('auto'), 'ask'],
    ['an auto rule with an unknown condition lets nothing through', rule('auto', 'standing.trusted'), 'ask'],
    ['a refusing rule with an unknown condition refuses', rule('refuse', 'standing.trusted'), 'refuse'],
    ['an unknown effect refuses', rule('constructor' as Effect, 'standing.never_revoked'), 'refuse'],
  ])('stored before the vocabulary changed: %s', (_what, stored, expected) => {
    expect(evaluateTier({ ask_me: true, rules: [stored] }, factsWith({})).effect).toBe(expected)
  })
})

describe('a tier says why', () => {
  it('with its baseline and every rule that matched, in their order', () => {
    const rules = [
      rule('auto', 'standing.approved_at_tier', 'standing.age_above:30d'),
      rule('refuse', 'standing.revoked_before'),
      rule('ask', 'standing.calls_above:5'),
    ]
    const facts = factsWith({ standing: { calls: undefined } })
    expect(evaluateTier({ ask_me: true, rules }, facts)).toEqual({
      effect: 'ask',
      because: [
        'baseline:ask_me',
        'auto:standing.approved_at_tier+standing.age_above:30d',
        'ask:standing.calls_above:5?',
      ],
      relaxed: false,
    })
  })

  it('and, once, the first limit of an allowance that the operation does not keep', () => {
    const rules = [AUTO, rule('refuse', 'operation.beyond:weekend'), rule('ask', 'operation.beyond:weekend')]
    const because = (
      operation: RequestFacts['operation'],
      connection: RequestFacts['connection'] = 'active',
    ): string[] => {
      const facts = factsWith({ ...approved, operation, connection })
      return evaluateTier({ ask_me: true, rules }, facts).because.slice(2)
    }
    const operation = { allowance: 'weekend', version: 1, beyond: true, limit: 'each_max:price' }
    const matched = ['refuse:operation.beyond:weekend', 'ask:operation.beyond:weekend']
    expect(because(operation)).toEqual([...matched, 'limit:each_max:price'])
    const { limit: _limit, ...unsaid } = operation
    expect(because(unsaid)).toEqual(matched)
    expect(because({ ...operation, allowance: 'other' })).toEqual(matched.map(word => `${word}?`))
    expect(because(operation, 'none')).toEqual([])
    expect(because('approved')).toEqual([])
  })

  it('and marks what a rule let through that she is otherwise asked about', () => {
    expect(evaluateTier({ ask_me: true, rules: [AUTO] }, factsWith(approved))).toEqual({
      effect: 'auto',
      because: ['baseline:ask_me', 'auto:standing.approved_at_tier'],
      relaxed: true,
    })
    expect(evaluateTier({ ask_me: false, rules: [AUTO] }, factsWith(approved)).relaxed).toBe(false)
  })
})

const RANK: Record<Effect, number> = { auto: 0, ask: 1, refuse: 2 }
const strictness = (ask_me: boolean, rules: readonly Rule[], facts: RequestFacts): number =>
  RANK[evaluateTier({ ask_me, rules }, facts).effect]

describe('whatever the rules and the facts', () => {
  it('every rule generated here may be saved', () => {
    fc.assert(
      fc.property(fc.array(anyRule, { maxLength: 6 }), rules => {
        expect(rulesFault(rules)).toBeUndefined()
      }),
    )
  })

  it('adding an auto rule never makes an answer stricter', () => {
    fc.assert(
      fc.property(anyTier, anyAutoRule, anyFacts, ({ ask_me, rules }, added, facts) => {
        expect(strictness(ask_me, [...rules, added], facts)).toBeLessThanOrEqual(
          strictness(ask_me, rules, facts),
        )
      }),
    )
  })

  it('adding an ask or refuse rule never makes it looser', () => {
    fc.assert(
      fc.property(
        anyTier,
        fc.oneof(anyAskRule, anyRefuseRule),
        anyFacts,
        ({ ask_me, rules }, added, facts) => {
          expect(strictness(ask_me, [...rules, added], facts)).toBeGreaterThanOrEqual(
            strictness(ask_me, rules, facts),
          )
        },
      ),
    )
  })

  it('the order of the rules changes nothing', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        expect(strictness(ask_me, [...rules].reverse(), facts)).toBe(strictness(ask_me, rules, facts))
      }),
    )
  })

  it('a rule of observed conditions can only tighten: without it nothing gets stricter', () => {
    const observed = new Set(OBSERVED)
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        const without = rules.filter(({ when }) => !when.some(text => observed.has(text)))
        expect(strictness(ask_me, without, facts)).toBeLessThanOrEqual(strictness(ask_me, rules, facts))
      }),
    )
  })

  it('less assurance, observed facts against the agent or none at all never loosen', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        const worse: RequestFacts = {
          ...facts,
          assurance: { binding: 0, provenance: 0, accountability: undefined },
          request: { ...facts.request, reasonAbsent: true, missionAbsent: undefined },
        }
        expect(strictness(ask_me, rules, worse)).toBeGreaterThanOrEqual(strictness(ask_me, rules, facts))
      }),
    )
  })

  it('losing any fact never loosens', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        expect(strictness(ask_me, rules, UNKNOWN_FACTS)).toBeGreaterThanOrEqual(
          strictness(ask_me, rules, facts),
        )
      }),
    )
  })

  it('reason and mission can never let anything through', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        const given = { ...facts, request: { ...facts.request, reasonAbsent: false, missionAbsent: false } }
        const observed = new Set(['request.reason_absent', 'request.mission_absent'])
        const without = rules.filter(({ when }) => !when.some(text => observed.has(text)))
        expect(strictness(ask_me, rules, given)).toBe(strictness(ask_me, without, given))
      }),
    )
  })
})
