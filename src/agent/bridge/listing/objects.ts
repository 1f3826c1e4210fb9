/**
 * Owns the resources, templates and prompts of everything behind the bridge, as a client sees them, and which
 * server each is of. Contract: "What the service does": what a stranger wrote is shown escaped, and passed on
 * unchanged where it is data.
 */
import { s256Json } from '../../../wire/encoding.ts'
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { withoutOurMarks } from '../answers/answers.ts'
import { LIST_METHODS, type ListMethod } from './entries.ts'
import { foreignLine, foreignText, isPlain } from '../answers/foreign-text.ts'
import { safeIcons } from './icons.ts'
import type { Upstream } from '../upstream/upstream.ts'

export interface Objects {
  /**
   * What all servers list by that method. A server that does not answer adds nothing; fails if none answers.
   */
  list(method: ListMethod): Promise<JsonObject[]>
  /** The server of a resource, or of a template; undefined if nobody lists it. */
  placeOf(uri: string): Promise<string | undefined>
  /** The server of a prompt, as a client names it, and its name there; undefined if nobody lists it. */
  promptOf(name: string): Promise<{ resource: string; name: string } | undefined>
}

/** What the lists of objects need. */
interface ObjectsParts {
  resources: readonly string[]
  upstreamOf: (resource: string) => Upstream
  /** What is put before the names of a server's prompts. */
  prefixOf: (resource: string) => Promise<string>
  /** Called with something that the person at the terminal should know; escaped. */
  say: (line: string) => void
}

export function openObjects(parts: ObjectsParts): Objects {
  const { resources } = parts
  const [only] = resources.length === 1 ? resources : []
  const prompts = new Map<string, { resource: string; name: string }>()
  const uris = new Map<string, string>()
  const templates = new Map<string, string>()
  const note = (method: ListMethod, resource: string, entry: JsonObject, shown: JsonObject): void => {
    if (method === 'prompts/list')
      prompts.set(shown['name'] as string, { resource, name: entry['name'] as string })
    else if (method === 'resources/list') uris.set(entry['uri'] as string, resource)
    else templates.set(entry['uriTemplate'] as string, resource)
  }
  const listOf = async (resource: string, method: ListMethod): Promise<JsonObject[]> => {
    const entries = await parts.upstreamOf(resource).listAll(method)
    const prefix = method === 'prompts/list' ? await parts.prefixOf(resource) : ''
    return entries.flatMap(entry => {
      const shown = shownEntry(entry, LIST_METHODS[method].namedBy, prefix)
      if (shown === undefined) {
        parts.say(
          `${resource}: an entry of ${method} is left out: it has no ${LIST_METHODS[method].namedBy} that can be shown.`,
        )
        return []
      }
      note(method, resource, entry, shown)
      return [shown]
    })
  }
  const list: Objects['list'] = async method => {
    const answers = await Promise.allSettled(resources.map(resource => listOf(resource, method)))
    if (answers.every(one => one.status === 'rejected')) throw answers[0]!.reason
    return answers.flatMap(one => (one.status === 'fulfilled' ? one.value : []))
  }
  return {
    list,
    placeOf: async uri => {
      if (only !== undefined) return only
      const find = (): string | undefined => uris.get(uri) ?? templates.get(uri) ?? byTemplate(templates, uri)
      return find() ?? (await Promise.all([list('resources/list'), list('resources/templates/list')]), find())
    },
    promptOf: async name => prompts.get(name) ?? (await list('prompts/list'), prompts.get(name)),
  }
}

/**
 * What a person agrees to who agrees to the terms of a method. No tool has a name with a slash; undefined for
 * a tool.
 */
export function methodDefinition(method: string): string | undefined {
  return method.includes('/') ? s256Json({ method }) : undefined
}

/** The server of the template with the longest beginning of the URI. */
function byTemplate(templates: ReadonlyMap<string, string>, uri: string): string | undefined {
  const fitting = [...templates].filter(([template]) => uri.startsWith(beginning(template)))
  return fitting.toSorted(([a], [b]) => beginning(b).length - beginning(a).length)[0]?.[1]
}

const beginning = (template: string): string => template.split('{', 1)[0]!

/** The entry with its words escaped; undefined if what it is called by cannot be shown as it is. */
function shownEntry(entry: JsonObject, by: string, prefix: string): JsonObject | undefined {
  const called = entry[by]
  if (typeof called !== 'string' || called === '' || !isPlain(called)) return undefined
  const icons = safeIcons(entry['icons'])
  const { icons: _all, ...rest } = withoutOurMarks(entry) as JsonObject
  return { ...withPlainTexts(rest), ...(icons.length === 0 ? {} : { icons }), [by]: prefix + called }
}

/** Every title, name and description, also of arguments, as it may be shown. */
function withPlainTexts(entry: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]): [string, Json] => {
      if (typeof value === 'string' && ONE_LINE_MEMBERS.has(name)) return [name, foreignLine(value)]
      if (typeof value === 'string' && name === 'description') return [name, foreignText(value)]
      if (name === 'arguments' && Array.isArray(value))
        return [name, value.filter(isJsonObject).map(withArgumentTexts)]
      return [name, value]
    }),
  )
}

const ONE_LINE_MEMBERS: ReadonlySet<string> = new Set(['title', 'name'])

/** The name of an argument is data: the client sends it back. */
function withArgumentTexts(argument: JsonObject): JsonObject {
  const { name, ...rest } = argument
  return { ...withPlainTexts(rest), ...(name === undefined ? {} : { name }) }
}
