/**
 * Owns reading typed members out of parsed JSON from others. Contract: "Resources and their fields": each
 * field has one type. A parser that lets another type through would move the fault to a place where nobody
 * looks for it.
 *
 * Every reader refuses (`invalid_request`) with a sentence that names the member; only own members count.
 */
import { isJsonObject, type Json, type JsonObject } from './json.ts'
import { isPossibleHost } from './hosts.ts'
import { isLoopbackHost } from './loopback.ts'
import { refuse } from './refusal.ts'

/** The longest text that is accepted in one member, in UTF-16 units, if no other limit is given. */
const TEXT_LENGTH_MAX = 8192
/** How many items one list may have. */
const LIST_LENGTH_MAX = 256

const DIGEST = /^s256:[A-Za-z0-9_-]{43}$/
const COMPACT_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

/** The member's value; undefined when absent. */
export function member(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

/** The place of a member in a document: `owners[0].name`. */
export function memberPath(path: readonly PropertyKey[]): string {
  return path
    .map((step, i) => (typeof step === 'number' ? `[${step}]` : `${i === 0 ? '' : '.'}${String(step)}`))
    .join('')
}

/** A value that must be an object; `what` names it in the sentence. */
export function asObject(value: unknown, what: string): JsonObject {
  return isJsonObject(value) ? value : refuse('invalid_request', `Give ${what} as a JSON object.`)
}

/**
 * The members of an object that are there: many programs write null where a member is optional and absent, so
 * documents of others are read as if it were left out.
 */
export function present(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null))
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

/** Three bytes for each at most: two of them, an owner and a URL fit into one index. */
const ID = /^[^\p{Cc}]{1,255}$/u

/**
 * A member by which others name one thing, such as `jti`, `negotiation` or a thumbprint: at most 255
 * characters, none of them a control character, because such a name is a key wherever it is remembered.
 */
export function idMember(object: JsonObject, name: string): string {
  const value = member(object, name)
  return typeof value === 'string' && value.length <= 255 && ID.test(value)
    ? value
    : refuse('invalid_request', `Give ${name} in 1 to 255 characters, none of them a control character.`)
}

/** A member that must be a list of 1 to `most` such names. */
export function idsMember(object: JsonObject, name: string, most: number): string[] {
  const value = member(object, name)
  const isList = Array.isArray(value) && value.length >= 1 && value.length <= most
  if (!isList) refuse('invalid_request', `Give ${name} as a list of 1 to ${most} names.`)
  return value.map(id => idMember({ [name]: id }, name))
}

/** A member that must be non-empty text that a database can hold: without NUL. */
export function storableMember(object: JsonObject, name: string, most = TEXT_LENGTH_MAX): string {
  const value = textMember(object, name)
  if (value.length > most || value.includes('\0'))
    refuse('invalid_request', `Give ${name} in at most ${most} characters, without NUL.`)
  return value
}

/** A member that must be a digest as we write one: `s256:` and 43 characters of base64url. */
export function digestMember(object: JsonObject, name: string): string {
  const value = member(object, name)
  return typeof value === 'string' && DIGEST.test(value)
    ? value
    : refuse('invalid_request', `Give ${name} as s256: and the digest in base64url.`)
}

/** A text, or null. */
export function textOrNull(object: JsonObject, name: string): string | null {
  return member(object, name) === null ? null : textMember(object, name)
}

/** A member that may be absent and otherwise must be non-empty text. */
export function optionalText(object: JsonObject, name: string): string | undefined {
  return member(object, name) === undefined ? undefined : textMember(object, name)
}

/** A member that must be a compact JWS, of any length: its parser limits the length. */
export function compactMember(object: JsonObject, name: string): string {
  const value = member(object, name)
  return typeof value === 'string' && isCompact(value)
    ? value
    : refuse('invalid_request', `Give ${name} as a compact JWS.`)
}

/** Whether the text has the form of a compact JWS. */
export function isCompact(text: string): boolean {
  return COMPACT_FORM.test(text)
}

/** A member that must be a list of non-empty texts; it may be empty, and may be absent if `optional`. */
export function textsMember(
  object: JsonObject,
  name: string,
  optional = false,
  most = LIST_LENGTH_MAX,
): string[] {
  const value = member(object, name)
  if (value === undefined && optional) return []
  if (!Array.isArray(value) || value.length > most || !value.every(isText)) {
    refuse('invalid_request', `Give ${name} as a list of at most ${most} non-empty texts.`)
  }
  return value
}

/** A member that must be a whole number of at least `min`. */
export function integerMember(object: JsonObject, name: string, min = 0): number {
  const value = member(object, name)
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min) {
    refuse('invalid_request', `Give ${name} as a whole number, at least ${min}.`)
  }
  return value
}

/** A member that must be true or false. */
export function booleanMember(object: JsonObject, name: string): boolean {
  const value = member(object, name)
  return typeof value === 'boolean' ? value : refuse('invalid_request', `Give ${name} as true or false.`)
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
 * Whether the text is an absolute URL that may name a party or an endpoint: https, or http to a literal
 * loopback host (the outbound side decides whether that is ever reached); printable ASCII; a host that may
 * stand in DNS; no user information, fragment or backslash.
 */
export function isWebUrl(text: string): boolean {
  // The text is checked and not the parsed URL, because the parser drops tabs and extra slashes, and turns
  // `\` into `/`.
  if (
    !/^https?:\/\/[A-Za-z0-9[][\x21-\x5b\x5d-\x7e]*$/.test(text) ||
    text.includes('#') ||
    !URL.canParse(text)
  )
    return false
  const url = new URL(text)
  if (/^https?:\/\/[^/?]*@/.test(text) || !isPossibleHost(url.hostname)) return false
  return url.protocol === 'https:' || isLoopbackHost(url.hostname)
}

/**
 * Whether a URL names its host without the dot of the root. With the dot, the host would be the same, but the
 * origin another.
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
