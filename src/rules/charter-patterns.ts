/**
 * Owns which resources a pattern of a charter names, and when one pattern lies within another. Contract: "The
 * organization's authority" and "What the service does" (the organization may only narrow): a group never
 * gets more than the organization claims.
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
  const wanted = pattern.split('/')
  const given = id.split('/')
  return wanted.length === given.length && wanted.every((segment, i) => segmentMatches(segment, given[i]!))
}

/**
 * Whether `claim` names everything that `grant` names. Each `*` of the grant is replaced by one character
 * that occurs in neither: only a `*` of the claim can match that character, and a `*` that matches it matches
 * any other text in its place.
 */
export function covers(claim: string, grant: string): boolean {
  return patternMatches(claim, grant.replaceAll('*', fresh(claim + grant)))
}

function fresh(used: string): string {
  for (let code = 0xe000; ; code++) {
    const character = String.fromCodePoint(code)
    if (!used.includes(character)) return character
  }
}

/**
 * Uses the runtime's own search for each text between the `*`, because a hostile organization may write
 * hundreds of patterns that differ only at their very end.
 */
function segmentMatches(pattern: string, text: string): boolean {
  const [first, ...others] = pattern.split('*')
  const last = others.pop()
  if (last === undefined) return pattern === text
  const end = text.length - last.length
  let at = first!.length
  if (end < at || !text.startsWith(first!) || !text.endsWith(last)) return false
  for (const middle of others) {
    const found = text.indexOf(middle, at)
    at = found + middle.length
    if (found < 0 || at > end) return false
  }
  return true
}
