/**
 * Owns which party serves what: the routes that the sources register, and the endpoints that docs/contract.md
 * lists.
 */
import type { Described } from '../../src/http/servers/endpoint.ts'
import { HEALTH, READY } from '../../src/http/servers/health.ts'
import { AUTHORITY_PATH, ORGANIZATION_PATH, WELL_KNOWN } from '../../src/wire/names.ts'
import { listPoints, type TextFile } from './repository.ts'

/** `by` is the folder under src that registers the route, or who serves it by the document. */
export interface Endpoint {
  method: string
  path: string
  by: string
}

const REGISTRATION = /\b(?:app|server)\s*\.(get|post|put|patch|delete)(?:<[^()]*>)?\(\s*([^,]+),/g
const ENDPOINT = /\b(GET or POST|GET|POST|PUT|DELETE) `([^`]+)`/g

/**
 * The routes that the sources register, each path with its parameters as `{}`. Throws for a path that it
 * cannot read.
 */
export function registeredEndpoints(sources: readonly TextFile[]): Endpoint[] {
  return sources.flatMap(({ path: file, text }) =>
    [...text.matchAll(REGISTRATION)].map(([, method, expression]) => ({
      method: method!.toUpperCase(),
      path: evaluate(expression!.trim(), file).replace(/:\w+/g, '{}'),
      by: file.split('/')[1]!,
    })),
  )
}

/** The endpoints that are served as they are declared; one that several listeners serve counts once. */
export function declaredEndpoints(declared: readonly Described[], party: string): Endpoint[] {
  return [...new Set(declared)]
    .filter(one => 'answer' in one)
    .map(one => ({
      method: one.method.toUpperCase(),
      path: one.path.replace(/\{\+?\w+\}/g, '{}'),
      by: one === HEALTH || one === READY ? 'http' : party,
    }))
}

/** What a point begins with: the endpoint, and in brackets who serves it. */
const SERVED = /^(.*?) \((authority|organization|tally|sidecar|every listener|later)[;)]/

/**
 * The endpoints of the contract, from its lists and from the headings that name one. A template id is three
 * segments.
 */
export function contractEndpoints(markdown: string): Endpoint[] {
  const listed = listPoints(markdown).flatMap(({ heading, text }) => {
    const [, first, by] = SERVED.exec(text) ?? []
    if (first === undefined || by === undefined) return []
    const own = [...first.matchAll(ENDPOINT)]
    const found = own.length > 0 ? own : [...heading.matchAll(ENDPOINT)]
    return found.flatMap(([, methods, path]) =>
      methods!.split(' or ').map(method => ({ method, path: normalized(path!), by })),
    )
  })
  return [...new Map(listed.map(one => [`${one.method} ${one.path} ${one.by}`, one])).values()]
}

function normalized(path: string): string {
  return path.replace('{template_id}', '{}/{}/{}').replace(/\{\w+\}/g, '{}')
}

/** A path is written as a literal or with the constants of wire/names.ts. */
function evaluate(expression: string, file: string): string {
  const constants: Record<string, Record<string, string>> = { AUTHORITY_PATH, ORGANIZATION_PATH, WELL_KNOWN }
  const constant = (text: string): string => {
    const [, table = '', member = ''] = /^(\w+)\.(\w+)$/.exec(text) ?? []
    const value = constants[table]?.[member]
    if (value === undefined) throw new Error(`${file} registers a route that this test cannot read: ${text}`)
    return value
  }
  const literal = /^(['`])(.*)\1$/.exec(expression)?.[2]
  return literal === undefined
    ? constant(expression)
    : literal.replace(/\$\{([^}]+)\}/g, (_whole, inner: string) => constant(inner))
}
