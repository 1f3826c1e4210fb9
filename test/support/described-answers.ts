/**
 * Owns the check that every answer a test gets is one that the OpenAPI document describes: right status,
 * right shape, and a refusal by one of its words.
 */
import Ajv2020 from 'ajv/dist/2020.js'
import {
  aboutListener,
  ENDPOINTS,
  JOINT_ENDPOINTS,
  LOG_ENDPOINTS,
  type AuthorityListener,
} from '../../src/authority/endpoints.ts'
import { openApiDocument } from '../../src/http/openapi/openapi.ts'

interface Described {
  responses: Record<string, { content?: Record<string, { schema?: Schema }> }>
}
interface Schema {
  $ref?: string
  properties?: { error?: { enum?: string[] } }
}
type Paths = Record<string, Record<string, Described>>

const ajv = new Ajv2020.default({ strict: false, allErrors: false, logger: false })
const documents = Object.fromEntries(
  (['public', 'owner'] as const).map(listener => {
    const endpoints = [...ENDPOINTS[listener], ...JOINT_ENDPOINTS[listener], ...LOG_ENDPOINTS[listener]]
    const document = openApiDocument(endpoints, aboutListener[listener]('/'))()
    ajv.addSchema(document, listener)
    return [listener, document['paths']]
  }),
) as Record<AuthorityListener, Paths>

/**
 * What is wrong with an answer by the document; undefined if it is as described, or if nothing is
 * served at that path. A 4xx must be one that the operation describes, with one of its words.
 */
export function undescribed(
  listener: AuthorityListener,
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
  if (schema?.$ref === undefined) return undescribedRefusal(request, reply, schema?.properties?.error?.enum)
  const validate = ajv.getSchema(listener + schema.$ref)!
  if (validate(reply.body)) return undefined
  return `${request.method} ${path} ${reply.status}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(reply.body)}`
}

/** `described` are the words of this status; of an outage no operation says any. */
function undescribedRefusal(
  request: { method: string; target: string },
  reply: { status: number; body: unknown },
  described: readonly string[] | undefined,
): string | undefined {
  const { error, error_description: detail } = (reply.body ?? {}) as Record<string, unknown>
  // As if no tally is listed: then its paths are in no document.
  if (reply.status === 404 && detail === 'Nothing is served at this path.') return undefined
  const coded = reply.status >= 400 && typeof error === 'string' && /^[a-z_]+$/.test(error)
  if (coded && (reply.status >= 500 || described?.includes(error) === true)) return undefined
  return `${request.method} ${request.target} ${reply.status} is not described: ${JSON.stringify(reply.body)}; say it in \`refuses\` of its endpoint`
}

function pattern(template: string): RegExp {
  return new RegExp(
    `^${template
      .replaceAll('.', String.raw`\.`)
      .replace('{tile}', '.+')
      .replaceAll(/\{\w+\}/g, '[^/]+')}$`,
  )
}
