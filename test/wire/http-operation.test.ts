import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeOnce,
  decodeQuery,
  encodeQuery,
  expandPath,
  parsePathTemplate,
  templateShape,
} from '../../src/wire/resources/http-operation.ts'
import { refusalOf } from '../support/refusals.ts'

describe('A path template', () => {
  test('is plain segments and whole-segment parameters', () => {
    expect(parsePathTemplate('/accounts/{account}/orders:cancel')).toEqual([
      { literal: 'accounts' },
      { parameter: 'account' },
      { literal: 'orders:cancel' },
    ])
    expect(parsePathTemplate('')).toEqual([])
    expect(parsePathTemplate('/accounts/')).toEqual([{ literal: 'accounts' }, { literal: '' }])
    expect(templateShape('/Accounts/{id}')).toBe(templateShape('/accounts/{account}'))
  })

  test.each([
    'accounts',
    '/a//b',
    '/./a',
    '/a/..',
    '/{a}/{a}',
    '/a{b}',
    '/{a',
    '/{}',
    '/{1a}',
    '/a%20b',
    '/a b',
    '/é',
    '/a;b',
    '/a?b',
  ])('is not %s', text => {
    expect(refusalOf(() => parsePathTemplate(text)).code).toBe('invalid_request')
  })

  test('becomes a path with its values, encoded as one segment each', () => {
    expect(expandPath('/accounts/{account}', { account: 'a b;é%2f' })).toBe('/accounts/a%20b%3B%C3%A9%252f')
    expect(expandPath('', {})).toBe('')
  })

  test.each([
    {},
    { account: '' },
    { account: '.' },
    { account: '..' },
    { account: 'a/b' },
    { account: 'a\\b' },
    { account: '\0' },
    { account: '\ud800' },
    { account: '1', other: '2' },
  ])('takes no values such as %j', values => {
    expect(refusalOf(() => expandPath('/accounts/{account}', values)).code).toBe('invalid_request')
  })
})

describe('A query', () => {
  test('is values by name, in order, decoded once', () => {
    expect(decodeQuery('b=2&a=%2541&b=%C3%A9&&__proto__=x')).toEqual({
      values: Object.fromEntries([
        ['b', ['2', 'é']],
        ['a', ['%41']],
        ['__proto__', ['x']],
      ]),
    })
    expect(decodeQuery('')).toEqual({ values: {} })
  })

  test.each(['a=b+c', 'a=1;b=2', 'a', 'a=1&b', 'a=%00'])('that is %s could be read in another way', query => {
    expect(decodeQuery(query).ambiguity).toEqual(expect.any(String))
  })

  test.each(['a=%ff', '%c3=1', 'a=%ed%a0%80'])('that is %s is refused', query => {
    expect(refusalOf(() => decodeQuery(query)).code).toBe('invalid_request')
  })

  test('comes back as it was encoded, whatever it says, and unambiguously', () => {
    const text = fc.string({ unit: 'binary' }).map(one => one.replaceAll('\0', ''))
    const values = fc.dictionary(text, fc.array(text, { minLength: 1, maxLength: 3 }), { minKeys: 1 })
    fc.assert(
      fc.property(values, given => {
        expect(decodeQuery(encodeQuery(given))).toEqual({ values: { ...given } })
      }),
    )
  })

  test('is read as URLSearchParams reads it, but for what is no UTF-8', () => {
    const piece = fc.constantFrom('a', 'b', '=', '&', '+', '%20', '%C3%A9', '%25', 'x')
    fc.assert(
      fc.property(
        fc.array(piece).map(pieces => pieces.join('')),
        query => {
          const { values } = decodeQuery(query)
          const expected = new URLSearchParams(query)
          expect(values).toEqual(
            Object.fromEntries([...new Set(expected.keys())].map(name => [name, expected.getAll(name)])),
          )
        },
      ),
    )
  })

  test('decodes escapes once', () => {
    expect(decodeOnce('%252e')).toBe('%2e')
  })
})
