/**
 * Owns which tool of a list can be shown, and why another cannot: each tool is judged by itself, so that one
 * that is wrong costs its own place and is named, and no other tool is lost with it. Contract: "What the
 * service does".
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { present } from '../../../wire/json-members.ts'
import { isTaskOnly } from '../../transports/task-tools.ts'
import { isPastDoubles, isText } from './as-written.ts'
import { safeIcons } from '../listing/icons.ts'
import { TOOL_HINTS } from '../protocol.ts'

/** A tool that cannot be shown. Both members quote a stranger: escape them. */
export interface SpoiltTool {
  name: string
  why: string
  /** What of it is left out, in words of ours; the whole tool if left out. */
  part?: string
}

const TEXTS = ['title', 'description'] as const

class Spoilt extends Error {}

/**
 * The members of a tool that the bridge shows, each of its type. `at` names a tool that has no name;
 * `isModern` says that its server speaks 2026-07-28 or later.
 */
export function readableTool(
  entry: Json,
  at: number,
  isModern: boolean,
): { tool: JsonObject } | { spoilt: SpoiltTool } {
  const name = isJsonObject(entry) && isText(entry['name']) ? entry['name'] : `tool ${at + 1}`
  try {
    return { tool: read(entry, isModern) }
  } catch (error) {
    if (!(error instanceof Spoilt)) throw error
    return { spoilt: { name, why: error.message } }
  }
}

function read(entry: Json, isModern: boolean): JsonObject {
  if (!isJsonObject(entry)) return spoilt('it is no object')
  const { name, inputSchema, outputSchema, annotations, ...tool } = present(entry)
  const icons = safeIcons(entry['icons'])
  if (!isText(name) || name === '') return spoilt('its name is no text')
  return {
    name,
    ...texts(tool, TEXTS, 'its '),
    inputSchema: inputIn(inputSchema),
    ...(outputSchema === undefined ? {} : outputIn(outputSchema, isModern)),
    ...(annotations === undefined ? {} : { annotations: annotationsIn(annotations) }),
    ...(isTaskOnly(entry) ? { execution: { taskSupport: 'required' } } : {}),
    ...(isJsonObject(entry['_meta']) ? { _meta: entry['_meta'] } : {}),
    ...(icons.length === 0 ? {} : { icons }),
  }
}

/** Arguments are always an object, so a schema that does not say so means one. */
function inputIn(schema: Json | undefined): JsonObject {
  const read = schemaIn(schema, 'inputSchema')
  if ((read['type'] ?? 'object') !== 'object') return spoilt('its inputSchema is of no object')
  return { ...read, type: 'object' }
}

/**
 * Before 2026-07-28 structured content is always an object. A schema of something else there is of no use to
 * anybody, and the tool is as good without it.
 */
function outputIn(schema: Json, isModern: boolean): JsonObject {
  const outputSchema = schemaIn(schema, 'outputSchema')
  if (isModern) return { outputSchema }
  return (outputSchema['type'] ?? 'object') === 'object'
    ? { outputSchema: { ...outputSchema, type: 'object' } }
    : {}
}

/** A schema whose outermost members have their types: clients refuse a whole list because of them. */
function schemaIn(schema: Json | undefined, member: string): JsonObject {
  if (!isJsonObject(schema)) return spoilt(`its ${member} is no object`)
  const { default: preset, const: constant, ...rest } = withinDoubles(schema)
  const { properties, required, $schema, ...more } = present(rest)
  if (required !== undefined && !isTexts(required))
    return spoilt(`required in its ${member} is no list of names`)
  if ($schema !== undefined && !isText($schema)) return spoilt(`$schema in its ${member} is no text`)
  return {
    ...($schema === undefined ? {} : { $schema }),
    ...more,
    ...(preset === undefined ? {} : { default: preset }),
    ...(constant === undefined ? {} : { const: constant }),
    ...(properties === undefined ? {} : { properties: propertiesIn(properties, member) }),
    ...(required === undefined ? {} : { required }),
  }
}

/**
 * The schema without numbers past every double: such a bound bounds nothing, and many clients could read no
 * list that has one.
 */
function withinDoubles<T extends Json>(schema: T): T {
  if (Array.isArray(schema)) return schema.filter(one => !isPastDoubles(one)).map(withinDoubles) as T
  if (!isJsonObject(schema)) return schema
  const members = Object.entries(schema).filter(([, value]) => !isPastDoubles(value))
  return Object.fromEntries(members.map(([name, value]) => [name, withinDoubles(value)])) as T
}

/** Clients of 2025-11-25 take no boolean for a schema, though JSON Schema does. */
function propertiesIn(properties: Json, member: string): JsonObject {
  if (!isJsonObject(properties)) return spoilt(`properties in its ${member} is no object`)
  const read = Object.entries(properties).map(([name, schema]): [string, Json] => {
    if (typeof schema === 'boolean') return [name, schema ? {} : { not: {} }]
    return isJsonObject(schema) ? [name, schema] : spoilt(`"${name}" in its ${member} is no schema`)
  })
  return Object.fromEntries(read)
}

function annotationsIn(annotations: Json): JsonObject {
  if (!isJsonObject(annotations)) return spoilt('its annotations are no object')
  const values = present(annotations)
  const hints = TOOL_HINTS.filter(hint => values[hint] !== undefined).map((hint): [string, Json] => {
    const value = values[hint]!
    return typeof value === 'boolean' ? [hint, value] : spoilt(`${hint} in its annotations is no boolean`)
  })
  return { ...texts(values, ['title'], 'in its annotations, '), ...Object.fromEntries(hints) }
}

function texts(of: JsonObject, names: readonly string[], where: string): JsonObject {
  const read = names
    .filter(name => of[name] !== undefined)
    .map((name): [string, Json] => {
      const value = of[name]!
      return isText(value) ? [name, value] : spoilt(`${where}${name} is no text`)
    })
  return Object.fromEntries(read)
}

function isTexts(list: Json): boolean {
  return Array.isArray(list) && list.every(isText)
}

function spoilt(why: string): never {
  throw new Spoilt(why)
}
