/**
 * Owns values of a call that are made to be read as something else: markup, marks that nobody sees or that
 * turn the order of reading, letters that look alike, and more of anything than a page has room for.
 */
import { canonicalize, type Json } from '../../src/wire/json.ts'

const MARKUP = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '"><svg onload=alert(1)>',
  "';alert(1)//",
  '<a href="javascript:alert(1)">Approve</a>',
  '<b>approved</b>',
  '</dd></dl><h1>Approved</h1>',
  '<iframe srcdoc="x">',
  '{{constructor.constructor("alert(1)")()}}',
  '${alert(1)}',
  '&lt;b&gt;',
  '<!--',
  ']]>',
  'javascript:alert(1)',
  'data:text/html,<script>alert(1)</script>',
  '<style>*{display:none}</style>',
]
const UNSEEN = (
  '200b 200c 200d 200e 200f 202a 202b 202c 202d 202e 2060 2066 2067 2068 2069 feff 00ad 061c 180e 2028 2029 ' +
  '115f 3164 ffa0 2800 e000 e0041 0007 001b 0085 034f 180b 2065 fe00 fe0f fff0 e0100 e01ef'
).split(' ')
const LOOKALIKES = [
  'p\u0430ypal',
  '\u0410pple',
  'g\u03bfogle',
  'b\u0430nk',
  'al\u0456ce',
  'VT\u0406',
  'US\u0501',
  'e\u0445ample',
]
const MUCH = ['a', '\u0645', '\u6f22', 'ab ', '\u{1f4b8}', '0', 'W', '-', 'e\u0301', '\n']
const EMOJI = [
  '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}',
  '\u{1f1e9}\u{1f1ea}',
  '\u2705 Approved',
  '1\ufe0f\u20e3',
  '\u{1f3f4}',
  '\u26a0\ufe0f',
  '\u{1f512} verified',
  '\u{1f4b0}',
]
const NUMBERS = [
  0, -0.5, 1e21, 1e-7, 9007199254740991, -1, 0.1, 1.7976931348623157e308, 5e-324, 100000, 1e5, 12345.678,
]
const RIGHT_TO_LEFT = [
  '\u05e9\u05dc\u05d5\u05dd',
  '\u0645\u0631\u062d\u0628\u0627 100',
  'abc \u05d0 123',
  '\u0661\u0662\u0663',
]
const STACKED = ['Z\u0300\u0301\u0302\u0303\u0304\u0305', 'a\u0489\u0489\u0489\u0489\u0489']
const OTHERS: Json[] = [
  null,
  true,
  '',
  ' ',
  [],
  {},
  [[[[[[1]]]]]],
  { a: { b: { c: { d: 'e' } } } },
  'null',
  '0',
  'true',
  '[]',
]

/** Each is one parameter. */
export const HOSTILE: readonly Json[] = [
  ...MARKUP,
  ...UNSEEN.map(code => `pay${String.fromCodePoint(Number.parseInt(code, 16))}load`),
  ...LOOKALIKES,
  ...MUCH.map(text => text.repeat(600)),
  ...EMOJI,
  ...NUMBERS,
  ...RIGHT_TO_LEFT,
  ...STACKED,
  ...OTHERS,
]

/** All of them as the parameters of one call. */
export function hostileParameters(): Record<string, Json> {
  return Object.fromEntries(HOSTILE.map((value, place) => [`p${place}`, value]))
}

/** One hostile request: what its agent says, what it calls, and what that would show. */
export interface HostileCard {
  reason: string
  params: Json
}

/**
 * A card of its own for each value: as a parameter, as the name of one, deep within others, and, if it is a
 * text, as the agent's own words.
 */
export const HOSTILE_CARDS: readonly HostileCard[] = HOSTILE.map((value, place) => {
  const text = typeof value === 'string' ? value : canonicalize(value)
  return {
    reason: Array.from(text).slice(0, 100).join('') || 'none',
    params: { amount: place, [text.slice(0, 120)]: value, deep: nested(value, (place % 12) + 1) },
  }
})

function nested(value: Json, depth: number): Json {
  return depth === 0 ? value : depth % 2 === 0 ? [nested(value, depth - 1)] : { in: nested(value, depth - 1) }
}
