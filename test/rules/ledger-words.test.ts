/** contract, "Owner API": the words by which she finds entries of her ledger. */
import { describe, expect, it } from 'vitest'
import { holdsWords, wordsOf } from '../../src/rules/words/ledger-words.ts'

const ENTRY = {
  kind: 'touched',
  summary: 'Sell 3 VTI for Zoë\u0301',
  nested: [{ tool: 'place_trade' }, { reason: 'ＦＵＬＬ width' }],
  count: 7,
}

describe('A search of the ledger', () => {
  it.each([
    ['', true],
    ['vti', true],
    ['  VTI\tsell ', true],
    ['sell buy', false],
    ['trade zoé', false],
    ['trade zoë\u0301', true],
    ['full WIDTH', true],
    ['summary', false],
    ['7', false],
    ['sell 3', true],
  ])('by %j finds it: %s', (text, found) => {
    expect(holdsWords(ENTRY, wordsOf(text))).toBe(found)
  })
})
