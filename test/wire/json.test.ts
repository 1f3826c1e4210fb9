import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  canonicalize,
  JSON_DEPTH_MAX,
  parseJson,
  parseJsonExact,
  parseJsonObject,
  type Json,
} from '../../src/wire/json.ts'
import { refusalOf, refusalOrValue } from '../support/refusals.ts'
import { describeVectors } from '../support/vectors.ts'

/** Any JSON value whose texts are well-formed; keys include the names that trip objects up. */
const anyJson = fc.letrec<{ json: Json }>(tie => ({
  json: fc.oneof(
    { depthSize: 'medium', maxDepth: 8 },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'grapheme' }),
    fc.array(tie('json')),
    fc.dictionary(
      fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('__proto__', 'constructor', 'toJSON', '')),
      tie('json'),
    ),
  ),
})).json

/** The same value with blanks, escapes and other spellings of numbers, as another writer would send it. */
function respell(json: Json, seed: number): string {
  if (typeof json === 'string') return seed % 2 === 0 ? JSON.stringify(json) : escaped(json)
  if (typeof json === 'number') return seed % 3 === 0 ? json.toExponential() : String(json)
  if (json === null || typeof json !== 'object') return String(json)
  if (Array.isArray(json)) return `[ ${json.map(item => respell(item, seed + 1)).join(' ,\t')}]`
  return `{${Object.keys(json)
    .map(key => `\n${respell(key, seed)} :${respell(json[key]!, seed + 1)}`)
    .join(',')}\r\n}`
}

function escaped(text: string): string {
  return `"${text
    .split('')
    .map(unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')}"`
}

const wellFormed = anyJson.filter(
  json => JSON.stringify(json).isWellFormed() && !JSON.stringify(json).includes('\\ud'),
)

describe('parseJson', () => {
  it('reads what JSON.parse reads, if no member is repeated', () => {
    fc.assert(
      fc.property(wellFormed, fc.nat(5), (json, seed) => {
        const text = respell(json, seed)
        const expected = JSON.stringify(JSON.parse(text))
        expect(JSON.stringify(parseJson(text))).toBe(expected)
        expect(JSON.stringify(parseJson(Buffer.from(text)))).toBe(expected)
      }),
    )
  })

  it('throws nothing but a refusal, whatever the bytes', () => {
    const nearJson = fc.string({
      unit: fc.constantFrom(...'{}[]":,\\u0d81eE+-. \ntruefalsn'.split('')),
      maxLength: 40,
    })
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array(), nearJson, fc.string({ unit: 'binary' })), source => {
        const result = refusalOrValue(() => parseJson(source))
        if ('refusal' in result) expect(result.refusal.code).toBe('invalid_request')
      }),
      { numRuns: 3000 },
    )
  })

  it('refuses a member named twice, wherever it is and however it is spelt', () => {
    const place = fc.record({
      before: wellFormed,
      after: wellFormed,
      key: fc.string({ unit: 'grapheme' }),
      depth: fc.nat(5),
    })
    fc.assert(
      fc.property(place, fc.boolean(), ({ before, after, key, depth }, escape) => {
        const again = escape ? escaped(key) : JSON.stringify(key)
        const object = `{${JSON.stringify(key)}:${JSON.stringify(before)},${again}:${JSON.stringify(after)}}`
        const text = '[{"x":'.repeat(depth) + object + '}]'.repeat(depth)
        expect(refusalOf(() => parseJson(text)).code).toBe('invalid_request')
      }),
    )
  })

  it.each([
    ['a member repeated inside one that is repeated', '{"a":{"b":1,"b":2},"a":1}'],
    ['a repeated __proto__', '{"__proto__":1,"__proto__":2}'],
    ['a second document', '{} {}'],
    ['text after the document', '{}x'],
    ['a byte order mark', '\ufeff{}'],
    ['nothing', ''],
    ['a comment', '{}//'],
    ['a trailing comma', '[1,]'],
    ['a leading zero', '[01]'],
    ['NaN', '[NaN]'],
    ['a number beyond a double', '[1e400]'],
    ['half a surrogate pair, escaped', '["\\ud800"]'],
    ['half a surrogate pair as a member name', '{"\\uDEAD":1}'],
    ['half a surrogate pair, raw', '["\ud800"]'],
    ['a line feed in a string', '["\n"]'],
  ])('refuses %s', (_, text) => {
    expect(refusalOf(() => parseJson(text)).code).toBe('invalid_request')
  })

  it.each([
    ['Latin-1', Buffer.from('["é"]', 'latin1')],
    ['an overlong encoding', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['a byte order mark', Buffer.from('\ufeff{}')],
    ['UTF-16', Buffer.from('{}', 'utf16le')],
    ['a sequence cut off', Buffer.from('["é"]').subarray(0, 3)],
  ])('refuses bytes in %s', (_, bytes) => {
    expect(refusalOf(() => parseJson(bytes)).code).toBe('invalid_request')
  })

  it('accepts nesting of 64 and refuses 65, and a megabyte of brackets', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    parseJson(nested(JSON_DEPTH_MAX))
    refusalOf(() => parseJson(nested(JSON_DEPTH_MAX + 1)))
    refusalOf(() => parseJson('{"a":'.repeat(JSON_DEPTH_MAX + 1)))
    refusalOf(() => parseJson('['.repeat(1 << 20)))
    parseJson(JSON.stringify(['['.repeat(100), '{":'.repeat(100)]))
  })

  it.each(['{"a\\\\":1,"b":2}', '{"a\\"":1}', '{"a\\\\\\"":":","b":"\\\\"}', '{":":{"::":"\\":"}}'])(
    'is not misled by the text %s',
    text => {
      expect(parseJson(text)).toEqual(JSON.parse(text))
    },
  )

  it('keeps __proto__ as a member and nobody inherits from it', () => {
    const value = parseJsonObject('{"__proto__":{"admin":true}}')
    expect(Object.keys(value)).toEqual(['__proto__'])
    expect(value['admin']).toBeUndefined()
    expect(canonicalize(value)).toBe('{"__proto__":{"admin":true}}')
  })

  it('reads bytes from the middle of a larger buffer', () => {
    expect(parseJson(new Uint8Array(Buffer.from('xx[1]xx')).subarray(2, 5))).toEqual([1])
  })

  it.each(['[]', 'null', '1', '"{}"'])('refuses %s where an object is asked for', text => {
    expect(refusalOf(() => parseJsonObject(text)).code).toBe('invalid_request')
  })
})

describe('parseJsonExact', () => {
  it.each([
    ['9007199254740993', '[1,"9007199254740993",9007199254740993,9007199254740995]'],
    ['0.1000000000000000055511151231257827', '{"a":0.1000000000000000055511151231257827}'],
    ['333333333.33333329', '[333333333.33333329]'],
    ['1e-400', '[1e-400]'],
    ['-123456789012345678', '[-123456789012345678]'],
  ])('names %s, which a double cannot carry', (literal, text) => {
    expect(parseJsonExact(text).inexactNumber).toBe(literal)
  })

  it.each([
    '[9007199254740992]',
    '[0.1, 1.50, -0, 0e5, 1E30, 5e-324, 0.000]',
    '["0.10000000000000000000001"]',
    '[100000000000000000000000]',
  ])('finds every number of %s exact', text => {
    expect(parseJsonExact(text).inexactNumber).toBeUndefined()
  })

  it('finds every double exact as JavaScript prints it', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), number => {
        expect(parseJsonExact(JSON.stringify([number, 'a"1e-999'])).inexactNumber).toBeUndefined()
        expect(parseJsonExact(`[${number.toExponential()}]`).inexactNumber).toBeUndefined()
      }),
    )
  })

  it('finds every whole number exact that survives, and no other', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }), integer => {
        const survives =
          BigInt(Number(integer)) === integer &&
          BigInt(String(Number(integer)).replace(/[.e].*/, '')) === integer
        if (survives) expect(parseJsonExact(`[${integer}]`).inexactNumber).toBeUndefined()
        if (BigInt(Number(integer)) !== integer)
          expect(parseJsonExact(`[${integer}]`).inexactNumber).toBe(String(integer))
      }),
    )
  })

  it.each([
    ['zeros inside a number', `[1${'0'.repeat(500_000)}1e-500001]`],
    ['digits in an exponent', `[1e-${'9'.repeat(500_000)}]`],
    ['backslashes', JSON.stringify('\\"'.repeat(250_000))],
    ['numbers', `[${'0.12345678901234567,'.repeat(50_000)}1]`],
  ])('takes time in proportion to half a million %s', (_, text) => {
    const start = process.cpuUsage().user
    parseJsonExact(text)
    expect(process.cpuUsage().user - start).toBeLessThan(2_000_000)
  })
})

describe('canonicalize', () => {
  it('is one text per value: parsing it again gives the value, and canonicalizing that the text', () => {
    fc.assert(
      fc.property(wellFormed, fc.nat(5), (json, seed) => {
        const text = canonicalize(parseJson(respell(json, seed)))
        expect(text).toBe(canonicalize(json))
        expect(canonicalize(parseJson(text))).toBe(text)
      }),
    )
  })

  it('does not see the order of members', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.integer()), object => {
        expect(canonicalize(Object.fromEntries(Object.entries(object).reverse()))).toBe(canonicalize(object))
      }),
    )
  })

  it('writes the sample of RFC 8785 section 3.2.2', () => {
    const input =
      '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
    expect(canonicalize(parseJson(input))).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
  })

  it.each([[Number.NaN], [Number.POSITIVE_INFINITY], ['\ud800'], [{ '\ud800': 1 }]])('refuses %j', json => {
    expect(refusalOf(() => canonicalize(json as Json)).code).toBe('invalid_request')
  })

  it.each([
    ['undefined', undefined],
    ['a function', () => 1],
    ['a bigint', 1n],
    ['a date', new Date(0)],
    ['a map', new Map()],
    ['a value with toJSON', { toJSON: () => 1 }],
    ['an undefined member', { a: undefined }],
    ['a hole', [undefined]],
  ])('takes %s for a fault of ours', (_, value) => {
    expect(() => canonicalize(value as unknown as Json)).toThrow(TypeError)
  })

  it('refuses nesting over 64', () => {
    let json: Json = 1
    for (let i = 0; i < JSON_DEPTH_MAX; i++) json = [json]
    canonicalize(json)
    refusalOf(() => canonicalize([json]))
  })
})

interface CanonicalVectors {
  sample: { input: string; canonical_hex: string }
  sort: { input: string; value_order: string[] }
  numbers: { ieee754: string; json: string | null; comment: string }[]
  testdata: { name: string; input: string; outhex: string }[]
}

describeVectors<CanonicalVectors>('rfc8785.json', 'RFC 8785', data => {
  const canonicalHex = (input: string) => Buffer.from(canonicalize(parseJson(input))).toString('hex')

  it('writes the sample', () => {
    expect(canonicalHex(data.sample.input)).toBe(data.sample.canonical_hex)
  })

  it('sorts members by UTF-16 code units', () => {
    const sorted = JSON.parse(canonicalize(parseJson(data.sort.input))) as Record<string, string>
    const text = canonicalize(parseJson(data.sort.input))
    const places = data.sort.value_order.map(value => text.indexOf(JSON.stringify(value)))
    expect(Object.values(sorted)).toHaveLength(places.length)
    expect(places).toEqual(places.toSorted((a, b) => a - b))
  })

  it.each(data.numbers)('writes or refuses the double $ieee754 ($comment)', ({ ieee754, json }) => {
    const double = Buffer.from(ieee754, 'hex').readDoubleBE()
    if (json === null) refusalOf(() => canonicalize(double))
    else expect(canonicalize(double)).toBe(json)
  })

  it.each(data.testdata)('writes the file $name', ({ input, outhex }) => {
    expect(canonicalHex(input)).toBe(outhex)
  })
})
