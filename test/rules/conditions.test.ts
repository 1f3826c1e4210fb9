import { describe, expect, it } from 'vitest'
import { consequenceFact, CONDITIONS, parseCondition, vocabulary } from '../../src/rules/conditions.ts'
import { factsWith, UNKNOWN_FACTS } from './facts.ts'

const DAY = 86_400
const holds = (text: string, facts = factsWith({})): boolean | undefined => {
  const parsed = parseCondition(text)
  if ('fault' in parsed) throw new Error(parsed.fault)
  return parsed.word.holds(facts, parsed.value, parsed.allowance)
}

describe('the policy vocabulary', () => {
  it.each([
    ['standing.approved_at_tier', null],
    ['standing.never_revoked', null],
    ['standing.age_above', 'duration'],
    ['standing.first_party', null],
  ])('%s may relax (takes %s)', (condition, takes) => {
    expect(CONDITIONS.get(condition)).toMatchObject({ may_relax: true, takes })
  })

  it.each([
    ['standing.none', null],
    ['standing.first_at_tier', null],
    ['standing.revoked_before', null],
    ['standing.introduced', null],
    ['standing.lineage_new_at_tier', null],
    ['standing.age_below', 'duration'],
    ['standing.denials_above', 'count'],
    ['standing.tiers_above', 'count'],
    ['standing.calls_above', 'count'],
    ['assurance.binding_below', 'level'],
    ['assurance.provenance_below', 'level'],
    ['assurance.accountability_below', 'level'],
    ['request.max_expiry', 'duration'],
    ['request.reason_absent', null],
    ['request.mission_absent', null],
    ['request.consequence_unknown', null],
    ['request.consequence_at_or_above', 'class'],
    ['operation.beyond', 'allowance'],
  ])('%s is observed (takes %s)', (condition, takes) => {
    expect(CONDITIONS.get(condition)).toMatchObject({ may_relax: false, takes })
  })

  it('lists these 22 and no other, each with a label', () => {
    expect(vocabulary()).toHaveLength(22)
    for (const entry of vocabulary()) {
      expect(Object.keys(entry).sort()).toEqual(['condition', 'label', 'may_relax', 'takes'])
      expect(entry.label).not.toBe('')
    }
  })
})

describe('a condition is written name or name:value', () => {
  it.each([
    ['standing.age_above:90d', 90 * DAY],
    ['standing.age_above:12h', 12 * 3600],
    ['request.max_expiry:30m', 1800],
    ['standing.calls_above:0', 0],
    ['standing.calls_above:250', 250],
    ['assurance.binding_below:1', 1],
    ['assurance.accountability_below:2', 2],
    ['request.consequence_at_or_above:reversible', 0],
    ['request.consequence_at_or_above:irreversible', 3],
    ['standing.none', 0],
    ['operation.beyond:weekend-2', 0],
  ])('%s', (text, value) => {
    expect(parseCondition(text)).toMatchObject({ value })
  })

  it.each([
    ['standing.age_above', /`standing.age_above` needs a duration/],
    ['standing.age_above:', /needs a duration/],
    ['standing.age_above:90', /needs a duration/],
    ['standing.age_above:90D', /needs a duration/],
    ['standing.age_above:0d', /needs a duration/],
    ['standing.age_above:-1d', /needs a duration/],
    ['standing.age_above:1.5d', /needs a duration/],
    ['standing.age_above: 1d', /needs a duration/],
    ['standing.age_above:1d ', /needs a duration/],
    ['standing.age_above:1d\n', /needs a duration/],
    ['standing.age_above:90d:x', /needs a duration/],
    ['standing.age_above:99999999d', /needs a duration/],
    ['standing.calls_above:many', /needs a count/],
    ['standing.calls_above:-1', /needs a count/],
    ['standing.calls_above:01', /needs a count/],
    ['standing.calls_above:1e3', /needs a count/],
    ['assurance.binding_below:0', /needs a level from 1 to 1, as nothing is below 0/],
    ['assurance.binding_below:2', /needs a level from 1 to 1/],
    ['assurance.provenance_below:2', /needs a level from 1 to 1/],
    ['assurance.accountability_below:3', /needs a level from 1 to 2/],
    ['request.consequence_at_or_above:grave', /needs a consequence class .*compensatable/],
    ['request.consequence_at_or_above:constructor', /needs a consequence class/],
    ['operation.beyond', /`operation.beyond` needs the id of an allowance/],
    ['operation.beyond:', /needs the id of an allowance/],
    ['operation.beyond:Weekend', /needs the id of an allowance/],
    ['operation.beyond:weekend ', /needs the id of an allowance/],
    ['operation.beyond:weekend\n', /needs the id of an allowance/],
    ['operation.beyond:a:b', /needs the id of an allowance/],
    ['operation.beyond:w\u0435ekend', /needs the id of an allowance/],
    [`operation.beyond:${'a'.repeat(33)}`, /at most 32/],
    ['standing.none:1', /`standing.none` takes no value/],
    ['standing.none:', /takes no value/],
    ['standing.trusted', /`standing.trusted` is not a condition/],
    ['Standing.none', /is not a condition/],
    ['', /is not a condition/],
    ['constructor', /is not a condition/],
    ['!standing.none', /is not a condition/],
    ['<script>\u202e`', /^`<script>\?\?` is not a condition/],
  ])('%j is refused with the reason', (text, sentence) => {
    expect(parseCondition(text)).toEqual({ fault: expect.stringMatching(sentence) })
  })

  it('a very long name is not repeated whole', () => {
    const parsed = parseCondition('x'.repeat(5000))
    expect('fault' in parsed && parsed.fault.length < 200).toBe(true)
  })
})

describe('what a condition means', () => {
  it.each([
    [
      'standing.approved_at_tier',
      { standing: { approvedAtTier: true } },
      { standing: { approvedAtTier: false } },
    ],
    ['standing.never_revoked', { standing: { neverRevoked: true } }, { standing: { neverRevoked: false } }],
    ['standing.first_party', { standing: { firstParty: true } }, { standing: { firstParty: false } }],
    ['standing.age_above:1d', { standing: { ageSeconds: DAY + 1 } }, { standing: { ageSeconds: DAY } }],
    ['standing.age_below:1d', { standing: { ageSeconds: DAY - 1 } }, { standing: { ageSeconds: DAY } }],
    ['standing.none', { connection: 'none' as const }, { connection: 'active' as const }],
    ['standing.none', { connection: 'revoked' as const }, { connection: 'active' as const }],
    ['standing.first_at_tier', { standing: { firstAtTier: true } }, { standing: { firstAtTier: false } }],
    [
      'standing.revoked_before',
      { standing: { revokedBefore: true } },
      { standing: { revokedBefore: false } },
    ],
    ['standing.introduced', { standing: { introduced: true } }, { standing: { introduced: false } }],
    [
      'standing.lineage_new_at_tier',
      { standing: { lineageNewAtTier: true } },
      { standing: { lineageNewAtTier: false } },
    ],
    ['standing.denials_above:3', { standing: { denials: 4 } }, { standing: { denials: 3 } }],
    ['standing.tiers_above:3', { standing: { tiers: 4 } }, { standing: { tiers: 3 } }],
    ['standing.calls_above:3', { standing: { calls: 4 } }, { standing: { calls: 3 } }],
    ['assurance.binding_below:1', { assurance: { binding: 0 } }, { assurance: { binding: 1 } }],
    ['assurance.provenance_below:1', { assurance: { provenance: 0 } }, { assurance: { provenance: 1 } }],
    [
      'assurance.accountability_below:2',
      { assurance: { accountability: 1 } },
      { assurance: { accountability: 2 } },
    ],
    [
      'request.max_expiry:1h',
      { request: { expiresInSeconds: 3601 } },
      { request: { expiresInSeconds: 3600 } },
    ],
    ['request.reason_absent', { request: { reasonAbsent: true } }, { request: { reasonAbsent: false } }],
    ['request.mission_absent', { request: { missionAbsent: true } }, { request: { missionAbsent: false } }],
    [
      'request.consequence_unknown',
      { request: { consequence: 'undeclared' as const } },
      { request: { consequence: 'reversible' as const } },
    ],
    [
      'request.consequence_at_or_above:compensatable',
      { request: { consequence: 'irreversible' as const } },
      { request: { consequence: 'reversible' as const } },
    ],
    [
      'request.consequence_at_or_above:compensatable',
      { request: { consequence: 'compensatable' as const } },
      { request: { consequence: 'undeclared' as const } },
    ],
    [
      'operation.beyond:trading',
      { operation: { allowance: 'trading', version: 1, beyond: true } },
      { operation: { allowance: 'trading', version: 1, beyond: false } },
    ],
    [
      'operation.beyond:trading',
      { operation: { allowance: 'trading', version: 1, beyond: true, limit: 'tools' } },
      { operation: 'approved' as const },
    ],
    [
      'operation.beyond:trading',
      { operation: { allowance: 'trading', version: 1, beyond: true } },
      { operation: { allowance: 'trading', version: 1, beyond: true }, connection: 'none' as const },
    ],
    [
      'operation.beyond:trading',
      { operation: { allowance: 'trading', version: 1, beyond: true } },
      { operation: { allowance: 'trading', version: 1, beyond: true }, connection: 'revoked' as const },
    ],
  ])('%s holds for %o and not for %o', (text, met, unmet) => {
    expect(holds(text, factsWith(met))).toBe(true)
    expect(holds(text, factsWith(unmet))).toBe(false)
  })

  it.each([...CONDITIONS.values()].map(entry => entry.condition))(
    '%s is unevaluable without its fact',
    name => {
      const entry = CONDITIONS.get(name)!
      expect(entry.holds(UNKNOWN_FACTS, 0)).toBeUndefined()
      expect(entry.holds(UNKNOWN_FACTS, 1)).toBeUndefined()
    },
  )

  it('what is within another allowance is not known to be within this one', () => {
    const facts = factsWith({ operation: { allowance: 'other', version: 1, beyond: false } })
    expect(holds('operation.beyond:trading', facts)).toBeUndefined()
  })

  it.each(['denials', 'tiers', 'calls'])(
    'a count of %s that stopped says nothing of higher numbers',
    fact => {
      const facts = factsWith({ standing: { countedTo: 4, [fact]: 4 } })
      expect([3, 4, 9].map(value => holds(`standing.${fact}_above:${value}`, facts))).toEqual([
        true,
        undefined,
        undefined,
      ])
      const few = factsWith({ standing: { countedTo: 4, [fact]: 2 } })
      expect([1, 3, 9].map(value => holds(`standing.${fact}_above:${value}`, few))).toEqual([
        true,
        false,
        false,
      ])
    },
  )

  it.each([
    [undefined, 'undeclared'],
    [null, 'undeclared'],
    ['grave', 'undeclared'],
    ['irreversible', 'irreversible'],
  ])('a resource declaring %s is %s: neither safe nor grave', (declared, fact) => {
    expect(consequenceFact(declared)).toBe(fact)
  })
})
