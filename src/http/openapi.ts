/**
 * The OpenAPI 3.1 description of a listener, made from the declarations that serve it, and served at
 * /openapi.json. Contract: "Endpoints".
 */
import { z } from 'zod'
import { endpoint, type DeclaredAnswer, type Described, type Endpoint } from './endpoint.ts'

/** What every refusal looks like (contract, "Errors"). */
const REFUSAL = z.looseObject({
  error: z.string().regex(/^[a-z_]+$/),
  error_description: z.string().optional(),
})

export interface AboutListener {
  title: string
  /** Its own address. */
  server: string
  /** OpenAPI's `securitySchemes`, by the names that endpoints' credentials have. */
  securitySchemes: Readonly<Record<string, object>>
}

/** GET /openapi.json, whose context is the document. */
export const OPENAPI_ENDPOINT: Endpoint<Record<string, unknown>> = endpoint({
  method: 'get',
  path: '/openapi.json',
  rows: { addedUnder: 'Owner API' },
  summary: 'This document',
  answers: {
    200: { says: 'This document', schema: z.looseObject({}), headers: { 'cache-control': 'no-cache' } },
  },
  handle: async (document: Record<string, unknown>, { answer }) => answer(200, document),
})

/** The document of one listener. */
export function openApiDocument(
  endpoints: readonly Described[],
  about: AboutListener,
): Record<string, unknown> {
  const paths: Record<string, Record<string, object>> = {}
  for (const one of endpoints) paths[one.path] = { ...paths[one.path], [one.method]: describe(one) }
  return {
    openapi: '3.1.1',
    info: {
      title: about.title,
      version: '1.0',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: about.server }],
    paths,
    components: {
      securitySchemes: about.securitySchemes,
      schemas: { Refusal: jsonSchema(REFUSAL, 'output') },
    },
  }
}

function describe(described: Described): object {
  const { method, path, summary, credential, body } = described
  return {
    operationId: `${method}${path.replaceAll(/[^a-zA-Z]+(.)?/g, (_, next: string | undefined) => next?.toUpperCase() ?? '')}`,
    summary,
    security: (credential?.names ?? []).map(name => ({ [name]: [] })),
    parameters: parametersOf(described),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contentOf(body) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(described.answers).map(([status, answer]) => [status, answerOf(answer)]),
      ),
      default: {
        description: 'A coded refusal that says what to do.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
      },
    },
  }
}

function parametersOf({ path, query, reads }: Described): object[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const shape = query === undefined ? undefined : (jsonSchema(query, 'input') as ObjectSchema)
  const inQuery = Object.entries(shape?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: shape?.required?.includes(name) === true,
    schema,
  }))
  const inHeader = Object.entries(reads ?? {}).map(([name, description]) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }))
  return [...inPath, ...inQuery, ...inHeader]
}

interface ObjectSchema {
  properties?: Record<string, object>
  required?: string[]
}

function contentOf({ schema, form }: NonNullable<Described['body']>): object {
  const media = { schema: jsonSchema(schema, 'input') }
  return {
    'application/json': media,
    ...(form === true ? { 'application/x-www-form-urlencoded': media } : {}),
  }
}

function answerOf({ says, schema, type }: DeclaredAnswer): object {
  if (schema === undefined && type === undefined) return { description: says }
  const media = schema === undefined ? {} : { schema: jsonSchema(schema, 'output') }
  return { description: says, content: { [type ?? 'application/json']: media } }
}

/** OpenAPI 3.1 takes JSON Schema 2020-12 as it is; what a schema checks in code is left to the words. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}
