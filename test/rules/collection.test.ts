/**
 * Contract, "Tally for a jointly held resource": who is asked next while verdicts are collected. A holder who
 * falls silent stops nobody.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { nextStep, questionAt, type HolderAnswer } from '../../src/rules/collection.ts'
import '../support/property-seed.ts'

const NOW = 1_000
const answer = (state: HolderAnswer['state'], changes: Partial<HolderAnswer> = {}): HolderAnswer => ({
  weight: 1,
  state,
  verdict_exp: state === 'allowed' ? NOW + 300 : null,
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
  ['one took hers back', [WITHDRAWN, READY, READY], 'final', [undefined, SIGNING, SIGNING]],
  ['enough allow', [ALLOWED, ALLOWED, PENDING], 'approved', [undefined, undefined, undefined]],
  ['too few are left', [REFUSED, WITHDRAWN, PENDING], 'denied', [undefined, undefined, undefined]],
]

const answers = fc.array(
  fc.record({
    weight: fc.integer({ min: 1, max: 3 }),
    state: fc.constantFrom<HolderAnswer['state']>('pending', 'ready', 'allowed', 'refused'),
    verdict_exp: fc.integer({ min: NOW - 1, max: NOW + 2 }),
    withdrawn: fc.boolean(),
  }),
  { minLength: 2, maxLength: 6 },
)

describe('Who is asked next', () => {
  test.each(STEPS)('where %s', (_, all, step, asked) => {
    expect(nextStep(all, 2, NOW)).toBe(step)
    expect(all.map(one => questionAt(step, one, NOW))).toEqual(asked)
  })

  test('is everybody who is undecided, for as long as anything is asked', () => {
    fc.assert(
      fc.property(answers, fc.integer({ min: 1, max: 8 }), (all, threshold) => {
        const step = nextStep(all, threshold, NOW)
        fc.pre(step === 'ask' || step === 'final')
        const undecided = all.filter(({ state, withdrawn }) => state === 'pending' && !withdrawn)
        expect(undecided.map(one => questionAt(step, one, NOW))).toEqual(undecided.map(() => TENTATIVE))
      }),
    )
  })

  test('is somebody, for as long as anything is asked', () => {
    fc.assert(
      fc.property(answers, fc.integer({ min: 1, max: 8 }), (all, threshold) => {
        const step = nextStep(all, threshold, NOW)
        fc.pre(step === 'ask' || step === 'final')
        expect(all.some(one => questionAt(step, one, NOW) !== undefined)).toBe(true)
      }),
    )
  })
})
