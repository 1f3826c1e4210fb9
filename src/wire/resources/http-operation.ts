/**
 * Owns how a call of a plain HTTP API is described as a tool with parameters: path templates, and queries as
 * names and values. Contract: "Authorized call" (the tool maps to a resource, its exact parameters are what
 * is approved). The agent builds requests from these, the enforcement point reads them back, and both must
 * come to one hash.
 */
import { refuse } from '../refusal.ts'

/**
 * One HTTP method and path template below the base of a plain API, such as `GET` and `/accounts/{account}`.
 */
export type HttpOperation = { method: string; path: string }

/** A segment of a path template: a fixed text, or the name of a parameter that takes the whole segment. */
export type TemplateSegment = { literal: string } | { parameter: string }

/** The content of a query: decoded values by name, in order of receipt. */
export type QueryValues = { [name: string]: string[] }

const LITERAL = /^[\w~.!$&'()*+,=:@-]*$/
const PARAMETER = /^\{([A-Za-z_]\w{0,63})\}$/

/**
 * The segments of a path template after its first slash; none for the empty template, which is the base
 * itself. A segment is a plain text or one `{name}`; only the last may be empty (a trailing slash). Refuses
 * (`invalid_request`) anything else.
 */
export function parsePathTemplate(text: string): TemplateSegment[] {
  if (text === '') return []
  if (!text.startsWith('/')) refuse('invalid_request', 'Begin a path template with a slash.')
  const parts = text.slice(1).split('/')
  const segments = parts.map((part, index): TemplateSegment => {
    const parameter = PARAMETER.exec(part)?.[1]
    if (parameter !== undefined) return { parameter }
    if (!LITERAL.test(part) || part === '.' || part === '..' || (part === '' && index < parts.length - 1)) {
      refuse('invalid_request', 'Write each segment of a path template as plain text or as {name}.')
    }
    return { literal: part }
  })
  const names = segments.flatMap(segment => ('parameter' in segment ? [segment.parameter] : []))
  if (new Set(names).size < names.length) {
    refuse('invalid_request', 'Name each parameter of a path template once.')
  }
  return segments
}

/**
 * A key that two templates share if they fit the same paths, ignoring case and the names of parameters.
 */
export function templateShape(text: string): string {
  return parsePathTemplate(text)
    .map(segment => ('literal' in segment ? `/${segment.literal.toLowerCase()}` : '/{}'))
    .join('')
}

/**
 * The path that a template becomes with these values, percent-encoded. Refuses (`invalid_request`) a missing,
 * unknown or empty value, and one that would not stay one segment for every reader: dots alone, or with a
 * slash or a backslash.
 */
export function expandPath(template: string, values: Readonly<Record<string, string>>): string {
  const segments = parsePathTemplate(template)
  const known = new Set(segments.flatMap(segment => ('parameter' in segment ? [segment.parameter] : [])))
  const unknown = Object.keys(values).find(name => !known.has(name))
  if (unknown !== undefined) refuse('invalid_request', `The path has no parameter ${unknown}.`)
  return segments.map(segment => `/${segmentText(segment, values)}`).join('')
}

function segmentText(segment: TemplateSegment, values: Readonly<Record<string, string>>): string {
  if ('literal' in segment) return segment.literal
  const value = Object.hasOwn(values, segment.parameter) ? values[segment.parameter] : undefined
  if (value === undefined) refuse('invalid_request', `Give the path its parameter ${segment.parameter}.`)
  if (!value.isWellFormed() || /^\.{0,2}$|[/\\\0]/.test(value)) {
    refuse('invalid_request', `Give ${segment.parameter} as text that can be one segment of a path.`)
  }
  return encodeURIComponent(value)
}

/**
 * The query without its `?`, everything but unreserved characters encoded; empty if there are no values.
 */
export function encodeQuery(values: Readonly<Record<string, readonly string[]>>): string {
  const pairs = Object.entries(values).flatMap(([name, list]) => list.map(value => [name, value] as const))
  if (pairs.some(pair => pair.some(text => !text.isWellFormed()))) {
    refuse('invalid_request', 'Send text as Unicode: half of a surrogate pair is no character.')
  }
  return pairs.map(pair => pair.map(encodeURIComponent).join('=')).join('&')
}

/**
 * A raw query, read as forms are (`&` between pairs, `+` a blank). `ambiguity`: a sentence, if another reader
 * could read it differently. Refuses (`invalid_request`) escapes that are no UTF-8.
 */
export function decodeQuery(query: string): { values: QueryValues; ambiguity?: string } {
  const values = new Map<string, string[]>()
  for (const piece of query.split('&')) {
    if (piece === '') continue
    const at = piece.indexOf('=')
    const name = decodeFormText(at < 0 ? piece : piece.slice(0, at))
    const value = at < 0 ? '' : decodeFormText(piece.slice(at + 1))
    const known = values.get(name)
    if (known) known.push(value)
    else values.set(name, [value])
  }
  const ambiguity = queryAmbiguity(query)
  // fromEntries defines members, so that a parameter called __proto__ is one.
  return { values: Object.fromEntries(values), ...(ambiguity === undefined ? {} : { ambiguity }) }
}

function queryAmbiguity(query: string): string | undefined {
  if (/[+;]/.test(query)) return 'Write a blank in the query as %20, a plus as %2B and a semicolon as %3B.'
  if (/%00/.test(query)) return 'Send a query without NUL.'
  if (query.split('&').some(piece => piece !== '' && !piece.includes('=')))
    return 'Write each part of the query as name=value.'
  return undefined
}

function decodeFormText(text: string): string {
  return decodeOnce(text.replaceAll('+', ' '))
}

/** The text with its percent-escapes decoded once. Refuses (`invalid_request`) escapes that are no UTF-8. */
export function decodeOnce(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (cause) {
    refuse('invalid_request', 'Percent-encode text as UTF-8.', { cause })
  }
}
