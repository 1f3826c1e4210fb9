/**
 * Owns reading typed members out of parsed JSON from others. Contract: "Resources and their fields": each
 * field has one type, and a parser that lets another through moves the fault to where nobody looks for it.
 *
 * Every reader refuses (`invalid_request`) with a sentence that names the member; only own members count.
 */
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { isLoopbackHost } from './loopback.ts'
import { refuse } from './refusal.ts'

/** Longest text accepted in one member, in UTF-16 units, where no other bound is given. */
const TEXT_LENGTH_MAX = 8192
/** Most items accepted in one list. */
const LIST_LENGTH_MAX = 256

const COMPACT_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

/** The member's value; undefined when absent. */
export function member(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

/** A value that must be an object; `what` names it in the sentence. */
export function asObject(value: unknown, what: string): JsonObject {
  return isJsonObject(value) ? value : refuse('invalid_request', `Give ${what} as a JSON object.`)
}

/** A member that must be an object. */
export function objectMember(object: JsonObject, name: string): JsonObject {
  return asObject(member(object, name), name)
}

/** A member that must be non-empty text. */
export function textMember(object: JsonObject, name: string): string {
  const value = member(object, name)
  if (typeof value !== 'string' || value === '' || value.length > TEXT_LENGTH_MAX) {
    refuse('invalid_request', `Give ${name} as non-empty text of at most ${TEXT_LENGTH_MAX} characters.`)
  }
  return value
}

/** A member that may be absent and otherwise must be non-empty text. */
export function optionalText(object: JsonObject, name: string): string | undefined {
  return member(object, name) === undefined ? undefined : textMember(object, name)
}

/** A member that must be a compact JWS, of any length: who parses it holds it to a bound. */
export function compactMember(object: JsonObject, name: string): string {
  const value = member(object, name)
  return typeof value === 'string' && COMPACT_FORM.test(value)
    ? value
    : refuse('invalid_request', `Give ${name} as a compact JWS.`)
}

/** A member that must be a list of non-empty texts; it may be empty, and may be absent where `optional`. */
export function textsMember(object: JsonObject, name: string, optional = false): string[] {
  const value = member(object, name)
  if (value === undefined && optional) return []
  if (!Array.isArray(value) || value.length > LIST_LENGTH_MAX || !value.every(isText)) {
    refuse('invalid_request', `Give ${name} as a list of at most ${LIST_LENGTH_MAX} non-empty texts.`)
  }
  return value
}

/** A member that must be a whole number from `min` up. */
export function integerMember(object: JsonObject, name: string, min = 0): number {
  const value = member(object, name)
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min) {
    refuse('invalid_request', `Give ${name} as a whole number, at least ${min}.`)
  }
  return value
}

/** A member that must be one of the words. */
export function wordMember<W extends string>(object: JsonObject, name: string, words: readonly W[]): W {
  const value = member(object, name)
  return (
    words.find(word => word === value) ?? refuse('invalid_request', `Give ${name} as ${words.join(' or ')}.`)
  )
}

/** A member that must be an absolute http or https URL without user information, fragment or blanks. */
export function urlMember(object: JsonObject, name: string): string {
  const value = textMember(object, name)
  return isWebUrl(value)
    ? value
    : refuse('invalid_request', `Give ${name} as an https URL without user information or fragment.`)
}

/** A member that may be absent and otherwise must be such a URL. */
export function optionalUrl(object: JsonObject, name: string): string | undefined {
  return member(object, name) === undefined ? undefined : urlMember(object, name)
}

/**
 * Whether the text is an absolute URL we would name a party or an endpoint by: https, or http to a literal
 * loopback host (whether that is ever reached is the outbound side's rule); printable ASCII; no user
 * information, fragment or backslash.
 */
export function isWebUrl(text: string): boolean {
  // Checked on the text and not on the parsed URL: the parser drops tabs, extra slashes, and turns `\` into
  // `/`.
  if (
    !/^https?:\/\/[A-Za-z0-9[][\x21-\x5b\x5d-\x7e]*$/.test(text) ||
    text.includes('#') ||
    !URL.canParse(text)
  )
    return false
  const url = new URL(text)
  if (/^https?:\/\/[^/?]*@/.test(text)) return false
  return url.protocol === 'https:' || isLoopbackHost(url.hostname)
}

/**
 * Whether a URL names its host without the dot of the root, with which it would be the same host of another
 * origin.
 */
export function isHostSpelledPlainly(url: string): boolean {
  return URL.parse(url)?.hostname.endsWith('.') === false
}

/**
 * Whether the text is an origin of such a URL, in its one spelling: lower case, no default port, names of
 * other scripts in their ASCII form.
 */
export function isBareOrigin(text: string): boolean {
  return isWebUrl(text) && new URL(text).origin === text && isHostSpelledPlainly(text)
}

function isText(value: Json): value is string {
  return typeof value === 'string' && value !== '' && value.length <= TEXT_LENGTH_MAX
}
