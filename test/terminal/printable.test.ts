/**
 * What strangers write reaches a terminal only as text (contract, "Agreement (claim_token, beat 3)": reason).
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { widthOf } from '../../src/terminal/command.ts'
import {
  hanging,
  localTime,
  printable,
  printableJson,
  printableLines,
  printableTime,
  printableValue,
  record,
  table,
} from '../../src/terminal/printable.ts'

const ACTING = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u

describe('text from others', () => {
  it.each([
    ['\u001b[2J', '\\u{1b}[2J', 'an escape sequence'],
    ['a\rb', 'a\\u{d}b', 'a carriage return'],
    ['a\nb', 'a\\u{a}b', 'a line feed'],
    ['\u009b31m', '\\u{9b}31m', 'a C1 control'],
    ['pay \u202egnp.exe', 'pay \\u{202e}gnp.exe', 'a direction mark'],
    ['a\u200bb', 'a\\u{200b}b', 'a zero width'],
    ['a\u2028b', 'a\\u{2028}b', 'a line separator'],
    ['\u{e0041}', '\\u{e0041}', 'a tag'],
    ['\ud800', '\\u{d800}', 'half a surrogate pair'],
    ['Grüße, 統計 🙂', 'Grüße, 統計 🙂', 'ordinary text'],
  ])('%j is shown as %s (%s)', (text, shown) => {
    expect(printable(text)).toBe(shown)
  })

  it('acts on a terminal in no form of output, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), text => {
        expect(printable(text)).not.toMatch(ACTING)
        expect(printableValue([text, { text }])).not.toMatch(ACTING)
        const lines = [
          printableLines(text),
          table([text], [[text]]),
          record({ [text]: text }),
          printableJson({ [text]: [text] }),
        ]
        for (const line of lines.flatMap(output => output.split('\n'))) expect(line).not.toMatch(ACTING)
      }),
    )
  })

  it('stays the same JSON when it is printed as JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        expect(JSON.parse(printableJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })
})

describe('a table', () => {
  it('aligns its columns and leaves no blanks at the ends of lines', () => {
    expect(
      table(
        ['id', 'scopes'],
        [
          ['a', ['read', 'write']],
          ['longer', []],
        ],
      ),
    ).toBe('ID      SCOPES\na       read, write\nlonger  -\n')
  })

  const time = '2026-11-21 09:30:00Z'
  const wide = table(
    ['handle', 'since', 'says'],
    [['jkt:0123456789abcdef', time, 'a long reason to be let in']],
  )

  it('that is wider than the terminal has its longest cells cut, so that its lines fit', () => {
    const fitted = table(
      ['handle', 'since', 'says'],
      [['jkt:0123456789abcdef', time, 'a long reason to be let in']],
      52,
    )
    expect(fitted).toBe(
      `HANDLE          SINCE                 SAYS\njkt:012345678…  ${time}  a long reason…\n`,
    )
    expect(wide).toContain('a long reason to be let in')
  })

  it('that cannot be cut to fit becomes a record for each row, nothing lost', () => {
    const rows = [
      ['jkt:0123456789abcdef', time, time],
      ['jkt:b', time, ''],
    ]
    expect(table(['handle', 'since', 'until'], rows, 50)).toBe(
      `handle  jkt:0123456789abcdef\nsince   ${time}\nuntil   ${time}\n\nhandle  jkt:b\nsince   ${time}\n`,
    )
  })
})

describe('lines of sentences', () => {
  it('are broken at blanks to the width, with every word in its place', () => {
    expect(hanging('17:34  one two three', 7, 14)).toBe('17:34  one two\n       three')
    expect(hanging('wider-than-the-terminal', 2, 5)).toBe('wider-than-the-terminal')
  })
})

describe('a time in the zone of its reader', () => {
  it.each([
    ['Europe/Zurich', '2026-11-21 10:30', '2026-11-21 10:30:00.125'],
    ['America/New_York', '2026-11-21 04:30', '2026-11-21 04:30:00.125'],
    ['Pacific/Auckland', '2026-11-21 22:30', '2026-11-21 22:30:00.125'],
  ])('is in %s %s', (zone, minute, precise) => {
    const instant = '2026-11-21T09:30:00.125Z'
    expect(localTime(instant, { zone })).toBe(minute)
    expect(localTime(Date.parse(instant) / 1_000, { zone, precise: true })).toBe(precise)
  })

  it('that is none is shown as it is', () => {
    expect(localTime(null)).toBe('-')
    expect(localTime('soon\u001b')).toBe('soon\\u{1b}')
  })

  it('is never cut', () => {
    const row = ['x'.repeat(60), localTime('2026-11-21T09:30:00Z', { zone: 'UTC' })]
    expect(table(['what', 'when'], [row], 40)).toContain('2026-11-21 09:30\n')
  })
})

describe('a time', () => {
  it.each([
    [1_790_000_000, '2026-09-21 14:13:20Z'],
    ['2026-11-21T09:00:00.123Z', '2026-11-21 09:00:00Z'],
    ['\u001b', '\\u{1b}'],
    [null, '-'],
    [undefined, '-'],
  ])('%j reads %s', (value, shown) => {
    expect(printableTime(value)).toBe(shown)
  })
})

it('a terminal that tells no width, or 0, is taken to be 80 characters wide', () => {
  expect([undefined, 0, 40].map(widthOf)).toEqual([80, 80, 40])
})
