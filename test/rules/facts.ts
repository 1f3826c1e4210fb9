import * as fc from 'fast-check'
import { CONDITIONS, type RequestFacts } from '../../src/rules/conditions.ts'
import type { Effect, Rule } from '../../src/rules/tier.ts'
import { CONSEQUENCES } from '../../src/rules/permission.ts'

/** A well-known agent asking for something ordinary. */
const KNOWN: RequestFacts = {
  connection: 'active',
  standing: {
    approvedAtTier: true,
    neverRevoked: true,
    firstParty: false,
    ageSeconds: 8_640_000,
    firstAtTier: false,
    revokedBefore: false,
    introduced: false,
    lineageNewAtTier: false,
    denials: 0,
    tiers: 1,
    calls: 10,
  },
  assurance: { binding: 1, provenance: 0, accountability: 0 },
  request: { expiresInSeconds: 600, reasonAbsent: false, missionAbsent: false, consequence: 'reversible' },
}

type Changes = {
  connection?: RequestFacts['connection']
  standing?: Partial<RequestFacts['standing']>
  assurance?: Partial<RequestFacts['assurance']>
  request?: Partial<RequestFacts['request']>
  operation?: RequestFacts['operation']
}

export function factsWith(changes: Changes): RequestFacts {
  return {
    connection: 'connection' in changes ? changes.connection : KNOWN.connection,
    standing: { ...KNOWN.standing, ...changes.standing },
    assurance: { ...KNOWN.assurance, ...changes.assurance },
    request: { ...KNOWN.request, ...changes.request },
    operation: changes.operation,
  }
}

const none = <T extends object>(facts: T): T =>
  Object.fromEntries(Object.keys(facts).map(name => [name, undefined])) as T

/** Nothing could be evaluated. */
export const UNKNOWN_FACTS: RequestFacts = {
  connection: undefined,
  standing: none(KNOWN.standing),
  assurance: none(KNOWN.assurance),
  request: none(KNOWN.request),
}

const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 4 })
const flag = maybe(fc.boolean())
const count = maybe(fc.nat({ max: 6 }))

/** Any facts, some of them unevaluable. */
export const anyFacts: fc.Arbitrary<RequestFacts> = fc.record({
  connection: maybe(fc.constantFrom('none' as const, 'active' as const, 'revoked' as const)),
  standing: fc.record({
    approvedAtTier: flag,
    neverRevoked: flag,
    firstParty: flag,
    ageSeconds: maybe(fc.nat({ max: 400_000 })),
    firstAtTier: flag,
    revokedBefore: flag,
    introduced: flag,
    lineageNewAtTier: flag,
    denials: count,
    tiers: count,
    calls: count,
  }),
  assurance: fc.record({
    binding: maybe(fc.nat({ max: 1 })),
    provenance: maybe(fc.nat({ max: 1 })),
    accountability: maybe(fc.nat({ max: 2 })),
  }),
  request: fc.record({
    expiresInSeconds: maybe(fc.nat({ max: 400_000 })),
    reasonAbsent: flag,
    missionAbsent: flag,
    consequence: maybe(fc.constantFrom('undeclared' as const, ...CONSEQUENCES)),
  }),
  operation: maybe(
    fc.oneof(
      fc.constant('approved' as const),
      fc.record({
        allowance: fc.constantFrom('trading', 'other'),
        version: fc.nat({ max: 3 }),
        beyond: fc.boolean(),
      }),
    ),
  ),
})

const VALUES = {
  duration: ['1d', '3d', '12h', '30m'],
  count: ['0', '2', '5'],
  level: ['1'],
  class: [...CONSEQUENCES],
  allowance: ['trading'],
}

/** Every condition of the vocabulary, written with some usable values. */
export const WRITTEN: { text: string; may_relax: boolean }[] = [...CONDITIONS.values()].flatMap(
  ({ condition, takes, may_relax }) =>
    takes === null
      ? [{ text: condition, may_relax }]
      : VALUES[takes].map(value => ({ text: `${condition}:${value}`, may_relax })),
)
export const RELAXING = WRITTEN.filter(({ may_relax }) => may_relax).map(({ text }) => text)
export const OBSERVED = WRITTEN.filter(({ may_relax }) => !may_relax).map(({ text }) => text)

const conditionsOf = (texts: string[]): fc.Arbitrary<string[]> =>
  fc.uniqueArray(fc.constantFrom(...texts), { minLength: 1, maxLength: 3 })
const ruleOf = (texts: string[], effects: Effect[]): fc.Arbitrary<Rule> =>
  fc.tuple(conditionsOf(texts), fc.constantFrom(...effects)).map(([when, effect]) => rule(effect, ...when))

export function rule(effect: Effect, ...when: string[]): Rule {
  return { when, then: effect }
}

export const anyAutoRule = ruleOf(RELAXING, ['auto'])
export const anyAskRule = ruleOf([...RELAXING, ...OBSERVED], ['ask'])
export const anyRefuseRule = ruleOf([...RELAXING, ...OBSERVED], ['refuse'])
/** Any rule that may be saved. */
export const anyRule = fc.oneof(anyAutoRule, anyAskRule, anyRefuseRule)
export const anyTier = fc.record({ ask_me: fc.boolean(), rules: fc.array(anyRule, { maxLength: 6 }) })
