/**
 * Owns the check that every answer a test gets is one that the OpenAPI document describes: right status,
 * right shape. Refusals need only be coded ones.
 */
import Ajv2020, { type ValidateFunction } from 'ajv/dist/2020.js'
import { aboutListener, ENDPOINTS, type Listener } from '../../src/authority/endpoints.ts'
import { openApiDocument } from '../../src/http/openapi.ts'

interface Described {
  responses: Record<string, { content?: Record<string, { schema?: object }> }>
}
type Paths = Record<string, Record<string, Described>>

const ajv = new Ajv2020.default({ strict: false, allErrors: false, logger: false })
const documents = Object.fromEntries(
  (['public', 'owner'] as const).map(listener => [
    listener,
    openApiDocument(ENDPOINTS[listener], aboutListener[listener]('/'))['paths'] as Paths,
  ]),
) as Record<Listener, Paths>
const validators = new Map<object, ValidateFunction>()

/**
 * What is wrong with an answer by the document; undefined where it is as described, or where nothing is
 * served at that path.
 */
export function undescribed(
  listener: Listener,
  request: { method: string; target: string },
  reply: { status: number; body: unknown },
): string | undefined {
  const path = request.target.split('?', 1)[0]!
  const method = request.method.toLowerCase()
  const operation = Object.entries(documents[listener]).find(
    ([template, methods]) => pattern(template).test(path) && methods[method] !== undefined,
  )?.[1][method]
  const answer = operation?.responses[reply.status]
  const schema = answer?.content?.['application/json']?.schema
  if (operation === undefined || (answer !== undefined && schema === undefined)) return undefined
  if (schema === undefined) return codedRefusal(request, reply)
  const validate = validators.get(schema) ?? ajv.compile(schema)
  validators.set(schema, validate)
  if (validate(reply.body)) return undefined
  return `${request.method} ${path} ${reply.status}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(reply.body)}`
}

function codedRefusal(
  request: { method: string; target: string },
  reply: { status: number; body: unknown },
): string | undefined {
  const { error } = (reply.body ?? {}) as { error?: unknown }
  const coded = reply.status >= 400 && typeof error === 'string' && /^[a-z_]+$/.test(error)
  return coded
    ? undefined
    : `${request.method} ${request.target} ${reply.status} is not described: ${JSON.stringify(reply.body)}`
}

function pattern(template: string): RegExp {
  return new RegExp(`^${template.replaceAll('.', String.raw`\.`).replaceAll(/\{\w+\}/g, '[^/]+')}$`)
}
