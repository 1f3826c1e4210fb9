/**
 * Owns hostile input: texts that act when they are shown or read, JSON of any shape, and bodies that fit a
 * schema until they do not.
 */
import fc from 'fast-check'
import { z } from 'zod'

/** Texts that a terminal, a page, a path, a query of SQL or a parser would act on. */
export const HOSTILE_TEXTS: readonly string[] = [
  '',
  ' ',
  '\0',
  'a\0b',
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  '&lt;b&gt; &amp; </title>',
  '\u001b[2J\u001b]0;owned\u0007',
  '\u009b31m',
  'safe\u202egnp.exe\u2066',
  '\u200b\ufeff\u2028\u2029',
  'line one\r\nevent: decided\ndata: {}\n\n',
  '\u{e0041}\u{1f600}',
  '\ud800',
  "'; DROP TABLE owners; --",
  '../../etc/passwd',
  '%00%ff%2e%2e',
  '__proto__',
  'constructor',
  '${7*7}{{7*7}}',
  '-0',
  '1e400',
  'x'.repeat(5_000),
  'é'.repeat(5_000),
  'https://evil.example/"onload=x',
  'javascript:alert(1)',
  'null',
]

export const hostileText = (): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constantFrom(...HOSTILE_TEXTS),
    fc.string({ unit: 'binary', maxLength: 40 }),
    fc.string({ unit: 'grapheme', maxLength: 40 }),
  )

/** Numbers at the edges of what others can hold. */
const NUMBERS = [0, -0, -1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e300, 5e-324]

/** JSON of any shape, its texts and member names hostile. */
export const hostileJson = (): fc.Arbitrary<unknown> =>
  fc.letrec<{ value: unknown }>(tie => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      hostileText(),
      fc.constantFrom<unknown>(null, true, false, ...NUMBERS),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.oneof(hostileText(), fc.constantFrom('error', 'then', 'toJSON')), tie('value'), {
        maxKeys: 4,
      }),
    ),
  })).value

interface JsonSchema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: JsonSchema[]
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  additionalProperties?: JsonSchema | boolean
}

/** Bodies of the schema's shape, their texts hostile, and here and there a member that fits nothing. */
export function hostileBody(schema: z.ZodType): fc.Arbitrary<unknown> {
  return fromSchema(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema)
}

function fromSchema(schema: JsonSchema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 12, arbitrary: fitting(schema) }, { weight: 1, arbitrary: hostileJson() })
}

function fitting(schema: JsonSchema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(fromSchema))
  switch ([schema.type].flat()[0]) {
    case 'string':
      return hostileText()
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer(), fc.constantFrom(...NUMBERS))
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(fromSchema(schema.items ?? {}), { maxLength: 4 })
    case 'object':
      return members(schema)
    default:
      return hostileJson()
  }
}

function members({ properties = {}, additionalProperties }: JsonSchema): fc.Arbitrary<unknown> {
  const named = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, fromSchema(schema)])),
    { requiredKeys: [] },
  )
  const more =
    typeof additionalProperties === 'object' && Object.keys(properties).length === 0
      ? fc.dictionary(hostileText(), fromSchema(additionalProperties), { maxKeys: 3 })
      : fc.constant({})
  return fc
    .tuple(fc.oneof({ weight: 5, arbitrary: full(properties) }, { weight: 2, arbitrary: named }), more)
    .map(([one, other]) => ({ ...(one as object), ...other }))
}

/** All members at once: what gets furthest in. */
function full(properties: Record<string, JsonSchema>): fc.Arbitrary<unknown> {
  return fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, fromSchema(schema)])),
  )
}
