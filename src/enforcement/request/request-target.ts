/**
 * Owns the rules for request targets that are judged at all. Contract: "Authorized call" (the signature
 * covers `@path`) and docs/choices.md: a target that two readers could take for two different paths is
 * refused before anything is looked up by it.
 */
import { refuse } from '../../wire/refusal.ts'

// RFC 3986 path and query characters. The path may not contain `;`, because some servers cut it there.
const PATH = /^\/(?:[\w\-.~!$&'()*+,=:@/]|%[0-9a-f]{2})*$/i
const QUERY = /^(?:[\w\-.~!$&'()*+,;=:@/?[\]|^`{}"<>\\]|%[0-9a-f]{2})*$/i
// What a normalizing reader would change: empty segments, dot segments (even partly encoded), encoded slashes
// and NUL.
const CHANGED_BY_A_NORMALIZER = /\/\/|\/(?:\.|%2e){1,2}(?:\/|$)|%2f|%5c|%00/i

/**
 * The path and query of a request target, undecoded, as a signature base needs them. Refuses
 * `invalid_request` for anything but origin form (`/path?query`), for a fragment, and for a path that dot
 * segments, `//`, `%2f`, `%5c` or `;` would change.
 */
export function splitTarget(target: string): { path: string; query?: string } {
  if (target.includes('#')) refuse('invalid_request', 'Send the request target without a fragment.')
  const at = target.indexOf('?')
  const path = at < 0 ? target : target.slice(0, at)
  if (!PATH.test(path)) {
    refuse(
      'invalid_request',
      'Send a path that begins with a slash and percent-encodes all but unreserved characters.',
    )
  }
  if (CHANGED_BY_A_NORMALIZER.test(path)) {
    refuse('invalid_request', 'Send a path without empty or dot segments and without encoded slashes.')
  }
  if (at < 0) return { path }
  const query = target.slice(at + 1)
  if (!QUERY.test(query)) refuse('invalid_request', 'Percent-encode the query.')
  return { path, query }
}
