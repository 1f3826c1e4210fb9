/**
 * The named schemas of one OpenAPI document: a schema that says its `id` (zod's `meta`) is one component
 * wherever it is used, and each body and answer is one by the name of its operation. Contract: "Endpoints".
 */
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'

/** JSON Schema 2020-12, as OpenAPI 3.1 takes it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/**
 * The form that a schema reads, or the one that it writes: a member with a default is optional in the first
 * alone.
 */
type Direction = 'input' | 'output'

const PREFIX = '#/components/schemas/'

/** Collects the components of one document. */
export class Components {
  readonly schemas: Record<string, JsonSchema> = {}

  /** A reference to the component that a schema is; `name` is for one without an `id`. */
  refer(schema: z.ZodType, name: string, direction: Direction): { $ref: string } {
    const read = this.inline(schema, direction)
    const { $ref } = read
    return typeof $ref === 'string' && Object.keys(read).length === 1
      ? { $ref }
      : { $ref: PREFIX + this.#add(name, read) }
  }

  /**
   * The schema itself; the schemas in it that have an `id` are components. Checks in code are only described
   * in words.
   */
  inline(schema: z.ZodType, io: Direction): JsonSchema {
    const json = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
    const { $schema: _dialect, $defs = {}, ...rest } = json as JsonSchema & { $defs?: object }
    const names = new Map(Object.keys($defs).map(name => [name, this.#free(name, $defs, io)]))
    const moved = (value: unknown): unknown => withReferences(value, names)
    for (const [name, definition] of Object.entries($defs))
      this.#add(names.get(name)!, moved(withoutId(definition as JsonSchema)) as JsonSchema)
    return moved(rest) as JsonSchema
  }

  /** The schema behind a reference; any other schema is itself. */
  resolve(schema: JsonSchema): JsonSchema {
    const { $ref } = schema
    return typeof $ref === 'string' ? this.schemas[$ref.slice(PREFIX.length)]! : schema
  }

  /** The same record may be written in another form than it is read; then each form has its own name. */
  #free(name: string, definitions: object, io: Direction): string {
    const known = this.schemas[name]
    const same = new Map(Object.keys(definitions).map(one => [one, one]))
    const ownSchema = withReferences(withoutId((definitions as Record<string, JsonSchema>)[name]!), same)
    return known === undefined || isDeepStrictEqual(known, ownSchema) ? name : `${name}As${capital(io)}`
  }

  #add(name: string, schema: JsonSchema): string {
    const known = this.schemas[name]
    if (known !== undefined && !isDeepStrictEqual(known, schema))
      throw new Error(`two schemas of one document are called ${name}: give one another id`)
    this.schemas[name] = schema
    return name
  }
}

/** `text` with its first letter as a capital. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function withoutId({ id: _id, ...schema }: JsonSchema): JsonSchema {
  return schema
}

function withReferences(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map(one => withReferences(one, names))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [
      key,
      key === '$ref' && typeof one === 'string'
        ? PREFIX + names.get(one.slice('#/$defs/'.length))!
        : withReferences(one, names),
    ]),
  )
}
