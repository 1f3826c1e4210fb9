/**
 * How her page writes what others wrote: contract, "Owner API": foreign text is shown completely, with what
 * nobody would see written out.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { analyse } from '../../src/console/parts/writing.ts'

const textOf = (text: string, isName = false): string =>
  analyse(text, isName)
    .parts.map(part => part.text)
    .join('')

describe('A text on her page', () => {
  it.each([
    ['a joiner of graphemes', 'al\u034fice', 'al\\u{34f}ice'],
    ['a selector of variants', 'VTI\ufe0f', 'VTI\\u{fe0f}'],
    ['a selector beyond the first plane', 'V\u{e0100}TI', 'V\\u{e0100}TI'],
    ['a selector of Mongolian', 'V\u180bTI', 'V\\u{180b}TI'],
    ['a place that is kept for such signs', 'V\u2065T\ufff0I', 'V\\u{2065}T\\u{fff0}I'],
    ['a filler of Hangul', 'V\u3164TI', 'V\\u{3164}TI'],
    ['the blank of Braille', 'V\u2800TI', 'V\\u{2800}TI'],
    ['a mark of direction', 'V\u202eTI', 'V\\u{202e}TI'],
    ['the fourth mark on one letter', 'Z\u0300\u0301\u0302\u0303', 'Z\u0300\u0301\u0302\\u{303}'],
    ['nothing but blanks', ' \u00a0', '\\u{20}\\u{a0}'],
  ])('is written out where nobody would see it: %s', (_what, text, written) => {
    expect(textOf(text)).toBe(written)
    expect(analyse(text).flags).toContain('unseen')
  })

  it('that is a name has the blanks at its ends written out, which no letter shows', () => {
    expect(textOf('amount ', true)).toBe('amount\\u{20}')
    expect(textOf(' \u00a0amount', true)).toBe('\\u{20}\\u{a0}amount')
    expect(analyse('amount ', true).flags).toContain('unseen')
    expect(textOf('the amount', true)).toBe('the amount')
    expect(textOf('Because I must. ')).toBe('Because I must. ')
  })

  it('stays as it is where a reader sees all of it', () => {
    for (const text of ['Grüße, 統計 🙂', 'שלום', 'مرحبا 100', 'Z\u0300\u0301', 'a\u00a0b'])
      expect(analyse(text)).toEqual({ parts: [{ text, isEscaped: false }], flags: [] })
  })

  it('is no longer the same as another text that draws the same', () => {
    const drawn = (text: string): string =>
      text.replaceAll(/[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Cf}\u2800]/gu, '')
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), text => {
        for (const isName of [false, true]) expect(drawn(textOf(text, isName))).toBe(textOf(text, isName))
      }),
    )
  })
})
