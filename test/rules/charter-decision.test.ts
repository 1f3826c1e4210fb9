/**
 * contract, "The organization's authority" (`/decision`): the strictest of all that a charter says, and
 * nothing of what it does not claim.
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  decideUnderCharter,
  type DecisionFacts,
  type CharterMember,
} from '../../src/rules/organization/charter-decision.ts'
import type { Charter } from '../../src/wire/organization/charter.ts'
import { CHARTER, charterWith } from './charters.ts'

const FACTS: DecisionFacts = {
  resource_id: 'acme/mail-in',
  scopes: ['read'],
  expires_in: 600,
  reason_absent: false,
  mission_absent: true,
  assurance: { binding: 1, provenance: 0, accountability: 2 },
  standing: { connected: true, first_party: false, introduced: false },
}
const GOVERNING: CharterMember = { charter: CHARTER, role: 'staff', clearance: { screening: 'full' } }
const decide = (facts: Partial<DecisionFacts> = {}, governing: Partial<CharterMember> = {}) =>
  decideUnderCharter({ ...GOVERNING, ...governing }, { ...FACTS, ...facts })
const under = (changes: Partial<Charter>) => ({ charter: charterWith(changes) })
const conditions = (changes: Partial<Charter['conditions']>) =>
  under({ conditions: { ...CHARTER.conditions, ...changes } })
const standing = (changes: Partial<DecisionFacts['standing']>) => ({
  standing: { ...FACTS.standing, ...changes },
})
const assurance = (changes: Partial<DecisionFacts['assurance']>) => ({
  assurance: { ...FACTS.assurance, ...changes },
})

describe('A charter allows', () => {
  it('what nothing in it speaks against', () => {
    expect(decide()).toEqual({ effect: 'allow', because: [], governed: true })
  })

  it.each(['bea/photos', 'Acme/mail-in', 'acme', 'acme/a/b/c'])(
    'what it does not claim, and says that it does not govern it: %s',
    resource_id => {
      const worst = { resource_id, reason_absent: true, ...assurance({ binding: 0 }) }
      expect(decide(worst, { role: null, clearance: {} })).toEqual({
        effect: 'allow',
        because: [],
        governed: false,
      })
    },
  )
})

describe('A charter refuses', () => {
  it.each<[string, string, Partial<DecisionFacts>, Partial<CharterMember>]>([
    ['what is not shared with her group', 'not_shared', { resource_id: 'acme/calendar' }, {}],
    ['a member without a group', 'not_shared', {}, { role: null }],
    ['a member of a group that is no more', 'not_shared', {}, { role: 'toString' }],
    ['what may not be passed on', 'delegation_none', { resource_id: 'acme/calendar' }, { role: 'guests' }],
    ['what only agents of her own may have', 'not_first_party', {}, { role: 'leads' }],
    ['a weaker binding than it asks', 'binding_below_minimum', assurance({ binding: 0 }), {}],
    ['a weaker provenance', 'provenance_below_minimum', {}, conditions({ min_provenance: 1 })],
    ['a weaker accountability', 'accountability_below_minimum', assurance({ accountability: 0 }), {}],
    ['an agreement without a reason', 'reason_required', { reason_absent: true }, {}],
    ['an agreement without a mission', 'mission_required', {}, conditions({ require_mission: true })],
    ['access longer than the ceiling', 'expires_in_above_ceiling', { expires_in: 3601 }, {}],
    ['a scope above the ceiling', 'scope_above_ceiling', { scopes: ['read', 'delete'] }, {}],
    ['a clearance of another value', 'clearance_unmet', {}, { clearance: { screening: 'none' } }],
    ['where nothing is attested', 'clearance_unmet', {}, { clearance: {} }],
    [
      'a fact that only objects have',
      'clearance_unmet',
      {},
      {
        charter: charterWith({
          envelope: { ...CHARTER.envelope, require_clearance: { constructor: ['x'] } },
        }),
      },
    ],
    [
      'what one of its rules refuses',
      'refuse:standing.introduced',
      { resource_id: 'acme/files/x', ...standing({ introduced: true }) },
      {},
    ],
  ])('%s', (_what, word, facts, governing) => {
    const { effect, because, governed } = decide(facts, governing)
    expect([effect, because.includes(word), governed]).toEqual(['refuse', true, true])
  })

  it('with a word for each thing that it refuses, and none for what it would ask about', () => {
    const { because } = decide({ resource_id: 'acme/mail-out', expires_in: 3601, scopes: ['delete'] })
    expect(because).toEqual(['expires_in_above_ceiling', 'scope_above_ceiling'])
  })

  it('no scope where any may be given, and every scope where none may', () => {
    const scopes = (allowed_scopes: string[] | null) =>
      decide({ scopes: ['delete'] }, under({ envelope: { ...CHARTER.envelope, allowed_scopes } })).effect
    expect([scopes(null), scopes([])]).toEqual(['allow', 'refuse'])
  })
})

describe('A charter asks', () => {
  it('about what it always asks about, and where one of its rules says so', () => {
    expect(decide({ resource_id: 'acme/mail-out' })).toMatchObject({ effect: 'ask', because: ['always_ask'] })
    expect(decide(assurance({ accountability: 1 }))).toMatchObject({
      effect: 'ask',
      because: ['ask:assurance.accountability_below:2'],
    })
  })

  it('if a rule of it hangs on what it is not told, as how grave the operation is', () => {
    const rules: Charter['rules'] = [
      { when: ['request.consequence_at_or_above:irreversible'], then: 'ask', resources: ['acme/*'] },
    ]
    expect(decide({}, under({ rules })).effect).toBe('ask')
    expect(decide({ resource_id: 'acme/files/x' }, under({ rules })).effect).toBe('allow')
  })

  it('as of an agent that has no connection yet', () => {
    const rules: Charter['rules'] = [{ when: ['standing.none'], then: 'ask', resources: ['acme/*'] }]
    expect(decide({}, under({ rules })).effect).toBe('allow')
    expect(decide(standing({ connected: false }), under({ rules })).effect).toBe('ask')
  })
})

const STRICTNESS = { allow: 0, ask: 1, refuse: 2 } as const
const flag = fc.boolean()
const ids = fc.constantFrom('acme/mail-in', 'acme/mail-out', 'acme/calendar', 'acme/files/x')
const scopes = fc.subarray(['read', 'send', 'delete'])
const anyFacts: fc.Arbitrary<DecisionFacts> = fc.record({
  resource_id: ids,
  scopes,
  expires_in: fc.constantFrom(60, 600, 3600),
  reason_absent: flag,
  mission_absent: flag,
  assurance: fc.record({
    binding: fc.nat(1),
    provenance: fc.nat(1),
    accountability: fc.nat(2),
  }),
  standing: fc.record({ connected: flag, first_party: flag, introduced: flag }),
})
const anyRule: fc.Arbitrary<Charter['rules'][number]> = fc.record({
  when: fc.subarray(
    ['standing.none', 'standing.introduced', 'request.reason_absent', 'assurance.binding_below:1'],
    {
      minLength: 1,
    },
  ),
  then: fc.constantFrom('ask', 'refuse'),
  resources: fc.subarray(['acme/*', 'acme/mail-*', 'acme/*/*']),
})
const delegation = fc.constantFrom('none' as const, 'first-party-only' as const, 'any-agent' as const)
const anyCharter: fc.Arbitrary<Charter> = fc
  .record({
    grants: fc.subarray(['acme/mail-*', 'acme/calendar', 'acme/files/*']),
    delegation,
    max_expires_in: fc.constantFrom(60, 600, 3600),
    allowed_scopes: fc.option(scopes),
    always_ask: fc.subarray(['acme/mail-out', 'acme/*/*']),
    require_clearance: fc.constantFrom<Record<string, string[]>>(
      {},
      { screening: ['full'] },
      { screening: ['basic', 'full'] },
    ),
    conditions: fc.record({
      min_binding: fc.nat(1),
      min_provenance: fc.nat(1),
      min_accountability: fc.nat(2),
      require_reason: flag,
      require_mission: flag,
    }),
    rules: fc.array(anyRule, { maxLength: 2 }),
  })
  .map(({ grants, delegation, conditions, rules, ...ceiling }) =>
    charterWith({
      roles: { staff: { name: 'Staff', grants, delegation } },
      envelope: { ...CHARTER.envelope, ...ceiling },
      conditions,
      rules,
    }),
  )
const anyGoverning: fc.Arbitrary<CharterMember> = fc.record({
  charter: anyCharter,
  role: fc.constantFrom('staff', null),
  clearance: fc.constantFrom({}, { screening: 'full' }, { screening: 'basic' }),
})

/** Each takes something more away. */
const RESTRICTIONS: Record<string, (charter: Charter) => Charter> = {
  'a grant less': ({ roles, ...rest }) => ({
    ...rest,
    roles: { staff: { ...roles.staff!, grants: roles.staff!.grants.slice(1) } },
  }),
  'delegation to fewer': ({ roles, ...rest }) => ({
    ...rest,
    roles: {
      staff: {
        ...roles.staff!,
        delegation: roles.staff!.delegation === 'any-agent' ? 'first-party-only' : 'none',
      },
    },
  }),
  'a shorter life': charter => ceiling(charter, { max_expires_in: charter.envelope.max_expires_in - 30 }),
  'a scope less': charter =>
    ceiling(charter, { allowed_scopes: charter.envelope.allowed_scopes?.slice(1) ?? ['read'] }),
  'more that is always asked about': charter =>
    ceiling(charter, { always_ask: [...charter.envelope.always_ask, 'acme/mail-*'] }),
  'a clearance more': charter =>
    ceiling(charter, { require_clearance: { ...charter.envelope.require_clearance, desk: ['a'] } }),
  'a value less': charter => ceiling(charter, { require_clearance: { screening: ['full'] } }),
  'a higher minimum': ({ conditions, ...rest }) => ({
    ...rest,
    conditions: { ...conditions, min_accountability: conditions.min_accountability + 1 },
  }),
  'a reason': ({ conditions, ...rest }) => ({ ...rest, conditions: { ...conditions, require_reason: true } }),
  'a mission': ({ conditions, ...rest }) => ({
    ...rest,
    conditions: { ...conditions, require_mission: true },
  }),
  'a rule more': ({ rules, ...rest }) => ({
    ...rest,
    rules: [...rules, { when: ['standing.none'], then: 'ask', resources: ['acme/*'] }],
  }),
}
function ceiling(charter: Charter, changes: Partial<Charter['envelope']>): Charter {
  return { ...charter, envelope: { ...charter.envelope, ...changes } }
}

describe('What is added to a charter', () => {
  it.each(Object.entries(RESTRICTIONS))('never makes an answer milder: %s', (_what, restrict) => {
    let stricter = 0
    fc.assert(
      fc.property(anyGoverning, anyFacts, (governing, facts) => {
        const before = decideUnderCharter(governing, facts)
        const after = decideUnderCharter({ ...governing, charter: restrict(governing.charter) }, facts)
        if (STRICTNESS[after.effect] > STRICTNESS[before.effect]) stricter++
        expect(STRICTNESS[after.effect]).toBeGreaterThanOrEqual(STRICTNESS[before.effect])
        expect(after.governed).toBe(before.governed)
      }),
      { numRuns: 2_000, seed: 7 },
    )
    // It is not without effect either.
    expect(stricter).toBeGreaterThan(0)
  })

  it('never makes an answer milder: a rule of any kind', () => {
    fc.assert(
      fc.property(anyGoverning, anyFacts, anyRule, (governing, facts, rule) => {
        const before = decideUnderCharter(governing, facts)
        const charter = { ...governing.charter, rules: [rule, ...governing.charter.rules] }
        const after = decideUnderCharter({ ...governing, charter }, facts)
        expect(STRICTNESS[after.effect]).toBeGreaterThanOrEqual(STRICTNESS[before.effect])
      }),
    )
  })

  it('says why wherever it does not allow', () => {
    fc.assert(
      fc.property(anyGoverning, anyFacts, (governing, facts) => {
        const { effect, because } = decideUnderCharter(governing, facts)
        expect(because.length > 0).toBe(effect !== 'allow')
      }),
    )
  })
})
