import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatAuthChallenge, parseAuthChallenges } from '../../src/wire/negotiation/auth-challenges.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

function parsed(...lines: string[]): unknown[] {
  return parseAuthChallenges(lines).map(({ scheme, token68, parameters }) => [
    scheme,
    token68 ?? Object.fromEntries(parameters),
  ])
}

describe('WWW-Authenticate', () => {
  it.each([
    ['UMA realm="x"', [['uma', { realm: 'x' }]]],
    ['uma REALM=x', [['uma', { realm: 'x' }]]],
    ['UMA realm="a, b=\\"c\\" \\\\"', [['uma', { realm: 'a, b="c" \\' }]]],
    ['UMA realm = "x" , ticket=t', [['uma', { realm: 'x', ticket: 't' }]]],
    [
      'Bearer realm="x", UMA ticket="t"',
      [
        ['bearer', { realm: 'x' }],
        ['uma', { ticket: 't' }],
      ],
    ],
    [
      'Negotiate abc==, UMA ticket="t"',
      [
        ['negotiate', 'abc=='],
        ['uma', { ticket: 't' }],
      ],
    ],
    [
      'UMA ticket="t", Negotiate',
      [
        ['uma', { ticket: 't' }],
        ['negotiate', {}],
      ],
    ],
    [
      'Negotiate, UMA ticket=t',
      [
        ['negotiate', {}],
        ['uma', { ticket: 't' }],
      ],
    ],
    [
      'Negotiate , UMA ticket=t',
      [
        ['negotiate', {}],
        ['uma', { ticket: 't' }],
      ],
    ],
    ['Basic', [['basic', {}]]],
    ['Basic ', [['basic', {}]]],
    [', ,UMA a=1,, b=2 ,', [['uma', { a: '1', b: '2' }]]],
    ['UMA realm=""', [['uma', { realm: '' }]]],
    ['', []],
    ['UMA __proto__=x', [['uma', { ['__proto__']: 'x' }]]],
  ])('reads %j', (line, challenges) => {
    expect(parsed(line)).toEqual(challenges)
  })

  it('reads several field lines in order', () => {
    expect(parsed('Bearer a=1', 'UMA b=2')).toEqual([
      ['bearer', { a: '1' }],
      ['uma', { b: '2' }],
    ])
  })

  it.each([
    ['a parameter named twice', 'UMA realm="x", realm="y"'],
    ['a parameter named twice in another case', 'UMA realm="x", REALM="x"'],
    ['an unclosed quote', 'UMA realm="x'],
    ['a quote ended by its escape', 'UMA realm="x\\"'],
    ['no comma between parameters', 'UMA realm="x" ticket="t"'],
    ['no comma between challenges', 'UMA Bearer realm="x"'],
    ['a value of two tokens', 'UMA realm=a b'],
    ['a parameter without value', 'UMA realm=, ticket=t'],
    ['no scheme', '"x"'],
    ['an equals sign alone', 'UMA ='],
    ['a parameter without a scheme', 'realm="x"'],
    ['a control character', 'UMA realm="a\u0000b"'],
    ['a line feed', 'UMA realm="a\nb"'],
    ['a character beyond ASCII', 'UMA realm="é"'],
    ['a tab for the first space', 'UMA\trealm="x"'],
    ['over 16 KiB', `UMA realm="${'x'.repeat(17_000)}"`],
  ])('refuses %s', (_what, line) => {
    expect(refusalOf(() => parseAuthChallenges([line])).code).toBe('invalid_request')
  })

  it('reads back what it writes, whatever the values', () => {
    const values = fc.dictionary(
      fc.stringMatching(/^[a-z_]{1,12}$/),
      fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map(code => String.fromCharCode(code)) }),
      { minKeys: 1, maxKeys: 6 },
    )
    fc.assert(
      fc.property(values, given => {
        expect(parsed(formatAuthChallenge('UMA', given))).toEqual([['uma', { ...given }]])
      }),
    )
  })

  it('writes no value that could end the header line', () => {
    expect(refusalOf(() => formatAuthChallenge('UMA', { realm: 'a\r\nset-cookie: b' })).code).toBe(
      'temporarily_unavailable',
    )
    expect(refusalOf(() => formatAuthChallenge('UMA', { realm: 'é' })).status).toBe(503)
  })

  it('answers any line with challenges or a refusal, in time that grows with its length', () => {
    const pieces = fc.constantFrom(
      'UMA',
      ' ',
      ',',
      '=',
      '"',
      '\\',
      'a',
      '\t',
      'realm',
      '/',
      '+',
      '==',
      'é',
      '\n',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), given => {
        refusalOrValue(() => parseAuthChallenges([given.join('')]))
      }),
      { numRuns: 2000 },
    )
    const started = process.cpuUsage().user
    for (const piece of [' ', ',', ' ,', 'a', 'a=', '"\\', 'a ']) {
      refusalOrValue(() => parseAuthChallenges([piece.repeat(8000)]))
      refusalOrValue(() => parseAuthChallenges([`UMA ${piece.repeat(8000)}`]))
    }
    expect(process.cpuUsage().user - started).toBeLessThan(2_000_000)
  })
})

describeVectors<{
  challenge: { www_authenticate: { scheme: string; params: Record<string, string> } }
}>('uma2-examples.json', 'the challenge of UMA 2.0 Grant §3.2.1', ({ challenge }) => {
  it('is read and written as published', () => {
    const { scheme, params } = challenge.www_authenticate
    const line = `${scheme} realm="${params['realm']}", as_uri="${params['as_uri']}", ticket="${params['ticket']}"`
    expect(parsed(line)).toEqual([[scheme.toLowerCase(), params]])
    expect(formatAuthChallenge(scheme, params)).toBe(line)
  })
})
