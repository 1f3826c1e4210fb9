/** contract, "What the service does": nothing above the owner can widen. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { refusalWords, underRuling, type Ruling } from '../../src/rules/organization/ruling.ts'
import type { TierAnswer } from '../../src/rules/tier.ts'

const STRICTNESS = { auto: 0, allow: 0, ask: 1, refuse: 2 }
const words = fc.array(fc.string())
const anyRuling: fc.Arbitrary<Ruling> = fc.record({
  effect: fc.constantFrom('allow', 'ask', 'refuse'),
  because: words,
})
const anyAnswer: fc.Arbitrary<TierAnswer> = fc.record({
  effect: fc.constantFrom('auto', 'ask', 'refuse'),
  because: words,
  relaxed: fc.boolean(),
})

describe('What an organization answers', () => {
  it('makes what her tier answers stricter, or leaves it: the strictest of both decides', () => {
    fc.assert(
      fc.property(anyAnswer, anyRuling, (answer, ruling) => {
        const under = underRuling(answer, ruling)
        const [hers, theirs] = [STRICTNESS[answer.effect], STRICTNESS[ruling.effect]]
        expect(STRICTNESS[under.effect]).toBe(Math.max(hers, theirs))
        expect(under.relaxed && (!answer.relaxed || under.effect !== 'auto')).toBe(false)
        expect(under.because.slice(0, answer.because.length)).toEqual(answer.because)
      }),
    )
  })

  it('is told to an agent by a word of a charter, whatever else an organization writes', () => {
    fc.assert(
      fc.property(words, because => {
        expect(refusalWords({ because }).reason).toMatch(/^[a-z0-9_.:+?]+$/)
      }),
    )
    expect(refusalWords({ because: ['\u001b[2J', 'delegation_none', 'not_shared'] })).toEqual({
      code: 'not_delegated',
      reason: 'not_delegated',
    })
  })
})
