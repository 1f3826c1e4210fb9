/**
 * Owns JSON from outside and its canonical form. Contract: "Agreement (claim_token, beat 3)" and "RPT
 * claims": hashed, signed or authorized JSON must mean one thing to every reader, so anything that two
 * parsers could read differently is refused (RFC 7493, I-JSON), and hashes are taken over RFC 8785.
 */
import { isUtf8 } from 'node:buffer'
import { refuse } from './refusal.ts'

export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [member: string]: Json
}

/** A value of JSON that is written as its text says. ECMAScript has it; TypeScript does not know it yet. */
export const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => Json }

/** `JSON.parse`, with the text of each number for `reviver`. TypeScript does not know that yet either. */
export const parseWithSource = JSON.parse as (
  text: string,
  reviver: (name: string, value: Json, context: { source?: string }) => Json,
) => Json

/** The deepest nesting that is accepted, counting the outermost array or object as one. */
export const JSON_DEPTH_MAX = 64

/**
 * The value of one JSON document. Refuses (`invalid_request`) bytes that are not UTF-8, a byte order mark,
 * anything after the document, a member named twice in one object, nesting over 64, a number outside the
 * range of a double, and half a surrogate pair. `__proto__` is an ordinary own member of the result.
 */
export function parseJson(source: Uint8Array | string): Json {
  return parseText(decodeText(source))
}

/**
 * `parseJson`, and the text of the first number whose exact decimal value differs from what its double prints
 * as (undefined if there is none): `9007199254740993` would be hashed and shown as `9007199254740992`.
 */
export function parseJsonExact(source: Uint8Array | string): {
  value: Json
  inexactNumber: string | undefined
} {
  const text = decodeText(source)
  return { value: parseText(text), inexactNumber: inexactNumberIn(text) }
}

/** Why a number is refused that a double does not carry unchanged; `literal` is its text. */
export function inexactSentence(literal: string): string {
  return `Send numbers that a double carries unchanged: ${literal.slice(0, 40)} would be read as another.`
}

/** `parseJson`, or undefined for what it refuses. */
export function jsonIn(source: Uint8Array | string): Json | undefined {
  try {
    return parseJson(source)
  } catch {
    return undefined
  }
}

/** `parseJson` for a document that must be an object. */
export function parseJsonObject(source: Uint8Array | string): JsonObject {
  const value = parseJson(source)
  if (!isJsonObject(value)) refuse('invalid_request', 'Send a JSON object.')
  return value
}

/** Whether a parsed value is an object: not null, not an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The RFC 8785 canonical text. Refuses (`invalid_request`) NaN, infinities, half surrogate pairs and nesting
 * over 64. Throws TypeError for a value that never came from JSON (undefined, a function, a Date), because
 * that is a fault of ours.
 */
export function canonicalize(json: Json): string {
  return canonical(json, 1)
}

function canonical(json: Json, depth: number): string {
  switch (typeof json) {
    case 'string':
      return canonicalString(json)
    case 'number':
      if (!Number.isFinite(json)) refuse('invalid_request', 'Send only finite numbers.')
      return String(json) // RFC 8785 §3.2.2.3 is ECMAScript's own rule; -0 prints as 0
    case 'boolean':
      return json ? 'true' : 'false'
    default:
      return json === null ? 'null' : canonicalComposite(json, depth)
  }
}

function canonicalComposite(json: Json[] | JsonObject, depth: number): string {
  if (typeof json !== 'object') throw new TypeError(`no JSON value: ${typeof json}`)
  if (depth > JSON_DEPTH_MAX) refuseDepth()
  if (Array.isArray(json)) {
    let items = ''
    for (let i = 0; i < json.length; i++) items += (i === 0 ? '' : ',') + canonical(json[i]!, depth + 1)
    return `[${items}]`
  }
  const prototype: unknown = Object.getPrototypeOf(json)
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError('no JSON value: not a plain object')
  let members = ''
  // The default sort is by UTF-16 code units, which is RFC 8785 §3.2.3.
  for (const key of Object.keys(json).sort()) {
    members += `${members === '' ? '' : ','}${canonicalString(key)}:${canonical(json[key]!, depth + 1)}`
  }
  return `{${members}}`
}

function canonicalString(text: string): string {
  if (!text.isWellFormed()) refuseSurrogate()
  return JSON.stringify(text)
}

function decodeText(source: Uint8Array | string): string {
  if (typeof source === 'string') {
    if (!source.isWellFormed()) refuseSurrogate()
    return source
  }
  if (!isUtf8(source)) refuse('invalid_request', 'Send JSON in UTF-8.')
  const bytes = Buffer.isBuffer(source)
    ? source
    : Buffer.from(source.buffer, source.byteOffset, source.byteLength)
  return bytes.toString('utf8')
}

function parseText(text: string): Json {
  const memberCount = scan(text)
  let value: Json
  try {
    // JSON.parse treats a byte order mark as a syntax error, like any text after the document
    value = JSON.parse(text) as Json
  } catch (cause) {
    refuse('invalid_request', 'Send one well-formed JSON document, in UTF-8 without a byte order mark.', {
      cause,
    })
  }
  // Only an escape can still bring in half a surrogate pair: the raw text was well-formed.
  const checkText = text.includes('\\ud') || text.includes('\\uD')
  // JSON.parse keeps the last of two members of one name, so a repeated name leaves fewer members than there
  // were colons.
  if (countMembers(value, checkText) !== memberCount) {
    refuse('invalid_request', 'Name each member of a JSON object once.')
  }
  return value
}

/**
 * Counts the colons outside strings, and bounds the nesting before anything is built. It need not handle bad
 * JSON.
 */
function scan(text: string): number {
  let memberCount = 0
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) i = closingQuote(text, i)
    else if (code === 0x3a) memberCount++
    else if (code === 0x7b || code === 0x5b) {
      if (++depth > JSON_DEPTH_MAX) refuseDepth()
    } else if (code === 0x7d || code === 0x5d) depth--
  }
  return memberCount
}

/** The index of the quote that ends the string opened at `open`, or the end of the text. */
function closingQuote(text: string, open: number): number {
  let quote = open
  for (;;) {
    quote = text.indexOf('"', quote + 1)
    if (quote < 0) return text.length
    let backslashes = 0
    while (text.charCodeAt(quote - 1 - backslashes) === 0x5c) backslashes++
    if (backslashes % 2 === 0) return quote
  }
}

function countMembers(value: Json, checkText: boolean): number {
  if (typeof value === 'string') {
    if (checkText && !value.isWellFormed()) refuseSurrogate()
    return 0
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) refuse('invalid_request', 'Send numbers within the range of a double.')
    return 0
  }
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) count += countMembers(item, checkText)
    return count
  }
  for (const key of Object.keys(value)) {
    if (checkText && !key.isWellFormed()) refuseSurrogate()
    count += 1 + countMembers(value[key]!, checkText)
  }
  return count
}

const NUMBER = /[\d.eE+-]+/y

/** The first number of a JSON text (one that a parser took) that a double does not carry unchanged. */
export function inexactNumberIn(text: string): string | undefined {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) i = closingQuote(text, i)
    else if (code === 0x2d || (code >= 0x30 && code <= 0x39)) {
      NUMBER.lastIndex = i
      const literal = NUMBER.exec(text)![0]
      if (!isExact(literal)) return literal
      i += literal.length - 1
    }
  }
  return undefined
}

function isExact(literal: string): boolean {
  // Any decimal of at most 15 significant digits survives a double; only an exponent could take it out of
  // range.
  if (literal.length <= 15 && !/[eE]/.test(literal)) return true
  const value = Number(literal)
  if (!Number.isFinite(value)) return false
  if (value === 0) return !/[1-9]/.test(literal.split(/[eE]/, 1)[0]!)
  return decimal(literal) === decimal(String(value))
}

/** One spelling per decimal value other than zero: sign, significant digits, power of ten of the last one. */
function decimal(literal: string): string {
  const [, sign, whole, fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(
    literal,
  )!
  const digits = whole! + fraction
  let start = 0
  let end = digits.length
  // Loops, not patterns: /0+$/ takes quadratic time over a long run of zeros that does not end the text.
  while (digits.charCodeAt(start) === 0x30) start++
  while (digits.charCodeAt(end - 1) === 0x30) end--
  const power = Number(exponent) - fraction.length + digits.length - end
  return `${sign}${digits.slice(start, end)}e${power}`
}

function refuseDepth(): never {
  refuse('invalid_request', `Nest JSON at most ${JSON_DEPTH_MAX} deep.`)
}

function refuseSurrogate(): never {
  refuse('invalid_request', 'Send text as Unicode: half of a surrogate pair is no character.')
}
