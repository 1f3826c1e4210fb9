/**
 * Owns which resources a pattern of a charter names, and when one pattern lies within another or overlaps
 * with it. Contract: "The organization's authority" and "What the service does" (the organization may only
 * narrow): a group never gets more than the organization claims.
 */

/** Visible ASCII without characters that do not occur in ids; `/` separates segments. */
const FORM = /^[\x21-\x7e]{1,256}$/

/** Why a text is not a pattern, as the end of a sentence; undefined if it is one. */
export function patternFault(text: string): string | undefined {
  if (!FORM.test(text)) return 'give a pattern of 1 to 256 visible ASCII characters'
  if (text.split('/').some(segment => segment === '')) return 'give a pattern without empty segments'
  return undefined
}

/**
 * Why a text is no claim: like `patternFault`; in addition, its first segment must literally name the owner
 * of the resources.
 */
export function claimFault(text: string): string | undefined {
  const fault = patternFault(text)
  if (fault !== undefined) return fault
  const [first, ...rest] = text.split('/')
  return first!.includes('*') || rest.length === 0
    ? 'give a claim whose first segment is literal, and at least one more segment'
    : undefined
}

/**
 * Whether a pattern names a resource id: code point by code point, as many segments, and `*` for any
 * characters of one segment, or for none. Ids are opaque, and never decoded.
 */
export function patternMatches(pattern: string, id: string): boolean {
  // Mostly they differ before the first `*`, so nothing needs to be split.
  const star = pattern.indexOf('*')
  if (star < 0) return pattern === id
  if (!id.startsWith(pattern.slice(0, star))) return false
  return splitPattern(pattern).matches(id.split('/'))
}

/**
 * Whether one of the patterns names a resource id, each as in `patternMatches`. Each pattern is taken apart
 * once, and what is known of an id is kept, because a charter of 200 claims is asked about each of a
 * thousand resources, several times.
 */
export function namedBy(patterns: readonly string[]): (id: string) => boolean {
  let names = BY_LIST.get(patterns)
  if (names !== undefined) return names
  // Each reading of a record makes new lists; the members of a group have equal ones.
  const text = patterns.join('\n')
  names = BY_TEXT.get(text) ?? memoize(anyOf(patterns))
  bounded(BY_TEXT, LISTS_MAX).set(text, names)
  BY_LIST.set(patterns, names)
  return names
}

type Names = (id: string) => boolean
const BY_LIST = new WeakMap<readonly string[], Names>()
const BY_TEXT = new Map<string, Names>()
const LISTS_MAX = 32
const IDS_MAX = 4_096

/** The map with room for one more: it is emptied if it is full. */
function bounded<Value>(map: Map<string, Value>, sizeMax: number): Map<string, Value> {
  if (map.size >= sizeMax) map.clear()
  return map
}

function memoize(names: Names): Names {
  const known = new Map<string, boolean>()
  return id => {
    let isNamed = known.get(id)
    if (isNamed === undefined) bounded(known, IDS_MAX).set(id, (isNamed = names(id)))
    return isNamed
  }
}

function anyOf(patterns: readonly string[]): Names {
  const literal = new Set(patterns.filter(pattern => !pattern.includes('*')))
  const wild = patterns.filter(pattern => pattern.includes('*')).map(splitPattern)
  return id => {
    if (literal.has(id)) return true
    const segments = id.split('/')
    return wild.some(({ prefix, matches }) => id.startsWith(prefix) && matches(segments))
  }
}

/**
 * Those of `patterns` that one of `list` covers: names everything that the pattern names. Each `*` of a
 * pattern is replaced by one character that occurs nowhere: only a `*` of the list can match that character,
 * and a `*` that matches it matches any other text in its place. Mostly it is the same pattern, so it is
 * looked up first.
 */
export function coveredBy(list: readonly string[], patterns: readonly string[]): string[] {
  const literally = new Set(list)
  const others = patterns.filter(pattern => !literally.has(pattern))
  if (others.length === 0) return [...patterns]
  return compareOnce('covers', [list, patterns], () => {
    const character = fresh([...list, ...others].join(''))
    const names = anyOf(list)
    return patterns.filter(one => literally.has(one) || names(one.replaceAll('*', character)))
  })
}

/**
 * Those of `patterns` that overlap with one of `list`: some text is named by both. Two segments with a `*`
 * overlap if their beginnings agree and their ends do, because both name the longer beginning, then whatever
 * stands between the `*` of either, then the longer end.
 */
export function overlapping(list: readonly string[], patterns: readonly string[]): string[] {
  if (list.length === 0) return []
  return compareOnce('overlaps', [list, patterns], () => {
    const others = list.map(splitSegments)
    return patterns.filter(pattern => {
      const segments = splitSegments(pattern)
      return others.some(
        other =>
          other.length === segments.length && segments.every((one, i) => segmentsOverlap(one, other[i]!)),
      )
    })
  })
}

/**
 * What comparing two long lists gave, by their text: it takes milliseconds, each reading of a record makes
 * new lists, and the same are compared again while the queue of an owner is locked.
 */
const COMPARED = new Map<string, readonly string[]>()
const COMPARISONS_MAX = 64
/** Fewer pairs are compared sooner than their text is made. */
const PAIRS_MIN = 1_000

function compareOnce(
  how: 'covers' | 'overlaps',
  [list, patterns]: readonly [readonly string[], readonly string[]],
  compare: () => string[],
): string[] {
  if (list.length * patterns.length < PAIRS_MIN) return compare()
  const text = JSON.stringify([how, list, patterns])
  let result = COMPARED.get(text)
  if (result === undefined) bounded(COMPARED, COMPARISONS_MAX).set(text, (result = compare()))
  return [...result]
}

function fresh(used: string): string {
  for (let code = 0xe000; ; code++) {
    const character = String.fromCodePoint(code)
    if (!used.includes(character)) return character
  }
}

/** A pattern with a `*`; `prefix` is the text before the first one. */
function splitPattern(pattern: string): {
  prefix: string
  matches: (segments: readonly string[]) => boolean
} {
  const matchers = pattern.split('/').map(segmentOf)
  return {
    prefix: pattern.slice(0, pattern.indexOf('*')),
    matches: segments =>
      matchers.length === segments.length && matchers.every((matches, i) => matches(segments[i]!)),
  }
}

/** One segment of a pattern; `first` and `last` are the texts before and after all of its `*`. */
interface PatternSegment {
  text: string
  isWild: boolean
  first: string
  last: string
  matches: (text: string) => boolean
}

function splitSegments(pattern: string): PatternSegment[] {
  return pattern.split('/').map(text => ({
    text,
    isWild: text.includes('*'),
    first: text.slice(0, text.indexOf('*')),
    last: text.slice(text.lastIndexOf('*') + 1),
    matches: segmentOf(text),
  }))
}

function segmentsOverlap(one: PatternSegment, other: PatternSegment): boolean {
  if (!one.isWild) return other.matches(one.text)
  if (!other.isWild) return one.matches(other.text)
  return (
    (one.first.startsWith(other.first) || other.first.startsWith(one.first)) &&
    (one.last.endsWith(other.last) || other.last.endsWith(one.last))
  )
}

/**
 * Uses the runtime's own search for each text between the `*`, because a hostile organization may write
 * hundreds of patterns that differ only at their very end.
 */
function segmentOf(pattern: string): (text: string) => boolean {
  const [first, ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return text => text === pattern
  const texts = others.filter(text => text !== '')
  const length = pattern.length - others.length - 1
  return text => {
    if (text.length < length || !text.startsWith(first!) || !text.endsWith(last)) return false
    const end = text.length - last.length
    let at = first!.length
    for (const middle of texts) {
      const found = text.indexOf(middle, at)
      at = found + middle.length
      if (found < 0 || at > end) return false
    }
    return true
  }
}
