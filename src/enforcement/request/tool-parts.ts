/**
 * Owns which part of a split tool a call is of. Contract: "Authorized call" (the tool maps to a resource) and
 * docs/choices.md: by the configuration and by the arguments that were signed. A call that any server could
 * read without the configured constant is one of the whole tool, which is the graver.
 */
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'
import { foldedText } from './folded-text.ts'
import type { Tool } from './routes.ts'

export interface ToolParts {
  /**
   * The name of the tool that a `tools/call` of this name, with these `params`, is judged as. Refuses 403
   * `unknown_tool` if the name is that of a part: the server has no such tool.
   */
  nameOf(called: string, params: JsonObject): string
}

interface PartConstants {
  name: string
  constants: readonly (readonly [path: readonly string[], constant: string | boolean])[]
}

/** The parts of the configured tools. Two parts of one tool never fit the same call (see `partFaults`). */
export function toolParts(tools: Iterable<Pick<Tool, 'tool' | 'of'>>): ToolParts {
  const parts = new Map<string, PartConstants[]>()
  const names = new Set<string>()
  for (const { tool: name, of } of tools) {
    if (of === undefined) continue
    names.add(name)
    const constants = Object.entries(of.when).map(
      ([pointer, constant]) => [pathOf(pointer), constant] as const,
    )
    parts.set(of.tool, [...(parts.get(of.tool) ?? []), { name, constants }])
  }
  return {
    nameOf: (called, params) => {
      if (names.has(called))
        refuse('unknown_tool', 'Call the tool that this is a part of: its arguments say which part it is.')
      const fitting = parts.get(called)?.filter(part => fits(part, params)) ?? []
      return fitting.length === 1 ? fitting[0]!.name : called
    },
  }
}

/** RFC 6901: `~1` is a slash and `~0` a tilde. */
function pathOf(pointer: string): string[] {
  return pointer
    .slice(1)
    .split('/')
    .map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/**
 * A call that carries answers to a tool which asked back is one of the whole, because an answer may change
 * what the tool does.
 */
function fits({ constants }: PartConstants, params: JsonObject): boolean {
  const { arguments: args, inputResponses, requestState } = params
  if (args === undefined || inputResponses !== undefined || requestState !== undefined) return false
  return constants.every(([path, constant]) => valueAt(args, path) === constant)
}

/** Undefined also if a member beside it could be taken for it, and for what is in an array. */
function valueAt(args: Json, path: readonly string[]): Json | undefined {
  let value: Json | undefined = args
  for (const name of path) {
    if (!isJsonObject(value) || !Object.hasOwn(value, name) || hasNamesake(value, name)) return undefined
    value = value[name]
  }
  return value
}

/** Servers fold case, take `dry_run` and `dry-run` for `dryRun`, and cut a name at a NUL. */
function hasNamesake(object: JsonObject, name: string): boolean {
  const spelling = plain(name)
  return Object.keys(object).some(other => other !== name && plain(other) === spelling)
}

function plain(name: string): string {
  return foldedText(name.split('\0', 1)[0]!).replaceAll(/[\s\p{C}._-]/gu, '')
}
