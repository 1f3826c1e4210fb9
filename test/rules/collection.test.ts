/**
 * Contract, "Tally for a jointly held resource": who is asked next while verdicts are collected. A holder who
 * falls silent stops nobody.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  isAllowing,
  lastingLongest,
  nextStep,
  questionAt,
  type HolderAnswer,
} from '../../src/rules/joint/collection.ts'
import '../support/property-seed.ts'

const NOW = 1_000
const answer = (state: HolderAnswer['state'], changes: Partial<HolderAnswer> = {}): HolderAnswer => ({
  weight: 1,
  state,
  verdict_exp: state === 'allowed' ? NOW + 300 : null,
  allowed_until: state === 'allowed' ? NOW + 600 : null,
  withdrawn: false,
  ...changes,
})
const TENTATIVE = { final: false }
const SIGNING = { final: true }

const PENDING = answer('pending')
const READY = answer('ready')
const REFUSED = answer('refused')
const ALLOWED = answer('allowed')
const UNCOLLECTED = answer('allowed', { verdict_exp: NOW })
const RUN_OUT = answer('allowed', { allowed_until: NOW })
const WITHDRAWN = answer('allowed', { withdrawn: true })

/** Two must allow: the answers, the step, and how each holder is asked at it. */
const STEPS: [string, HolderAnswer[], ReturnType<typeof nextStep>, (object | undefined)[]][] = [
  ['nobody was heard', [PENDING, PENDING, PENDING], 'ask', [TENTATIVE, TENTATIVE, TENTATIVE]],
  ['too few are ready', [READY, PENDING, PENDING], 'ask', [undefined, TENTATIVE, TENTATIVE]],
  [
    'one allows, and another is undecided',
    [ALLOWED, PENDING, REFUSED],
    'ask',
    [undefined, TENTATIVE, undefined],
  ],
  ['enough are ready', [READY, READY, PENDING], 'final', [SIGNING, SIGNING, TENTATIVE]],
  [
    'one signed, and one who was ready is silent',
    [READY, ALLOWED, PENDING],
    'final',
    [SIGNING, undefined, TENTATIVE],
  ],
  ['nobody collected one in time', [UNCOLLECTED, ALLOWED, PENDING], 'final', [SIGNING, undefined, TENTATIVE]],
  [
    'one who allowed it did so for too short a time',
    [RUN_OUT, ALLOWED, PENDING],
    'ask',
    [undefined, undefined, TENTATIVE],
  ],
  [
    'one ran out, and enough allow',
    [RUN_OUT, ALLOWED, ALLOWED],
    'approved',
    [undefined, undefined, undefined],
  ],
  [
    'too few are left if one ran out',
    [RUN_OUT, ALLOWED, REFUSED],
    'denied',
    [undefined, undefined, undefined],
  ],
  ['one took hers back', [WITHDRAWN, READY, READY], 'final', [undefined, SIGNING, SIGNING]],
  ['enough allow', [ALLOWED, ALLOWED, PENDING], 'approved', [undefined, undefined, undefined]],
  ['too few are left', [REFUSED, WITHDRAWN, PENDING], 'denied', [undefined, undefined, undefined]],
]

/** Most allow, or nothing would be compared. */
const anyAnswer = fc.record({
  weight: fc.integer({ min: 1, max: 3 }),
  state: fc.constantFrom<HolderAnswer['state']>(
    'pending',
    'ready',
    'allowed',
    'allowed',
    'allowed',
    'refused',
  ),
  verdict_exp: fc.constantFrom(NOW, NOW + 300, NOW + 300, NOW + 300),
  allowed_until: fc.integer({ min: NOW, max: NOW + 5 }),
  withdrawn: fc.constantFrom(false, false, false, true),
})
const answers = fc.array(anyAnswer, { minLength: 2, maxLength: 6 })
const thresholds = fc.integer({ min: 1, max: 8 })

describe('Who is asked next', () => {
  test.each(STEPS)('where %s', (_, all, step, asked) => {
    expect(nextStep(all, 2, NOW)).toBe(step)
    expect(all.map(one => questionAt(step, one, NOW))).toEqual(asked)
  })

  test('is everybody who is undecided, for as long as anything is asked', () => {
    fc.assert(
      fc.property(answers, thresholds, (all, threshold) => {
        const step = nextStep(all, threshold, NOW)
        fc.pre(step === 'ask' || step === 'final')
        const undecided = all.filter(({ state, withdrawn }) => state === 'pending' && !withdrawn)
        expect(undecided.map(one => questionAt(step, one, NOW))).toEqual(undecided.map(() => TENTATIVE))
      }),
    )
  })

  test('is somebody, for as long as anything is asked', () => {
    fc.assert(
      fc.property(answers, thresholds, (all, threshold) => {
        const step = nextStep(all, threshold, NOW)
        fc.pre(step === 'ask' || step === 'final')
        expect(all.some(one => questionAt(step, one, NOW) !== undefined)).toBe(true)
      }),
    )
  })
})

/** When a grant of those who allow it ends; 0 if there is none. */
const endOf = (all: readonly HolderAnswer[], threshold: number): number =>
  lastingLongest(
    all.filter(one => isAllowing(one, NOW)),
    { threshold, end: NOW + 4 },
  )?.end ?? 0

describe('What a grant is made of', () => {
  test('is the set of allowances that reaches the threshold and lasts longest, and whoever allows as long', () => {
    const [short, middle, long, longer] = [10, 60, 600, 900].map(seconds =>
      answer('allowed', { allowed_until: NOW + seconds }),
    )
    const all = [short!, longer!, middle!, long!]
    const within = { threshold: 2, end: NOW + 700 }
    expect(lastingLongest(all, within)).toEqual({ counted: [longer, long], end: NOW + 600 })
    expect(lastingLongest(all, { ...within, end: NOW + 60 })).toEqual({
      counted: [longer, middle, long],
      end: NOW + 60,
    })
    expect(lastingLongest(all, { ...within, threshold: 4 })).toEqual({ counted: all, end: NOW + 10 })
    expect(lastingLongest(all, { ...within, threshold: 5 })).toBeUndefined()
  })

  test('is not to be outlasted by any other set', () => {
    fc.assert(
      fc.property(answers, thresholds, (all, threshold) => {
        const allowing = all.filter(one => isAllowing(one, NOW))
        const sets = Array.from({ length: 2 ** allowing.length }, (_, bits) =>
          allowing.filter((_one, at) => (bits & (1 << at)) > 0),
        ).filter(set => set.reduce((sum, { weight }) => sum + weight, 0) >= threshold)
        const ends = sets.map(set => Math.min(NOW + 4, ...set.map(one => one.allowed_until)))
        expect(endOf(all, threshold)).toBe(Math.max(0, ...ends))
      }),
    )
  })

  test('is never less, and never ends sooner, for one more allowance', () => {
    fc.assert(
      fc.property(answers, anyAnswer, thresholds, (all, one, threshold) => {
        const without = [...all, { ...one, state: 'refused' as const }]
        const withIt = [...all, { ...one, state: 'allowed' as const }]
        expect(endOf(withIt, threshold)).toBeGreaterThanOrEqual(endOf(without, threshold))
        const step = nextStep(without, threshold, NOW)
        if (step === 'approved') expect(nextStep(withIt, threshold, NOW)).toBe('approved')
        if (step !== 'denied') expect(nextStep(withIt, threshold, NOW)).not.toBe('denied')
      }),
      { numRuns: 1_000 },
    )
  })

  test('exists wherever it is approved, and nowhere else', () => {
    fc.assert(
      fc.property(answers, thresholds, (all, threshold) => {
        expect(endOf(all, threshold) > NOW).toBe(nextStep(all, threshold, NOW) === 'approved')
      }),
    )
  })
})
