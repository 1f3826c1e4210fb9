/**
 * Owns which resources a pattern of a charter names, and when one pattern lies within another. Contract: "The
 * organization's authority" and "What the service does" (the organization may only narrow): what a group is
 * granted is never more than what is claimed.
 */

/** Visible ASCII without a character that ids are never compared by; `/` between segments. */
const FORM = /^[\x21-\x7e]{1,256}$/

/** Why a text is no pattern, as the end of a sentence; undefined where it is one. */
export function patternFault(text: string): string | undefined {
  if (!FORM.test(text)) return 'give a pattern of 1 to 256 visible ASCII characters'
  if (text.split('/').some(segment => segment === '')) return 'give a pattern without empty segments'
  return undefined
}

/**
 * Why a text is no claim: as `patternFault`, and its first segment says literally whose resources it names.
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
 * characters of one segment, none too. Ids are opaque, and never decoded.
 */
export function patternMatches(pattern: string, id: string): boolean {
  const wanted = pattern.split('/')
  const given = id.split('/')
  return wanted.length === given.length && wanted.every((segment, i) => segmentMatches(segment, given[i]!))
}

/**
 * Whether everything that `grant` names is named by `claim` too. Each `*` of the grant is replaced by one
 * character that occurs in neither: only a `*` of the claim can take that character, and what takes it takes
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

/** Linear, whatever the pattern: of several `*`, only the last that was met is ever given more. */
function segmentMatches(pattern: string, text: string): boolean {
  let at = 0
  let star = -1
  let taken = 0
  for (let i = 0; i < text.length;) {
    if (at < pattern.length && pattern[at] !== '*' && pattern[at] === text[i]) {
      at++
      i++
    } else if (pattern[at] === '*') {
      star = at++
      taken = i
    } else if (star >= 0) {
      at = star + 1
      i = ++taken
    } else return false
  }
  while (pattern[at] === '*') at++
  return at === pattern.length
}
