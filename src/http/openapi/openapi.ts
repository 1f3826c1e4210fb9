/**
 * The OpenAPI 3.1 description of a listener, made from the declarations that serve it, and served at
 * /openapi.json. Contract: "Endpoints".
 */
import { z } from 'zod'
import { readManifest } from '../../files/package.ts'
import { REFUSALS, type RefusalCode } from '../../wire/refusal.ts'
import { endpoint, type DeclaredAnswer, type Described, type Endpoint } from '../servers/endpoint.ts'
import { capital, Components, type JsonSchema } from './openapi-components.ts'
import { exampleOf } from './openapi-examples.ts'

/** What every refusal looks like (contract, "Errors"). */
const REFUSAL = z
  .looseObject({
    error: z.string().regex(/^[a-z_]+$/),
    error_description: z.string().optional(),
  })
  .meta({ id: 'Refusal' })

/** A chapter of the document: the operations whose path begins with one of `paths`. */
interface Chapter {
  name: string
  description: string
  paths: readonly string[]
}

export interface AboutListener {
  title: string
  description: string
  /** Its own address. */
  server: string
  /** The chapters in order; an operation belongs to the first that has its path. */
  chapters: readonly Chapter[]
  /** OpenAPI's `securitySchemes`, by the names that endpoints' credentials have. */
  securitySchemes: Readonly<Record<string, object>>
}

/** The scheme of callers who sign the request; `description` says by which key. */
export function signatureScheme(description: string): object {
  return { type: 'apiKey', in: 'header', name: 'signature', description }
}

/** The scheme of persons who sign all of the request. */
export function deviceKeyScheme(whose: 'an enrolled' | 'an administrator’s'): object {
  return signatureScheme(
    `An RFC 9421 signature by ${whose} device key over @method, @authority (the issuer’s), @path, ` +
      '@query if there is a query, and content-digest if there is a body; keyid names the key.',
  )
}

/** The chapter of the endpoints that every listener serves. */
export const RUNNING: Chapter = {
  name: 'running',
  description: 'For operators: whether it lives, whether to send requests, and this document.',
  paths: ['/health', '/ready', '/openapi.json', '/metrics'],
}

/** The document of a listener, made at the first request for it. */
type OpenApiDocument = () => Record<string, unknown>

/** GET /openapi.json, whose context is the document. */
export const OPENAPI_ENDPOINT: Endpoint<OpenApiDocument> = endpoint({
  method: 'get',
  path: '/openapi.json',
  rows: { addedUnder: 'Owner API' },
  summary: 'This document',
  answers: {
    200: { says: 'This document', schema: z.looseObject({}), headers: { 'cache-control': 'no-cache' } },
  },
  handle: async (document: OpenApiDocument, { answer }) => answer(200, document()),
})

/** Describes one listener. Throws, when asked, if an endpoint is in no chapter. */
export function openApiDocument(endpoints: readonly Described[], about: AboutListener): OpenApiDocument {
  let made: Record<string, unknown> | undefined
  return () => (made ??= documentOf(endpoints, about))
}

function documentOf(endpoints: readonly Described[], about: AboutListener): Record<string, unknown> {
  const components = new Components()
  components.refer(REFUSAL, 'Refusal', 'output')
  const paths: Record<string, Record<string, object>> = {}
  for (const one of endpoints) {
    // OpenAPI has no spelling of its own for a parameter with slashes.
    const path = one.path.replace('{+', '{')
    paths[path] = { ...paths[path], [one.method]: describe(one, about, components) }
  }
  const used = new Set(endpoints.map(one => chapterOf(one, about).name))
  return {
    openapi: '3.1.1',
    info: {
      title: about.title,
      description: about.description,
      version: readManifest().version,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: about.server }],
    tags: about.chapters
      .filter(({ name }) => used.has(name))
      .map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      securitySchemes: schemesOf(endpoints, about),
      schemas: components.schemas,
    },
  }
}

/** The schemes that some operation accepts. */
function schemesOf(endpoints: readonly Described[], { securitySchemes }: AboutListener): object {
  const names = new Set(endpoints.flatMap(({ credential }) => credential?.names ?? []))
  return Object.fromEntries(Object.entries(securitySchemes).filter(([name]) => names.has(name)))
}

function chapterOf({ path }: Described, { title, chapters }: AboutListener): Chapter {
  const found = chapters.find(({ paths }) =>
    paths.some(begin => path === begin || path.startsWith(`${begin}/`)),
  )
  if (found === undefined) throw new Error(`no chapter of "${title}" has ${path}: add its beginning to one`)
  return found
}

function describe(described: Described, about: AboutListener, components: Components): object {
  const { method, path, summary, credential } = described
  const operationId = `${method}${path.replaceAll(/[^a-zA-Z]+(.)?/g, (_, next: string | undefined) => next?.toUpperCase() ?? '')}`
  return {
    operationId,
    tags: [chapterOf(described, about).name],
    summary,
    security: (credential?.names ?? []).map(name => ({ [name]: [] })),
    parameters: parametersOf(described, components),
    ...requestOf(described, operationId, components),
    responses: {
      ...Object.fromEntries(
        Object.entries(described.answers).map(([status, answer]) => [
          status,
          answerOf(answer, answerName(operationId, status, described), components),
        ]),
      ),
      ...refusalsOf(described),
      default: {
        description: 'A coded refusal that says what to do.',
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Refusal' } } },
      },
    },
  }
}

/** A single answer with a body gets the operation's name; several are distinguished by their status. */
function answerName(operationId: string, status: string, { answers }: Described): string {
  const bodies = Object.values(answers).filter(({ schema }) => schema !== undefined)
  return `${capital(operationId)}Answer${bodies.length > 1 ? status : ''}`
}

function parametersOf({ path, query, reads }: Described, components: Components): object[] {
  const named = (name: string, schema: JsonSchema): object => ({
    name,
    schema,
    example: exampleOf(schema, name, components),
  })
  const inPath = [...path.matchAll(/\{\+?(\w+)\}/g)].map(([, name]) => ({
    ...named(name!, { type: 'string' }),
    in: 'path',
    required: true,
  }))
  const shape = query === undefined ? undefined : (components.inline(query, 'input') as ObjectSchema)
  const inQuery = Object.entries(shape?.properties ?? {}).map(([name, schema]) => ({
    ...named(name, schema),
    in: 'query',
    required: shape?.required?.includes(name) === true,
  }))
  const inHeader = Object.entries(reads ?? {}).map(([name, description]) => ({
    ...named(name, { type: 'string' }),
    in: 'header',
    required: false,
    description,
  }))
  return [...inPath, ...inQuery, ...inHeader]
}

interface ObjectSchema {
  properties?: Record<string, JsonSchema>
  required?: string[]
}

function requestOf(
  { body, rawBody }: Described,
  operationId: string,
  components: Components,
): { requestBody?: object } {
  if (rawBody !== undefined) {
    const { says, type, example } = rawBody
    return { requestBody: { description: says, required: true, content: { [type]: { example } } } }
  }
  return body === undefined
    ? {}
    : { requestBody: { required: true, content: contentOf(body, operationId, components) } }
}

function contentOf(
  { schema, form, example }: NonNullable<Described['body']>,
  operationId: string,
  components: Components,
): object {
  const reference = components.refer(schema, `${capital(operationId)}Request`, 'input')
  const media = {
    schema: reference,
    example: example ?? exampleOf(reference, 'body', components, 'required alone'),
  }
  return {
    'application/json': media,
    ...(form === true ? { 'application/x-www-form-urlencoded': media } : {}),
  }
}

function answerOf({ says, schema, type }: DeclaredAnswer, name: string, components: Components): object {
  if (schema === undefined && type === undefined) return { description: says }
  const reference = schema && components.refer(schema, name, 'output')
  const media =
    reference === undefined ? {} : { schema: reference, example: exampleOf(reference, 'answer', components) }
  return { description: says, content: { [type ?? 'application/json']: media } }
}

type RefusalCodes = readonly RefusalCode[]

/** The possible refusals of a request, according to its parts, and those that its handler adds. */
function refusedWith({
  credential,
  parameters,
  body,
  rawBody,
  refuses,
}: Described): ReadonlyMap<string, RefusalCodes> {
  const words = new Map<string, Set<RefusalCode>>()
  const add = (status: number | string, ...codes: RefusalCodes): void => {
    words.set(`${status}`, new Set([...(words.get(`${status}`) ?? []), ...codes]))
  }
  add(400, 'invalid_request')
  if (credential !== undefined) add(401, credential.refusal ?? 'invalid_credential')
  if (parameters !== undefined) add(404, 'not_found')
  if (body !== undefined || rawBody !== undefined) {
    add(413, 'request_too_large')
    // A raw body is of any type, but for one in another coding.
    add(415, 'unsupported_media_type')
  }
  for (const [status, codes] of Object.entries(refuses ?? {})) add(status, ...codes)
  return new Map([...words].map(([status, codes]) => [status, [...codes]]))
}

/** If a declared answer has the same status, that answer describes it. */
function refusalsOf(described: Described): object {
  const answers = [...refusedWith(described)]
    .filter(([status]) => described.answers[Number(status)] === undefined)
    .map(([status, codes]) => [
      status,
      {
        description: codes.map(code => `\`${code}\` (${sourceOf(code)})`).join(', '),
        content: {
          'application/json': {
            schema: {
              allOf: [{ $ref: '#/components/schemas/Refusal' }],
              properties: { error: { enum: codes } },
            },
            example: { error: codes[0], error_description: 'A sentence that says what to do.' },
          },
        },
      },
    ])
  return Object.fromEntries(answers) as object
}

function sourceOf(code: RefusalCode): string {
  return REFUSALS[code].row
}
