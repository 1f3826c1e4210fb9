/**
 * Owns the table that maps a method and a path below the base of a plain API to a tool. Contract: "Authorized
 * call" (the tool maps to a resource): the table is configured, and a path that a server could match to
 * another entry is refused.
 */
import {
  decodeOnce,
  parsePathTemplate,
  type HttpOperation,
  type TemplateSegment,
} from '../../wire/resources/http-operation.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'

/** One line of the table: a method and a path template below the base, and their tool. */
export interface ApiOperation extends HttpOperation {
  tool: string
}

export interface FoundOperation {
  tool: string
  /** Path parameters by name, decoded once. */
  path: Record<string, string>
}

export interface ApiTable {
  /**
   * The tool of a method and a raw path below the base. Refuses 403 `unknown_tool` if no line has the path,
   * 405 `method_not_allowed` if the path has other methods, and 400 `invalid_request` if two readers could
   * read the path differently.
   */
  find(method: string, below: string): FoundOperation
}

interface ApiLine {
  method: string
  tool: string
  segments: TemplateSegment[]
  /** The same, as a router that folds case sees it. */
  folded: TemplateSegment[]
}

/** The table of an API. If several lines fit a path, fixed text wins over a parameter, from the left. */
export function apiTable(operations: readonly ApiOperation[]): ApiTable {
  const lines = operations.map(({ method, path, tool }): ApiLine => {
    const segments = parsePathTemplate(path)
    const folded = segments.map(segment =>
      'literal' in segment ? { literal: segment.literal.toLowerCase() } : segment,
    )
    return { method, tool, segments, folded }
  })
  return {
    find: (method, below) => {
      const raw = below === '' ? [] : below.slice(1).split('/')
      const fitting = lines.filter(line => fits(line.segments, raw))
      const line = mostFixed(fitting.filter(one => one.method === method))
      if (line === undefined) return refuseUnknown(fitting)
      // Routers differ: some decode or fold case before they compare.
      const folded = raw.map(text => decodeOnce(text).toLowerCase())
      if (mostFixed(lines.filter(one => one.method === method && fits(one.folded, folded))) !== line) {
        refuse(
          'invalid_request',
          'Spell the path as the table of this resource does, without escapes and in its case.',
        )
      }
      return { tool: line.tool, path: parametersOf(line, raw) }
    },
  }
}

function fits(segments: readonly TemplateSegment[], texts: readonly string[]): boolean {
  return (
    segments.length === texts.length &&
    segments.every((segment, index) =>
      'literal' in segment ? segment.literal === texts[index] : texts[index] !== '',
    )
  )
}

function mostFixed(lines: readonly ApiLine[]): ApiLine | undefined {
  return lines.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))[0]
}

function rank({ segments }: ApiLine): string {
  return segments.map(segment => ('literal' in segment ? '0' : '1')).join('')
}

function refuseUnknown(fitting: readonly ApiLine[]): never {
  if (fitting.length === 0) {
    refuse('unknown_tool', 'Call a method and a path that the resource metadata lists.')
  }
  const allow = [...new Set(fitting.map(({ method }) => method))].sort().join(', ')
  throw new Refusal('method_not_allowed', `Use ${allow} here.`, { headers: { allow } })
}

function parametersOf({ segments }: ApiLine, raw: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    segments.flatMap((segment, index) =>
      'parameter' in segment ? [[segment.parameter, decodeOnce(raw[index]!)]] : [],
    ),
  )
}
