import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  answerFor,
  approvedAtTier,
  CONNECTION_STATES,
  CONNECTION_TRIGGERS,
  introductionAnswer,
  isSingleUse,
  LIVE_INTRODUCED_MAX,
  nextConnectionState,
  type ConnectionState,
  type ConnectionTrigger,
  type IntroductionFacts,
  type LineageMember,
} from '../../src/rules/connection.ts'
import type { Effect } from '../../src/rules/tier.ts'

const MOVES: [ConnectionState, ConnectionTrigger, ConnectionState, string][] = [
  ['none', 'admitted', 'active', 'the owner approves a first-contact request'],
  ['none', 'introduced', 'active', 'an agent introduced by an active connection skips first contact'],
  ['active', 'owner_revokes', 'revoked', 'the owner revokes'],
  ['active', 'operator_blocked', 'revoked', 'the owner blocks the operator'],
  ['active', 'introducer_ended', 'revoked', 'revoking an introducer revokes the agents it introduced'],
  ['revoked', 'admitted', 'active', 'the agent is admitted again'],
]

describe('connection', () => {
  it.each(MOVES)('%s, %s -> %s: %s', (from, trigger, to) => {
    expect(nextConnectionState(from, trigger)).toBe(to)
  })

  it('has no other move', () => {
    const found = CONNECTION_STATES.flatMap(from =>
      CONNECTION_TRIGGERS.filter(trigger => nextConnectionState(from, trigger) !== undefined).map(
        trigger => `${from} ${trigger}`,
      ),
    )
    expect(found.sort()).toEqual(MOVES.map(([from, trigger]) => `${from} ${trigger}`).sort())
  })

  it('no path leaves revoked but admission: an unblock restores only the right to negotiate', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...CONNECTION_TRIGGERS), { maxLength: 30 }), triggers => {
        let state: ConnectionState = 'none'
        for (const trigger of triggers) {
          const next = nextConnectionState(state, trigger)
          if (state === 'revoked') expect(next).toBe(trigger === 'admitted' ? 'active' : undefined)
          state = next ?? state
        }
      }),
    )
  })
})

const effects: Effect[] = ['auto', 'ask', 'refuse']
const ANSWERS: [ConnectionState, Effect, string][] = [
  ['none', 'auto', 'ask connection'],
  ['none', 'ask', 'ask connection'],
  ['none', 'refuse', 'deny'],
  ['revoked', 'auto', 'ask connection'],
  ['revoked', 'ask', 'ask connection'],
  ['revoked', 'refuse', 'deny'],
  ['active', 'auto', 'grant'],
  ['active', 'ask', 'ask operation'],
  ['active', 'refuse', 'deny'],
]

describe('the answer to a verified request', () => {
  it.each(ANSWERS.flatMap(row => [true, false].map(ask_me => [...row, ask_me] as const)))(
    'connection %s, tier says %s: %s (ask_me %s)',
    (connection, effect, expected, ask_me) => {
      const because = ['baseline:auto']
      const answer = answerFor(connection, { ask_me }, { effect, because })
      expect(answer.kind === 'ask' ? `ask ${answer.of}` : answer.kind).toBe(expected)
      if (answer.kind === 'deny') expect(answer.because).toBe(because)
      else expect(answer.singleUse).toBe(ask_me)
    },
  )

  it('every grant of an ask-me tier is single-use, also one that a rule let through, and no other', () => {
    expect(isSingleUse({ ask_me: true })).toBe(true)
    expect(isSingleUse({ ask_me: false })).toBe(false)
  })

  it('while no active connection exists nothing is granted, whatever the tier', () => {
    fc.assert(
      fc.property(
        fc.constantFrom<ConnectionState>('none', 'revoked'),
        fc.constantFrom(...effects),
        fc.boolean(),
        (connection, effect, ask_me) => {
          const answer = answerFor(connection, { ask_me }, { effect, because: [] })
          expect(answer.kind).not.toBe('grant')
        },
      ),
    )
  })
})

const INTRODUCED: IntroductionFacts = {
  namedBy: 'introduction',
  newcomer: 'none',
  introducer: 'active',
  introducerApprovedInPerson: true,
  introducerWasIntroduced: false,
  oneOperatorPublishedBoth: true,
  liveIntroduced: 0,
}

describe('introduction', () => {
  it.each(['introduction', 'parent_agent'] as const)('skips first contact when named by %s', namedBy => {
    expect(introductionAnswer({ ...INTRODUCED, namedBy })).toEqual({ ok: true })
  })

  it.each<[string, Partial<IntroductionFacts>, string]>([
    ['nobody names the introducer', { namedBy: undefined }, 'introducer_not_named'],
    ['the newcomer is connected already', { newcomer: 'active' }, 'newcomer_already_connected'],
    ['the newcomer has an ended connection', { newcomer: 'revoked' }, 'newcomer_has_ended_connection'],
    ['the introducer is unknown', { introducer: 'none' }, 'introducer_not_active'],
    ['the introducer is revoked', { introducer: 'revoked' }, 'introducer_not_active'],
    [
      'the owner approved none of its tiers in person',
      { introducerApprovedInPerson: false },
      'introducer_not_approved_in_person',
    ],
    ['the introducer was itself introduced', { introducerWasIntroduced: true }, 'introducer_was_introduced'],
    [
      'no one operator published both keys',
      { oneOperatorPublishedBoth: false },
      'operator_did_not_publish_both_keys',
    ],
    ['the introducer is at its cap', { liveIntroduced: LIVE_INTRODUCED_MAX }, 'introducer_at_its_cap'],
  ])('falls back to first contact where %s', (_why, changed, because) => {
    expect(introductionAnswer({ ...INTRODUCED, ...changed })).toEqual({ ok: false, because })
  })

  it('admits a third live introduced agent and not a fourth', () => {
    expect(introductionAnswer({ ...INTRODUCED, liveIntroduced: 2 }).ok).toBe(true)
    expect(introductionAnswer({ ...INTRODUCED, liveIntroduced: 3 }).ok).toBe(false)
  })

  it.each(Object.keys(INTRODUCED))('never helps where %s could not be established', fact => {
    expect(introductionAnswer({ ...INTRODUCED, [fact]: undefined }).ok).toBe(false)
  })
})

describe("the owner's personal approval", () => {
  const member = (over: Partial<LineageMember>): LineageMember => ({
    state: 'active',
    generation: 2,
    approvals: [{ tier_id: 'trading', generation: 2 }],
    ...over,
  })

  it('pools across the live lineage', () => {
    expect(approvedAtTier([member({ approvals: [] }), member({})], 'trading')).toBe(true)
  })

  it.each<[string, LineageMember[]]>([
    ['nobody was approved', []],
    [
      'it was given in an earlier generation',
      [member({ approvals: [{ tier_id: 'trading', generation: 1 }] })],
    ],
    ['it was for another tier', [member({ approvals: [{ tier_id: 'reading', generation: 2 }] })]],
    ['that member is revoked', [member({ state: 'revoked' })]],
  ])('does not count where %s', (_why, lineage) => {
    expect(approvedAtTier(lineage, 'trading')).toBe(false)
  })
})
