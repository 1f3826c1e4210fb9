/**
 * Owns the list of tools that the bridge shows: every tool of every resource with its schema and annotations,
 * marked with what a call of it needs, and without anything that a client or a terminal would obey. Contract:
 * "What the service does".
 */
import type { Tool } from '@modelcontextprotocol/client'
import { s256Json, sha256 } from '../../../wire/encoding.ts'
import { isJsonObject, JSON_DEPTH_MAX, type Json, type JsonObject } from '../../../wire/json.ts'
import { markTool, type ToolAccess } from '../../../wire/resources/tool-access.ts'
import { isTaskOnly } from '../../transports/task-tools.ts'
import { withoutOurMarks } from '../answers/answers.ts'
import { foreignLine, foreignText, isVisible } from '../answers/foreign-text.ts'
import { safeIcons } from './icons.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import type { KnownTool } from '../negotiation/state.ts'
import { TOOL_HINTS } from '../protocol.ts'

/** A tool as a client calls it, and what is behind the name. */
export interface ListedTool {
  name: string
  resource: string
  tool: string
  /** Hash of its definition as the resource gave it. */
  definition: string
  listed: JsonObject
  /** Its server runs it as a task alone: no call of it is made, so nobody is asked about one. */
  isTaskOnly: boolean
}

/**
 * Clients drop a tool, or have every request refused, if its name is longer than 60 to 64 characters with
 * what they put before it.
 */
const NAME_WITH_CLIENTS_MAX = 60
/** What the commonest put before the name of a tool of a server that is called as the entry is by default. */
const BY_CLIENTS = 'mcp__usher__'
const NAME_LENGTH_MAX = NAME_WITH_CLIENTS_MAX - BY_CLIENTS.length
const HASH_LENGTH = 8

/** The names that every client takes: some take no other beginning than a letter, and some no full stop. */
const LEGAL_FOR_ALL = /^[A-Za-z][A-Za-z0-9_-]*$/

/**
 * The name as a client is shown it: unchanged, or made legal and cut, with a hash of the whole, so that two
 * names that come to the same stay two.
 */
function shownName(name: string): string {
  if (name.length <= NAME_LENGTH_MAX && LEGAL_FOR_ALL.test(name)) return name
  const hash = sha256(name).toString('hex').slice(0, HASH_LENGTH)
  const plain = name.replaceAll('.', '_')
  const headed = LEGAL_FOR_ALL.test(plain) ? plain : `tool${/^[_-]/.test(plain) ? '' : '_'}${plain}`
  return `${headed.slice(0, NAME_LENGTH_MAX - HASH_LENGTH - 1)}_${hash}`
}

/**
 * The tools of one resource as they are shown; a tool that would have to be changed to be shown, that is too
 * long to read, or that has the name of another, is left out, and named to `onHidden`.
 */
export function listedTools(
  resource: string,
  prefix: string,
  tools: readonly Tool[],
  onHidden: (tool: SpoiltTool) => void = () => undefined,
): ListedTool[] {
  let lengthLeft = LIST_LENGTH_MAX
  const names = new Set<string>()
  return tools.flatMap(tool => {
    const name = NAME.test(tool.name) ? shownName(prefix + tool.name) : tool.name
    const listed = readListed(tool as unknown as JsonObject, name)
    if (typeof listed === 'string') return hide(tool.name, listed)
    if (names.has(name)) return hide(tool.name, 'another tool before it has the same name')
    lengthLeft -= JSON.stringify(listed).length
    if (lengthLeft < 0)
      return hide(tool.name, `the list has more than ${LIST_LENGTH_MAX} characters without it`)
    names.add(name)
    return [
      {
        name,
        resource,
        tool: tool.name,
        definition: s256Json(listed),
        listed: { ...listed, ...decorations(tool as unknown as JsonObject, onHidden) },
        isTaskOnly: isTaskOnly(tool as unknown as JsonObject),
      },
    ]
  })

  function hide(name: string, why: string): [] {
    onHidden({ name, why })
    return []
  }
}

/** The tool as it is shown, or why it cannot be. */
function readListed(tool: JsonObject, name: string): JsonObject | string {
  const schemas = [tool['inputSchema'] ?? {}, tool['outputSchema'] ?? {}]
  if (!NAME.test(name)) return 'its name is not of 1 to 128 letters, digits, "_", "-" and "."'
  if (schemas.some(schema => isDeeper(schema, SCHEMA_DEPTH_MAX)))
    return `its schemas are nested more than ${SCHEMA_DEPTH_MAX} deep`
  if (JSON.stringify(schemas).length > SCHEMAS_LENGTH_MAX)
    return `its schemas have more than ${SCHEMAS_LENGTH_MAX} characters`
  if (!schemas.every(namesArePlain)) return 'its schemas have names that cannot be shown as they are'
  return shown(tool, name)
}

/**
 * Its icons and its `_meta`, which are for programs: nobody agrees to them, so they are no part of its
 * definition. Too long together, they are left out, and that is named.
 */
function decorations(tool: JsonObject, onHidden: (tool: SpoiltTool) => void): JsonObject {
  const icons = safeIcons(tool['icons'])
  const { _meta } = withoutOurMarks({ _meta: tool['_meta'] ?? {} }) as JsonObject
  const has = isJsonObject(_meta) && Object.keys(_meta).length > 0
  const read: JsonObject = { ...(icons.length === 0 ? {} : { icons }), ...(has ? { _meta } : {}) }
  if (JSON.stringify(read).length <= DECORATIONS_LENGTH_MAX) return read
  const part = 'what is for programs, icons and _meta, of the tool'
  onHidden({
    name: tool['name'] as string,
    part,
    why: `it has more than ${DECORATIONS_LENGTH_MAX} characters`,
  })
  return {}
}

/** Whether arrays and objects are nested deeper than that; the outermost counts as one. */
function isDeeper(json: Json, max: number): boolean {
  if (typeof json !== 'object' || json === null) return false
  return max === 0 || Object.values(json).some(member => isDeeper(member, max - 1))
}

/** The tool with its mark, and a line that says in words what it needs. */
export function describeTool(
  { listed, isTaskOnly }: ListedTool,
  known: KnownTool | undefined,
  hasGrant: boolean,
): JsonObject {
  const description = typeof listed['description'] === 'string' ? `${listed['description']}\n` : ''
  if (isTaskOnly) return markTool({ ...listed, description: description + TASK_ONLY }, 'closed')
  const line =
    hasGrant && known?.access === 'terms' ? ACCESS_LINES.withGrant : ACCESS_LINES[known?.access ?? 'unknown']
  return markTool({ ...listed, description: description + line }, accessOf(known, hasGrant))
}

function accessOf(known: KnownTool | undefined, hasGrant: boolean): ToolAccess {
  if (known === undefined) return 'unknown'
  if (known.access === 'terms') return hasGrant ? 'free' : 'asks'
  return known.access
}

/** Why no call of such a tool is made. */
export const TASK_ONLY_WHY = 'its server runs it as a task alone, and no call of it is made'
const TASK_ONLY = 'Cannot be called here: its server runs it as a task alone.'

const ACCESS_LINES = {
  free: 'Needs no permission of the owner.',
  terms: "Needs the owner's terms to be accepted.",
  withGrant: "The owner's terms are accepted.",
  asks: 'The owner is asked each time.',
  closed: 'Access to this was denied, or has ended.',
  unknown: "May need the owner's terms, or the owner each time.",
} as const

const NAME = /^[A-Za-z0-9_.-]{1,128}$/
/**
 * Characters of a tool's schemas, and of a resource's whole list: clients take 10 MiB in one message, of all
 * resources together.
 */
const SCHEMAS_LENGTH_MAX = 65_536
const LIST_LENGTH_MAX = 1_048_576
const DECORATIONS_LENGTH_MAX = 16_384
/**
 * The definition that somebody agrees to who was shown the one and is asked when it is the other: it is
 * neither of them, so that she is asked about it.
 */
export function withChange(before: string | undefined, now: string): string {
  return before === undefined || before === now ? now : s256Json([before, now])
}

/** The definition that a schema is part of is hashed. */
const SCHEMA_DEPTH_MAX = JSON_DEPTH_MAX - 1
/** What a person who agrees to a tool has in mind: its words, its hints and its schemas. */
const MEMBERS = ['inputSchema', 'outputSchema'] as const

function shown(tool: JsonObject, name: string): JsonObject {
  const { title, description, annotations } = tool
  const values = isJsonObject(annotations) ? annotations : {}
  const hints = TOOL_HINTS.filter(hint => typeof values[hint] === 'boolean').map(hint => [
    hint,
    values[hint]!,
  ])
  const labelled = typeof values['title'] === 'string' ? { title: foreignLine(values['title']) } : {}
  return {
    name,
    ...(typeof title === 'string' ? { title: foreignLine(title) } : {}),
    ...(typeof description === 'string' ? { description: foreignText(description) } : {}),
    ...Object.fromEntries(
      MEMBERS.flatMap(key => (tool[key] === undefined ? [] : [[key, withPlainWords(tool[key])]])),
    ),
    annotations: { ...Object.fromEntries(hints), ...labelled },
  }
}

const WORDS = new Set(['title', 'description', '$comment'])

/**
 * A schema with its words escaped; what is compared with a value (names, enum, const, pattern) stays as it
 * is.
 */
export function withPlainWords(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(withPlainWords)
  if (!isJsonObject(schema)) return schema
  const members = Object.entries(schema).map(([name, value]): [string, Json] => [
    name,
    WORDS.has(name) && typeof value === 'string' ? foreignText(value) : withPlainWords(value),
  ])
  return Object.fromEntries(members)
}

/**
 * Whether every name in it can be shown unchanged: a person who is asked about a call is shown its arguments
 * by their names. Values are data, and are passed on as they are.
 */
export function namesArePlain(schema: Json): boolean {
  if (Array.isArray(schema)) return schema.every(namesArePlain)
  if (!isJsonObject(schema)) return true
  return Object.entries(schema).every(([name, value]) => isVisible(name) && namesArePlain(value))
}
