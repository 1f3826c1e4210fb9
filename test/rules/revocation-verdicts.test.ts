/**
 * How a signed revocation judges calls on record: docs/choices.md, "Revocations that prove themselves";
 * docs/proof.md. Contract: "What the service does" (row 9: revocation is immediate).
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  endedGrants,
  judgeCall,
  USUAL_BOUNDS,
  type CallBounds,
  type EndedGrants,
} from '../../src/rules/ledger/revocation-verdicts.ts'
import { s256Json } from '../../src/wire/encoding.ts'
import { asHandle, asOwner } from '../../src/wire/identifiers.ts'
import type { RecordedCall } from '../../src/wire/ledger/recorded-call.ts'
import type { RevocationClaims } from '../../src/wire/ledger/revocation.ts'
import { Refusal } from '../../src/wire/refusal.ts'

const AGENT = asHandle('jkt:one')
const OWNER = asOwner('alice')
const ISSUER = 'https://as.example'
const IAT = 1_800_000_000
const AT = IAT * 1_000 + 2_500
const REVOCATION: EndedGrants = {
  iss: ISSUER,
  owner: OWNER,
  iat: IAT,
  at: AT,
  ends: 7,
  ended: new Set([AGENT]),
}
/** Let through ten seconds before the revocation was complete, under a grant of an hour before. */
const CALL: RecordedCall = {
  time: AT - 9_900,
  decision: 'allow',
  owner: OWNER,
  handle: AGENT,
  issuer: ISSUER,
  iat: IAT - 3_600,
  judged: { ends: 6, at: AT - 10_000 },
}
const OLDEST = USUAL_BOUNDS.timeOutMs + USUAL_BOUNDS.leaseMs + 60_000

function verdictOf(changes: Partial<RecordedCall>, bounds?: CallBounds): string {
  const judgement = judgeCall({ ...CALL, ...changes }, REVOCATION, bounds)
  return judgement.verdict ?? judgement.outside
}
/** The time at which the authority judged, and so many milliseconds later that of the enforcement point. */
const judgedAt = (at: number, { ends = 6, later = 100 } = {}): Partial<RecordedCall> => ({
  judged: { ends, at },
  time: at + later,
})

describe('A call under a grant that was ended is', () => {
  it.each<[string, string, Partial<RecordedCall>]>([
    ['undecided', 'its record does not say what the authority knew', { judged: undefined }],
    ['undecided', 'its record says neither that nor iat', { judged: undefined, iat: undefined }],
    ['undecided', 'it does not say when the grant began', { iat: undefined, judged: { ends: 9, at: AT } }],
    ['authority at fault', 'it knew of the revocation', judgedAt(AT - 10_000, { ends: 7 })],
    ['authority at fault', 'it knew of a later act', judgedAt(AT - 10_000, { ends: 8 })],
    ['authority at fault', 'it judged over 60 s after', judgedAt(AT + 60_001)],
    ['undecided', 'it judged 60 s after', judgedAt(AT + 60_000)],
    ['undecided', 'it judged at the time of the revocation', judgedAt(AT)],
    ['in order', 'it judged a millisecond before', judgedAt(AT - 1)],
    ['enforcement point at fault', 'it waited too long', judgedAt(AT - 100_000, { later: OLDEST + 1 })],
    ['in order', 'it waited as long as it may', judgedAt(AT - 100_000, { later: OLDEST })],
    ['enforcement point at fault', 'it waited too long after', judgedAt(AT + 1, { later: OLDEST + 1 })],
    [
      'authority at fault',
      'it knew, however long the other waited',
      judgedAt(AT, { ends: 7, later: OLDEST + 1 }),
    ],
    [
      'authority at fault',
      'it judged late, however long the other waited',
      judgedAt(AT + 60_001, { later: OLDEST + 1 }),
    ],
    ['in order', 'the clock of the enforcement point was behind', judgedAt(AT - 10_000, { later: -50_000 })],
  ])('%s if %s', (verdict, _what, changes) => {
    expect(verdictOf(changes)).toBe(verdict)
  })

  it('judged by the time-out and the lease that the enforcement point had', () => {
    const [slow, fast] = [
      { timeOutMs: 30_000, leaseMs: 0 },
      { timeOutMs: 500, leaseMs: 0 },
    ]
    expect(verdictOf(judgedAt(AT - 100_000, { later: 90_000 }), slow)).toBe('in order')
    expect(verdictOf(judgedAt(AT - 100_000, { later: 90_001 }), slow)).toBe('enforcement point at fault')
    expect(verdictOf(judgedAt(AT - 100_000, { later: 60_501 }), fast)).toBe('enforcement point at fault')
  })

  it('judged with a sentence that has the numbers', () => {
    const sentence = (changes: Partial<RecordedCall>) =>
      judgeCall({ ...CALL, ...changes }, REVOCATION).sentence
    expect(sentence(judgedAt(AT, { ends: 8 }))).toContain('knew of 8 acts')
    expect(sentence(judgedAt(AT + 60_001))).toContain('60.001 s after the revocation was complete')
    expect(sentence(judgedAt(AT - 99_000, { later: OLDEST + 1 }))).toContain('63.901 s after the authority')
    expect(sentence({})).toContain('10 s before the revocation was complete')
  })
})

describe('A call is not judged', () => {
  it.each<[string, string, Partial<RecordedCall>]>([
    [
      'other authority',
      'of the same owner and agent at another authority',
      { issuer: 'https://other.example' },
    ],
    ['other authority', 'at another path of its host', { issuer: `${ISSUER}/two`, judged: undefined }],
    ['other authority', 'whose issuer is spelt in another way', { issuer: `${ISSUER}/` }],
    ['other authority', 'that was refused there', { issuer: 'https://other.example', decision: 'deny' }],
    ['other grant', 'of another agent', { handle: asHandle('jkt:two') }],
    ['other grant', 'of nobody known', { handle: undefined }],
    ['other grant', 'of the same agent at another owner', { owner: asOwner('bob') }],
    ['other grant', 'of an owner who is not known', { owner: undefined }],
    ['later grant', 'under a grant of 60 s before', { iat: IAT - 60 }],
    ['later grant', 'under a grant of after it', { iat: IAT + 5 }],
    ['later grant', 'under a later grant, without `judged`', { iat: IAT, judged: undefined }],
    ['refused', 'that was refused', { decision: 'deny' }],
    ['refused', 'that was refused because the grant was not live', { decision: 'deny', judged: undefined }],
    ['refused', 'that was refused late', { decision: 'deny', ...judgedAt(AT - 9, { later: OLDEST + 1 }) }],
  ])('(%s) %s, whatever the authority knew', (outside, _what, changes) => {
    const lie = judgedAt(AT + 90_000, { ends: 9 })
    expect(verdictOf(outside === 'refused' ? changes : { ...lie, ...changes })).toBe(outside)
  })

  it('but is judged from 61 s before the revocation', () => {
    expect(verdictOf({ iat: IAT - 61 })).toBe('in order')
  })

  it.each<[string, Partial<RecordedCall>]>([
    ['in order', {}],
    ['authority at fault', judgedAt(AT - 10_000, { ends: 7 })],
    ['enforcement point at fault', judgedAt(AT - 100_000, { later: OLDEST + 1 })],
    ['other grant', { owner: asOwner('bob') }],
  ])(
    'any differently (%s) where its record names no authority, as those of older logs',
    (verdict, changes) => {
      expect(verdictOf({ ...changes, issuer: undefined })).toBe(verdict)
      expect(verdictOf(changes)).toBe(verdict)
    },
  )

  it('and one that was refused convicts the authority all the same, if it had found the grant live', () => {
    expect(verdictOf({ decision: 'deny', ...judgedAt(AT - 9, { ends: 7 }) })).toBe('authority at fault')
  })
})

describe('The handles that a revocation ended', () => {
  const claims = { iss: ISSUER, owner: OWNER, iat: IAT, at: AT, ends: 7 } as RevocationClaims
  const many = Array.from({ length: 60 }, (_, n) => asHandle(`jkt:${n}`))
  const hashed = { ...claims, ended_s256: s256Json(many) }

  it('are those that it names, or those whose hash it has', () => {
    expect(endedGrants({ ...claims, ended: [AGENT] })).toEqual(REVOCATION)
    expect(endedGrants(hashed, many).ended).toEqual(new Set(many))
  })

  it.each<[string, () => unknown]>([
    ['are absent', () => endedGrants(hashed)],
    ['are others', () => endedGrants(hashed, many.slice(1))],
    ['are in another order', () => endedGrants(hashed, many.toReversed())],
    ['are named and handed in as well', () => endedGrants({ ...claims, ended: [AGENT] }, [AGENT])],
  ])('are refused where they %s', (_what, read) => {
    expect(read).toThrow(Refusal)
  })
})

/** Milliseconds of true time from the beginning of a history. */
const HISTORY_MS = 300_000
const offset = fc.integer({ min: -30_000, max: 30_000 })
const moment = fc.integer({ min: 0, max: HISTORY_MS })

/** The clocks of two databases, one after the other, and of an enforcement point. */
const clocks = fc.record({ first: offset, second: offset, failOverAt: moment, enforcement: offset })
const boundsOf = fc.record({
  timeOutMs: fc.integer({ min: 50, max: 60_000 }),
  leaseMs: fc.integer({ min: 0, max: 1_900 }),
})
type Clocks = typeof clocks extends fc.Arbitrary<infer T> ? T : never

const TRUE_ZERO = IAT * 1_000
const databaseAt = ({ first, second, failOverAt }: Clocks, at: number): number =>
  TRUE_ZERO + at + (at < failOverAt ? first : second)
const revocationAt = (of: Clocks, done: number, { complete, ends }: { complete: number; ends: number }) => ({
  iss: ISSUER,
  owner: OWNER,
  iat: Math.floor(databaseAt(of, done) / 1_000),
  at: databaseAt(of, complete),
  ends,
  ended: new Set([AGENT]),
})
/** The record of a call, by true times: of its grant, of the authority's judgement, and of its end. */
const recordAt = (
  of: Clocks,
  { granted, judged, ended, ends }: { granted: number; judged: number; ended: number; ends: number },
): RecordedCall => ({
  time: TRUE_ZERO + ended + of.enforcement,
  decision: 'allow',
  owner: OWNER,
  handle: AGENT,
  issuer: ISSUER,
  iat: Math.floor(databaseAt(of, granted) / 1_000),
  judged: { ends, at: databaseAt(of, judged) },
})

describe('Clocks that are up to 30 s from the true time', () => {
  it('convict no innocent: whatever was revoked, admitted again and judged, under leases and a fail-over', () => {
    const acts = fc.array(
      fc.record({ at: moment, takesMs: fc.integer({ min: 0, max: 60_000 }), isOfAgent: fc.boolean() }),
      { minLength: 1, maxLength: 5 },
    )
    const calls = fc.array(
      fc.record({
        granted: fc.integer({ min: -HISTORY_MS, max: HISTORY_MS }),
        wait: moment,
        age: fc.double({ min: 0, max: 1, noNaN: true }),
      }),
      { minLength: 1, maxLength: 10 },
    )
    fc.assert(
      fc.property(clocks, boundsOf, acts, calls, (of, bounds, unsorted, asked) => {
        const done = unsorted.toSorted((one, other) => one.at - other.at)
        const endsAt = (at: number) => done.filter(act => act.at <= at).length
        const isLive = (granted: number, at: number) =>
          !done.some(act => act.isOfAgent && act.at > granted && act.at <= at)
        // Also calls that were judged in the last moment before an act.
        const last = done.map(({ at }) => ({ granted: at - 100_000, wait: 99_999, age: 1 }))
        const records = [...asked, ...last]
          .map(({ granted, wait, age }) => ({ granted, judged: granted + wait, age }))
          .filter(({ granted, judged }) => isLive(granted, judged))
          .map(({ granted, judged, age }) => {
            const ended = judged + Math.floor(age * (bounds.timeOutMs + bounds.leaseMs))
            return recordAt(of, { granted, judged, ended, ends: endsAt(judged) })
          })
        done.forEach(({ at, takesMs, isOfAgent }, n) => {
          if (!isOfAgent) return
          const revocation = revocationAt(of, at, { complete: at + takesMs, ends: n + 1 })
          for (const record of records)
            expect(judgeCall(record, revocation, bounds).verdict ?? 'in order').not.toMatch(/at fault/)
        })
      }),
      { numRuns: 2_000 },
    )
  })

  it('hide no authority that finds a grant live over two minutes after it was ended, whatever it says it knew', () => {
    const late = fc.integer({ min: 120_001, max: HISTORY_MS })
    fc.assert(
      fc.property(clocks, boundsOf, late, fc.nat(20), (of, bounds, lateMs, ends) => {
        const revocation = revocationAt(of, 200_000, { complete: 202_000, ends: 7 })
        const judged = 202_000 + lateMs
        const record = recordAt(of, { granted: 0, judged, ended: judged + 10, ends })
        expect(judgeCall(record, revocation, bounds).verdict).toBe('authority at fault')
      }),
    )
  })

  it('hide no authority that knew of the revocation, whenever it judged', () => {
    fc.assert(
      fc.property(clocks, boundsOf, moment, fc.integer({ min: 7, max: 20 }), (of, bounds, judged, ends) => {
        const revocation = revocationAt(of, 200_000, { complete: 202_000, ends: 7 })
        const record = recordAt(of, { granted: 0, judged, ended: judged + 10, ends })
        expect(judgeCall(record, revocation, bounds).verdict).toBe('authority at fault')
      }),
    )
  })

  it('hide no enforcement point that relies on an answer over two minutes longer than it may', () => {
    const late = fc.integer({ min: 120_001, max: HISTORY_MS })
    const early = fc.integer({ min: 0, max: 199_999 })
    fc.assert(
      fc.property(clocks, boundsOf, early, late, (of, bounds, judged, lateMs) => {
        const revocation = revocationAt(of, 200_000, { complete: 202_000, ends: 7 })
        const ended = judged + bounds.timeOutMs + bounds.leaseMs + lateMs
        const record = recordAt(of, { granted: 0, judged, ended, ends: 6 })
        expect(judgeCall(record, revocation, bounds).verdict).toBe('enforcement point at fault')
      }),
    )
  })
})

/** True times, in milliseconds: the act, when the revocation was complete, and of a call long before it. */
const [DONE, COMPLETE, EARLY] = [200_000, 202_000, 100_000]
const SAME: Clocks = { first: 0, second: 0, failOverAt: 0, enforcement: 0 }
const [BEHIND, AHEAD] = [
  { first: 30_000, second: -30_000 },
  { first: -30_000, second: 30_000 },
]
const NO_LEASE: CallBounds = { timeOutMs: 2_000, leaseMs: 0 }

describe.each<[string, Clocks, CallBounds]>([
  ['a revoke', SAME, NO_LEASE],
  ['a revoke while answers are used again under leases', SAME, USUAL_BOUNDS],
  [
    'a fail-over before the revoke, to a clock a minute behind',
    { ...SAME, ...BEHIND, failOverAt: 190_000 },
    NO_LEASE,
  ],
  [
    'a fail-over before the revoke, to a clock a minute ahead',
    { ...SAME, ...AHEAD, failOverAt: 190_000 },
    NO_LEASE,
  ],
  [
    'a fail-over as soon as the act is done, to a clock a minute behind',
    { ...SAME, ...BEHIND, failOverAt: DONE + 1 },
    NO_LEASE,
  ],
  [
    'a fail-over after the revoke, to a clock a minute behind',
    { ...SAME, ...BEHIND, failOverAt: 250_000 },
    NO_LEASE,
  ],
  [
    'a fail-over after the revoke, to a clock a minute ahead',
    { ...SAME, ...AHEAD, failOverAt: 250_000 },
    NO_LEASE,
  ],
  [
    'clocks 30 s behind and ahead',
    { ...SAME, first: -30_000, second: -30_000, enforcement: 30_000 },
    USUAL_BOUNDS,
  ],
  [
    'clocks 30 s ahead and behind',
    { ...SAME, first: 30_000, second: 30_000, enforcement: -30_000 },
    USUAL_BOUNDS,
  ],
])('Around %s', (_what, of, bounds) => {
  const revocation = revocationAt(of, DONE, { complete: COMPLETE, ends: 7 })
  const longest = bounds.timeOutMs + bounds.leaseMs
  /** The verdict about a call under a grant of long before, unless another one is named. */
  const verdictAt = (judged: number, { ends = 6, lateMs = 0, granted = 0 } = {}): string => {
    const record = recordAt(of, { granted, judged, ended: judged + longest + lateMs, ends })
    const judgement = judgeCall(record, revocation, bounds)
    return judgement.verdict ?? judgement.outside
  }

  it('a call of before is in order, though it ended as late as it may', () => {
    expect(verdictAt(COMPLETE - 60_001)).toBe('in order')
  })

  it('an authority that knew of it, or judged two minutes after it, is at fault', () => {
    expect(verdictAt(EARLY, { ends: 7 })).toBe('authority at fault')
    expect(verdictAt(COMPLETE + 120_001)).toBe('authority at fault')
  })

  it('an enforcement point that relied on an answer for two minutes more than it may is at fault', () => {
    expect(verdictAt(EARLY, { lateMs: 120_001 })).toBe('enforcement point at fault')
  })

  it('a call that an authority judged right after it, without knowing of it, is undecided', () => {
    expect(verdictAt(COMPLETE + 30_000)).toBe('undecided')
    const record = recordAt(of, { granted: 0, judged: EARLY, ended: EARLY, ends: 6 })
    expect(judgeCall({ ...record, judged: undefined }, revocation, bounds).verdict).toBe('undecided')
  })

  it('a call of the agent under a grant of after its readmission is not judged', () => {
    for (const granted of [DONE + 1, DONE + 1_000, 300_000])
      expect(verdictAt(granted + 500, { ends: 7, granted })).toBe('later grant')
  })
})
