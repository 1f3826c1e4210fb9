/**
 * Owns a tool call as a plain HTTP API carries it. Contract: "Authorized call": the resource is the base, the
 * call goes below it on the same origin, and what is approved is exactly what is sent: path, query and body.
 */
import { isUtf8 } from 'node:buffer'
import { s256 } from '../../wire/encoding.ts'
import {
  encodeQuery,
  expandPath,
  parsePathTemplate,
  type HttpOperation,
} from '../../wire/resources/http-operation.ts'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import type { ToolSurface } from '../../wire/resources/resource-metadata.ts'
import { fail, reading } from '../agent-error.ts'
import { TOOL_ANSWER_BYTES_MAX, type JsonReading, type ToolCall } from './mcp.ts'
import { bodyChunks, type OutgoingRequest } from './transport.ts'

/** How a tool of a plain API is called: method and path template, and the bytes of a body that is no JSON. */
export interface HttpCall extends HttpOperation {
  content?: { type: string; bytes: Uint8Array } | undefined
}

/**
 * The answer of an API. `body`: JSON as parsed, other text as text, anything else as base64url; null if there
 * was none.
 */
export type ApiAnswer = { status: number; content_type: string | null; body: Json }

/**
 * The parameters of a call as they are hashed: `path` and `query` always, `body` if there is one; a lone text
 * in the query counts as an array of one. Fails with `request_invalid` for anything else.
 */
export function apiParameters(args: JsonObject | undefined, content: HttpCall['content']): JsonObject {
  const { path = {}, query = {}, ...rest } = args ?? {}
  const { body, ...unknown } = rest
  const surplus = Object.keys(unknown)[0]
  if (surplus !== undefined) {
    fail(
      'request_invalid',
      `Give the parameters of an API as path, query and body; ${surplus} is none of them.`,
    )
  }
  if (!isJsonObject(path) || !Object.values(path).every(value => typeof value === 'string')) {
    fail('request_invalid', 'Give path as an object of texts.')
  }
  if (content !== undefined && body !== undefined) fail('request_invalid', 'Give body or content, not both.')
  const sent = content === undefined ? body : { content_type: content.type, s256: s256(content.bytes) }
  return { path, query: queryArrays(query), ...(sent === undefined ? {} : { body: sent }) }
}

function queryArrays(query: Json): JsonObject {
  if (!isJsonObject(query)) fail('request_invalid', 'Give query as an object of texts, or of arrays of them.')
  return Object.fromEntries(
    Object.entries(query)
      .map(([name, value]): [string, Json[]] => [name, Array.isArray(value) ? value : [value]])
      .filter(([, values]) => values.length > 0)
      .map(([name, values]) => {
        if (values.every(value => typeof value === 'string')) return [name, values]
        return fail('request_invalid', 'Give query as an object of texts, or of arrays of them.')
      }),
  )
}

/**
 * The request that a call of an API becomes, without its proof. Fails with `request_invalid` if no such
 * request below the base is possible.
 */
export function apiRequest(
  base: URL,
  call: ToolCall,
  { method, path: template, content }: HttpCall,
): Pick<OutgoingRequest, 'method' | 'url' | 'body'> & { headers: Record<string, string> } {
  const { path, query, body } = (call.arguments ?? {}) as {
    path: Record<string, string>
    query: Record<string, string[]>
    body?: Json
  }
  const below = reading('request_invalid', 'The path cannot be formed', () => expandPath(template, path))
  const search = reading('request_invalid', 'The query cannot be formed', () => encodeQuery(query))
  const pathname = base.pathname.replace(/^\/$/, '') + below
  const url = new URL(`${base.origin}${pathname}${search === '' ? '' : `?${search}`}`)
  if (url.pathname !== (pathname === '' ? '/' : pathname) || base.search !== '') {
    fail('request_invalid', 'The call does not lie below the resource as it is written.')
  }
  const headers = { accept: 'application/json, */*;q=0.5' }
  if (content !== undefined) {
    return { method, url, body: content.bytes, headers: { ...headers, 'content-type': content.type } }
  }
  if (body !== undefined) {
    return {
      method,
      url,
      body: JSON.stringify(body),
      headers: { ...headers, 'content-type': 'application/json' },
    }
  }
  // An empty body says content-length: 0; without that it would count as a body that the proxy did not show.
  return { method, url, headers, ...(MAY_HAVE_A_BODY.has(method) ? { body: new Uint8Array(0) } : {}) }
}

const MAY_HAVE_A_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * How the resource itself says that a tool is called with these parameters. Fails with `request_invalid` if
 * that is not clear.
 */
export function publishedCall(surfaces: readonly ToolSurface[], call: ToolCall): HttpOperation {
  const path = call.arguments?.['path'] ?? {}
  const names = Object.keys(path as JsonObject)
    .sort()
    .join('/')
  const offered = surfaces.filter(({ tool }) => tool === call.tool).flatMap(({ http = [] }) => http)
  const [fitting, ...others] = offered.filter(operation => parameterNames(operation) === names)
  if (fitting !== undefined && others.length === 0) return fitting
  const ways = offered.map(({ method, path: template }) => `${method} ${template}`).join(', ')
  return fail(
    'request_invalid',
    ways === ''
      ? `The resource does not say how ${call.tool} is called.`
      : `Name one of the ways in which ${call.tool} is called: ${ways}.`,
  )
}

function parameterNames({ path }: HttpOperation): string {
  return parsePathTemplate(path)
    .flatMap(segment => ('parameter' in segment ? [segment.parameter] : []))
    .sort()
    .join('/')
}

/** Reads the answer of an API, at most 16 MiB of it. */
export async function readApiAnswer(response: Response, request: JsonReading): Promise<ApiAnswer> {
  const chunks: Uint8Array[] = []
  const bounds = { ...request, bytesMax: TOOL_ANSWER_BYTES_MAX }
  for await (const chunk of bodyChunks(response, bounds)) chunks.push(chunk)
  const bytes = Buffer.concat(chunks)
  const content_type = response.headers.get('content-type')
  return { status: response.status, content_type, body: bodyOf(bytes, content_type ?? '', request.parse) }
}

function bodyOf(bytes: Buffer, type: string, parse: JsonReading['parse']): Json {
  if (bytes.length === 0) return null
  if (!isUtf8(bytes)) return bytes.toString('base64url')
  const text = bytes.toString('utf8')
  if (!/^application\/(?:[\w.-]+\+)?json\b/i.test(type)) return text
  try {
    return parse(text)
  } catch {
    return text
  }
}
