/**
 * The OpenAPI 3.1 description of both listeners, made from the schemas that validate requests, and served at
 * /openapi.json. Contract: "Endpoints". Tests hold every answer of every test against it.
 */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'

export type Listener = 'public' | 'owner'

/** One answer of an operation. Without a schema the body is described in words alone. */
export interface DescribedAnswer {
  says: string
  schema?: z.ZodType
  /** `application/json` where left out. */
  type?: string
}

/** One endpoint. `path` in OpenAPI's spelling, `{name}` for a path parameter. */
export interface Operation {
  listener: Listener
  method: 'get' | 'post' | 'put' | 'delete'
  path: string
  summary: string
  /** Who must prove what; undefined: nobody. */
  auth?: 'pat' | 'owner' | 'signature' | undefined
  query?: z.ZodObject
  headers?: Record<string, string>
  body?: { schema: z.ZodType; form?: boolean }
  answers: Record<number, DescribedAnswer>
}

/** What every refusal looks like (contract, "Errors"). */
export const REFUSAL = z.looseObject({
  error: z.string().regex(/^[a-z_]+$/),
  error_description: z.string().optional(),
})

const SECURITY = {
  pat: { type: 'http', scheme: 'bearer', description: 'A PAT of the resource server.' },
  owner: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description:
      'An RFC 9421 signature by an enrolled device key over @method, @authority (the issuer’s), @path, ' +
      '@query where there is a query, and content-digest where there is a body; keyid names the key.',
  },
  bearer: { type: 'http', scheme: 'bearer', description: "An access token of the owner's OIDC realm." },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'signature',
    description: 'An RFC 9421 signature by a key published at the origin of the resource.',
  },
} as const

/** The document of one listener. */
export function openApiDocument(
  operations: readonly Operation[],
  about: { listener: Listener; server: string },
): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const operation of operations) {
    if (operation.listener !== about.listener) continue
    paths[operation.path] = { ...paths[operation.path], [operation.method]: describe(operation) }
  }
  return {
    openapi: '3.1.1',
    info: {
      title: about.listener === 'owner' ? 'usher: owner API' : 'usher: authorization server',
      version: '1.0',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: about.server }],
    paths,
    components: { securitySchemes: SECURITY, schemas: { Refusal: jsonSchema(REFUSAL, 'output') } },
  }
}

/** Registers GET /openapi.json on the listener that the operations are of. */
export function registerOpenApi(
  app: FastifyInstance,
  operations: readonly Operation[],
  about: { listener: Listener; server: string },
): void {
  const document = openApiDocument(operations, about)
  app.get('/openapi.json', (_request, reply) => reply.header('cache-control', 'no-cache').send(document))
}

function describe(operation: Operation): object {
  const { method, path, summary, auth, body } = operation
  return {
    operationId: `${method}${path.replaceAll(/[^a-zA-Z]+(.)?/g, (_, next: string | undefined) => next?.toUpperCase() ?? '')}`,
    summary,
    security: securityOf(auth),
    parameters: parametersOf(operation),
    ...(body === undefined ? {} : { requestBody: { required: true, content: contentOf(body) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(operation.answers).map(([status, answer]) => [status, answerOf(answer)]),
      ),
      default: {
        description: 'A coded refusal that says what to do.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
      },
    },
  }
}

function securityOf(auth: Operation['auth']): object[] {
  if (auth === undefined) return []
  return auth === 'owner' ? [{ owner: [] }, { bearer: [] }] : [{ [auth]: [] }]
}

function parametersOf({ path, query, headers }: Operation): object[] {
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
  const inHeader = Object.entries(headers ?? {}).map(([name, description]) => ({
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

function contentOf({ schema, form }: NonNullable<Operation['body']>): object {
  const media = { schema: jsonSchema(schema, 'input') }
  return {
    'application/json': media,
    ...(form === true ? { 'application/x-www-form-urlencoded': media } : {}),
  }
}

function answerOf({ says, schema, type }: DescribedAnswer): object {
  if (schema === undefined && type === undefined) return { description: says }
  const media = schema === undefined ? {} : { schema: jsonSchema(schema, 'output') }
  return { description: says, content: { [type ?? 'application/json']: media } }
}

/** OpenAPI 3.1 takes JSON Schema 2020-12 as it is; what a schema checks in code is left to the words. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}
