import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { assuranceOf, type AssuranceChecks } from '../../src/rules/assurance.ts'
import {
  answerFor,
  introductionAnswer,
  makesFirstParty,
  type ConnectionState,
} from '../../src/rules/connection.ts'
import { evaluateTier, type Effect, type Rule } from '../../src/rules/tier.ts'
import { anyFacts, anyTier, OBSERVED, WRITTEN } from './facts.ts'

const NONE: AssuranceChecks = {
  signed: true,
  issuerVouches: false,
  clientDocumentClaimsItsUrl: false,
  directoryListsKey: false,
}
const anyChecks: fc.Arbitrary<AssuranceChecks> = fc.record({
  signed: fc.constant(true),
  issuerVouches: fc.boolean(),
  clientDocumentClaimsItsUrl: fc.boolean(),
  directoryListsKey: fc.boolean(),
})

describe('the three axes of assurance', () => {
  it.each<[string, Partial<AssuranceChecks>, [number, number, number]]>([
    ['nothing but a signature', {}, [1, 0, 0]],
    ['no signature', { signed: false }, [0, 0, 0]],
    ['an issuer that vouches', { issuerVouches: true }, [1, 1, 0]],
    ['a client document that claims its URL', { clientDocumentClaimsItsUrl: true }, [1, 0, 1]],
    ['a directory that lists the key', { directoryListsKey: true }, [1, 0, 2]],
    ['both documents', { clientDocumentClaimsItsUrl: true, directoryListsKey: true }, [1, 0, 2]],
    [
      'everything',
      { issuerVouches: true, clientDocumentClaimsItsUrl: true, directoryListsKey: true },
      [1, 1, 2],
    ],
  ])('from %s', (_what, checks, [binding, provenance, accountability]) => {
    expect(assuranceOf({ ...NONE, ...checks })).toEqual({ binding, provenance, accountability })
  })

  it('are independent: no check moves an axis of another', () => {
    fc.assert(
      fc.property(anyChecks, anyChecks, (one, other) => {
        const mixed = assuranceOf({ ...one, issuerVouches: other.issuerVouches })
        expect(mixed.accountability).toBe(assuranceOf(one).accountability)
        expect(mixed.provenance).toBe(assuranceOf(other).provenance)
      }),
    )
  })

  it('never fall when one more check succeeds', () => {
    fc.assert(
      fc.property(
        anyChecks,
        fc.constantFrom(...(Object.keys(NONE) as (keyof AssuranceChecks)[])),
        (checks, more) => {
          const [before, after] = [assuranceOf(checks), assuranceOf({ ...checks, [more]: true })]
          for (const axis of ['binding', 'provenance', 'accountability'] as const)
            expect(after[axis]).toBeGreaterThanOrEqual(before[axis])
        },
      ),
    )
  })
})

const RANK: Record<Effect, number> = { auto: 0, ask: 1, refuse: 2 }
const strictness = (
  ask_me: boolean,
  rules: readonly Rule[],
  facts: Parameters<typeof evaluateTier>[1],
): number => RANK[evaluateTier({ ask_me, rules }, facts).effect]
const aboutAssurance = (text: string): boolean => text.startsWith('assurance.')

describe('what is learnt of an operator or an issuer can only make a request stricter', () => {
  it('whatever was learnt, the answer is at least as strict as without any rule that reads it', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, anyChecks, ({ ask_me, rules }, facts, checks) => {
        const learnt = { ...facts, assurance: assuranceOf(checks) }
        const without = rules.filter(({ when }) => !when.some(aboutAssurance))
        expect(strictness(ask_me, rules, learnt)).toBeGreaterThanOrEqual(strictness(ask_me, without, facts))
      }),
      { numRuns: 500 },
    )
  })

  it('a tier that reads nothing of it answers the same, whatever was learnt', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, anyChecks, anyChecks, ({ ask_me, rules }, facts, one, other) => {
        const without = rules.filter(({ when }) => !when.some(aboutAssurance))
        const given = (checks: AssuranceChecks) =>
          evaluateTier({ ask_me, rules: without }, { ...facts, assurance: assuranceOf(checks) })
        expect(given(one)).toEqual(given(other))
      }),
    )
  })

  it('the most that can be proven lets nothing through that the owner is otherwise asked about', () => {
    const everything = assuranceOf({
      signed: true,
      issuerVouches: true,
      clientDocumentClaimsItsUrl: true,
      directoryListsKey: true,
    })
    fc.assert(
      fc.property(anyTier, anyFacts, ({ ask_me, rules }, facts) => {
        // None of the four relaxing facts is given; only those about others are at their best.
        const unknown = {
          approvedAtTier: false,
          neverRevoked: false,
          firstParty: false,
          ageSeconds: undefined,
        }
        const proven = { ...facts, standing: { ...facts.standing, ...unknown }, assurance: everything }
        expect(strictness(ask_me, rules, proven)).toBeGreaterThanOrEqual(ask_me ? RANK.ask : RANK.auto)
      }),
    )
  })

  it('a document that could not be had is never better for the agent than one that was read', () => {
    fc.assert(
      fc.property(anyTier, anyFacts, anyChecks, ({ ask_me, rules }, facts, checks) => {
        const read = strictness(ask_me, rules, { ...facts, assurance: assuranceOf(checks) })
        const missing = { ...checks, clientDocumentClaimsItsUrl: false, directoryListsKey: false }
        const unread = { ...facts, assurance: { ...assuranceOf(missing), accountability: 0 } }
        expect(strictness(ask_me, rules, unread)).toBeGreaterThanOrEqual(read)
      }),
    )
  })

  it('while no active connection exists, nothing of it is an admission', () => {
    fc.assert(
      fc.property(
        anyTier,
        anyFacts,
        anyChecks,
        fc.constantFrom<ConnectionState>('none', 'revoked'),
        ({ ask_me, rules }, facts, checks, connection) => {
          const answer = evaluateTier(
            { ask_me, rules },
            { ...facts, connection, assurance: assuranceOf(checks) },
          )
          expect(answerFor(connection, { ask_me }, answer).kind).not.toBe('grant')
        },
      ),
    )
  })

  it('no condition on it may stand in a rule that lets through', () => {
    const named = WRITTEN.filter(({ text }) => aboutAssurance(text))
    expect(named).toHaveLength(3)
    for (const { text, may_relax } of named) {
      expect(may_relax).toBe(false)
      expect(OBSERVED).toContain(text)
    }
  })
})

describe('standing.first_party', () => {
  const act = { byOwner: true, operatorIsHers: true, directoryListsKey: true }
  it("is given by the owner's own act on an agent whose key the directory of her own operator lists", () => {
    expect(makesFirstParty(act)).toBe(true)
  })
  it.each(Object.keys(act))('and by nothing less: not without %s', missing => {
    expect(makesFirstParty({ ...act, [missing]: false })).toBe(false)
  })
})

describe('an introduction', () => {
  it('never makes an answer worse than it would be without', () => {
    const state = fc.constantFrom<ConnectionState | undefined>('none', 'active', 'revoked', undefined)
    const flag = fc.constantFrom(true, false, undefined)
    fc.assert(
      fc.property(
        anyTier,
        anyFacts,
        fc.record({
          namedBy: fc.constantFrom('introduction' as const, 'parent_agent' as const, undefined),
          newcomer: state,
          introducer: state,
          introducerApprovedInPerson: flag,
          introducerWasIntroduced: flag,
          oneOperatorPublishedBoth: flag,
          liveIntroduced: fc.option(fc.nat({ max: 5 }), { nil: undefined }),
        }),
        ({ ask_me, rules }, facts, introduction) => {
          // It moves a newcomer from none to active, or nothing at all; an active agent is never turned back
          // to first contact.
          const newcomer = introduction.newcomer ?? 'none'
          const connection = introductionAnswer(introduction).ok ? 'active' : newcomer
          if (introductionAnswer(introduction).ok) expect(newcomer).toBe('none')
          const answer = answerFor(
            connection,
            { ask_me },
            evaluateTier({ ask_me, rules }, { ...facts, connection }),
          )
          if (connection === 'active') expect(answer).not.toMatchObject({ kind: 'ask', of: 'connection' })
        },
      ),
    )
  })
})
