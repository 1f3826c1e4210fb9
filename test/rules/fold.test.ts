/** Folded terms: contract, "Terms document" (the intersection of all holders' terms). */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { foldTerms, type FoldedTerms } from '../../src/rules/joint/fold.ts'

const BEA: FoldedTerms = {
  expires_in: 600,
  scope: ['trade', 'read'],
  prohibited: ['resale'],
  ask_me: false,
  per_operation: false,
}

describe('Terms that several hold are folded', () => {
  it.each<[string, Partial<FoldedTerms>, Partial<FoldedTerms>]>([
    ['the least time', { expires_in: 60 }, { expires_in: 60 }],
    ['the scopes that all offer', { scope: ['read', 'write'] }, { scope: ['read'] }],
    [
      'what any prohibits, in one order',
      { prohibited: ['ads', 'resale'] },
      { prohibited: ['ads', 'resale'] },
    ],
    ['asking if any asks', { ask_me: true, per_operation: true }, { ask_me: true, per_operation: true }],
    ['no scope, where they share none', { scope: ['write'] }, { scope: [] }],
  ])('to %s', (_what, carl, folded) => {
    const expected = { ...BEA, scope: ['read', 'trade'], ...folded }
    expect(foldTerms([BEA, { ...BEA, ...carl }])).toEqual(expected)
    expect(foldTerms([{ ...BEA, ...carl }, BEA])).toEqual(expected)
  })
})

const words = fc.array(fc.constantFrom('read', 'trade', 'write', 'é', '😀'), { maxLength: 6 })
const terms: fc.Arbitrary<FoldedTerms> = fc.record({
  expires_in: fc.integer({ min: 1, max: 1_000 }),
  scope: words,
  prohibited: words,
  ask_me: fc.boolean(),
  per_operation: fc.boolean(),
})

describe('Folding', () => {
  it('is commutative, associative and idempotent', () => {
    fc.assert(
      fc.property(terms, terms, terms, (a, b, c) => {
        expect(foldTerms([a, b])).toEqual(foldTerms([b, a]))
        expect(foldTerms([foldTerms([a, b]), c])).toEqual(foldTerms([a, foldTerms([b, c])]))
        expect(foldTerms([foldTerms([a, b]), c])).toEqual(foldTerms([c, b, a]))
        expect(foldTerms([a, a])).toEqual(foldTerms([a]))
      }),
    )
  })

  it('is never wider than any of what is folded', () => {
    fc.assert(
      fc.property(terms, fc.array(terms), (first, more) => {
        const folded = foldTerms([first, ...more])
        for (const one of [first, ...more]) {
          expect(folded.expires_in).toBeLessThanOrEqual(one.expires_in)
          expect(one.scope).toEqual(expect.arrayContaining([...folded.scope]))
          expect(folded.prohibited).toEqual(expect.arrayContaining([...one.prohibited]))
          expect(folded.ask_me || !one.ask_me).toBe(true)
          expect(folded.per_operation || !one.per_operation).toBe(true)
        }
      }),
    )
  })
})
