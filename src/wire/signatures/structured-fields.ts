/**
 * Owns what Structured Fields (RFC 9651) need beyond the parser we depend on: the raw text of each dictionary
 * member, and the refusal of repeated keys. Contract: "Authentication" (request signatures); RFC 9421 §7.5
 * wants both, while SF parsing itself says "the last one wins".
 */
import {
  parseDictionary,
  serializeInnerList,
  serializeItem,
  type InnerList,
  type Item,
} from 'structured-headers'

/**
 * One dictionary member: its parsed value, and the text after `key=` (empty for a bare key, which means
 * true).
 */
export interface DictionaryMember {
  value: Item | InnerList
  raw: string
}

/**
 * The members of a dictionary field given as its field lines, in order; undefined when the text is not a
 * dictionary or uses a key or a parameter name twice. RFC 9651 §4.2: a field that does not parse counts as
 * absent.
 */
export function parseDictionaryField(lines: readonly string[]): Map<string, DictionaryMember> | undefined {
  const text = lines.length === 1 ? lines[0]! : lines.join(', ')
  const { members, parameterCount } = splitMembers(text)
  let dictionary
  try {
    dictionary = parseDictionary(text)
  } catch {
    return undefined
  }
  // The parsed map keeps one entry per key, and one per parameter name; the text may have had more.
  if (dictionary.size !== members.length && !(dictionary.size === 0 && text.trim() === '')) return undefined
  const result = new Map<string, DictionaryMember>()
  let parameters = 0
  let index = 0
  for (const [key, value] of dictionary) {
    parameters += countParameters(value)
    result.set(key, { value, raw: members[index++]!.slice(key.length + 1) })
  }
  return parameters === parameterCount ? result : undefined
}

/** Whether a member is an inner list rather than an item. */
export function isInnerList(member: Item | InnerList): member is InnerList {
  return Array.isArray(member[0])
}

/**
 * The strict serialisation of a dictionary member, as RFC 9421 §2.1.2 puts it in a signature base (true is
 * `?1`).
 */
export function serializeMember(member: Item | InnerList): string {
  return isInnerList(member) ? serializeInnerList(member) : serializeItem(member)
}

function countParameters(member: Item | InnerList): number {
  let count = member[1].size
  if (isInnerList(member)) for (const item of member[0]) count += item[1].size
  return count
}

/**
 * Cuts at the commas, and counts the semicolons, outside quoted strings. In a text the parser accepts these
 * are exactly the member and parameter separators: no other value may contain either character.
 */
function splitMembers(text: string): { members: string[]; parameterCount: number } {
  const members: string[] = []
  let parameterCount = 0
  let start = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) i = closingQuote(text, i)
    else if (code === 0x3b) parameterCount++
    else if (code === 0x2c) {
      members.push(trimWhitespace(text.slice(start, i)))
      start = i + 1
    }
  }
  members.push(trimWhitespace(text.slice(start)))
  return { members, parameterCount }
}

/**
 * The position at which the string that opens at `open` ends. In a display string, `%"…"`, a backslash has no
 * meaning.
 */
function closingQuote(text: string, open: number): number {
  const escapes = text.charCodeAt(open - 1) !== 0x25
  for (let i = open + 1; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code === 0x22) return i
    if (escapes && code === 0x5c) i++
  }
  return text.length
}

/** Removes the spaces and tabs around it (OWS, RFC 9110 §5.6.3); nothing else is blank in a field value. */
export function trimWhitespace(text: string): string {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text.charCodeAt(start))) start++
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--
  return start === 0 && end === text.length ? text : text.slice(start, end)
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09
}
