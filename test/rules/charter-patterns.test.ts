/** contract, "The organization's authority": which resources a pattern names, and that coverage is sound. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  claimFault,
  coveredBy,
  namedBy,
  overlapping,
  patternFault,
  patternMatches,
} from '../../src/rules/organization/charter-patterns.ts'

describe('a pattern names a resource id', () => {
  it.each([
    ['acme/mail', 'acme/mail', true],
    ['acme/mail', 'acme/Mail', false],
    ['acme/*', 'acme/mail', true],
    ['acme/*', 'acme/', true],
    ['acme/*', 'acme', false],
    ['acme/*', 'acme/mail/out', false],
    ['acme/*/out', 'acme/mail/out', true],
    ['acme/mail-*', 'acme/mail-', true],
    ['acme/*-mail', 'acme/a-mail-mail', true],
    ['acme/a*b*c', 'acme/a-b-b-c', true],
    ['acme/a*b*c', 'acme/a-c-b', false],
    ['acme/%2a', 'acme/*', false],
    ['acme/.', 'acme/x', false],
  ])('%s and %s: %s', (pattern, id, named) => expect(patternMatches(pattern, id)).toBe(named))

  it('in linear time, whatever the pattern', () => {
    const pattern = `acme/${'a*'.repeat(120)}b`
    const before = process.cpuUsage().user
    expect(patternMatches(pattern, `acme/${'a'.repeat(200)}`)).toBe(false)
    expect(process.cpuUsage().user - before).toBeLessThan(1_000_000)
  })
})

const covers = (claim: string, grant: string): boolean => coveredBy([claim], [grant]).length === 1

/** Few letters, so that the patterns and ids of one run often meet. */
const segment = fc.stringMatching(/^[ab*]{1,4}$/)
const pattern = fc.array(segment, { minLength: 1, maxLength: 3 }).map(segments => segments.join('/'))
const id = pattern.map(text => text.replaceAll('*', 'b'))

describe('a list of patterns', () => {
  it('names what one of them names, however often it is asked', () => {
    fc.assert(
      fc.property(fc.array(pattern, { maxLength: 6 }), fc.array(id, { maxLength: 8 }), (patterns, ids) => {
        const one = (text: string): boolean => patterns.some(each => patternMatches(each, text))
        for (const names of [namedBy(patterns), namedBy([...patterns])])
          expect([...ids, ...ids].map(names)).toEqual([...ids, ...ids].map(one))
      }),
    )
  })

  it('covers what one of them covers', () => {
    const patterns = fc.array(pattern, { maxLength: 6 })
    fc.assert(
      fc.property(patterns, patterns, (list, others) => {
        expect(coveredBy(list, others)).toEqual(others.filter(one => list.some(each => covers(each, one))))
      }),
    )
  })

  it('is asked about more ids than it keeps, and more lists than are kept', () => {
    for (let list = 0; list < 40; list++) {
      const names = namedBy([`acme/${list}-*`])
      const ids = Array.from({ length: 5_000 }, (_, i) => `acme/${i % 50}-${i}`)
      expect(ids.filter(names)).toEqual(ids.filter(text => text.startsWith(`acme/${list}-`)))
    }
  })
})

describe('two patterns overlap', () => {
  it('if some text is named by both, and then alone, against brute force', () => {
    /** All texts of up to six letters: the longest that two patterns of four characters can need. */
    let texts = ['']
    for (let length = 0; length < 6; length++)
      texts = [...new Set([...texts, ...texts.flatMap(text => [`${text}a`, `${text}b`])])]
    fc.assert(
      fc.property(segment, segment, (one, other) => {
        const both = texts.some(text => patternMatches(one, text) && patternMatches(other, text))
        expect(overlapping([one], [other])).toEqual(both ? [other] : [])
        expect(overlapping(['b', `${one}/a`], [`${other}/*`])).toEqual(both ? [`${other}/*`] : [])
      }),
      { numRuns: 1_000 },
    )
  })

  it('if they have as many segments, each of which overlaps with its counterpart', () => {
    const list = ['acme/*-eu', 'acme/a/*']
    const patterns = ['acme/pay-*', 'acme/pay', 'acme/pay-eu', 'acme/*/b', 'acme/b/*', 'ben/*', 'acme/*/*/*']
    expect(overlapping(list, patterns)).toEqual(['acme/pay-*', 'acme/pay-eu', 'acme/*/b'])
    expect(overlapping([], patterns)).toEqual([])
  })
})

describe('a text is no pattern, or no claim', () => {
  it.each([
    ['', false, false],
    ['acme//mail', false, false],
    ['acme/é', false, false],
    ['acme mail', false, false],
    ['mail', true, false],
    ['*/mail', true, false],
    ['ac*/mail', true, false],
    ['acme/*', true, true],
  ])('%s: pattern %s, claim %s', (text, pattern, claim) =>
    expect([patternFault(text) === undefined, claimFault(text) === undefined]).toEqual([pattern, claim]),
  )
})

describe('coverage', () => {
  /** Few letters, so that patterns meet. */
  const segment = fc.string({ unit: fc.constantFrom('a', 'b', '*'), minLength: 1, maxLength: 4 })
  const pattern = fc.array(segment, { minLength: 1, maxLength: 3 }).map(segments => segments.join('/'))
  /** What a grant names, each star given some text of its own. */
  const concrete = (grant: string, texts: readonly string[]): string => {
    let at = 0
    return grant.replaceAll('*', () => texts[at++ % texts.length] ?? '')
  }
  const TEXTS = ['', 'a', 'b', 'ab', 'ba', 'aab', 'bba']

  it('is sound: what a covered grant names is named by the claim', () => {
    fc.assert(
      fc.property(
        pattern,
        pattern,
        fc.array(fc.constantFrom(...TEXTS), { minLength: 1, maxLength: 6 }),
        (claim, grant, texts) => {
          if (!covers(claim, grant)) return
          const id = concrete(grant, texts)
          expect(patternMatches(grant, id)).toBe(true)
          expect(patternMatches(claim, id)).toBe(true)
        },
      ),
      { numRuns: 20_000 },
    )
  })

  it('is found wherever every text of up to three letters for a star is named, against brute force', () => {
    const letters = ['a', 'b', 'c']
    const texts = ['', ...letters, ...letters.flatMap(one => letters.map(two => one + two))]
    const one = fc.string({ unit: fc.constantFrom('a', 'b', '*'), minLength: 1, maxLength: 4 })
    const singleStar = one.filter(text => text.split('*').length <= 2)
    fc.assert(
      fc.property(one, singleStar, (claim, grant) => {
        const all = texts.every(text => patternMatches(claim, grant.replace('*', text)))
        expect(covers(claim, grant)).toBe(all)
      }),
      { numRuns: 5_000 },
    )
  })

  it('is that of a pattern by itself, and goes on from pattern to pattern', () => {
    fc.assert(fc.property(pattern, one => covers(one, one)))
    fc.assert(
      fc.property(pattern, pattern, pattern, (first, second, third) => {
        if (covers(first, second) && covers(second, third)) expect(covers(first, third)).toBe(true)
      }),
      { numRuns: 20_000 },
    )
  })
})
