/**
 * Owns what a call of a plain HTTP API asks for: which tool, with which parameters. Contract: "Authorized
 * call", and docs/choices.md: the parameters are those of the path and the query, and the body. Anything that
 * could make the server execute another call is refused.
 */
import { s256, s256Json } from '../../wire/encoding.ts'
import { decodeQuery } from '../../wire/resources/http-operation.ts'
import { isJsonObject, parseJsonExact, type Json } from '../../wire/json.ts'
import { refuse } from '../../wire/refusal.ts'
import { apiTable, type ApiOperation } from './api-table.ts'
import type { Call } from '../call.ts'
import { SEND_THE_BODY } from './call-body.ts'
import type { CallRequest, RequestReader } from './call-request.ts'
import { singleLine } from './header-lines.ts'
import { refuseBadOrigin } from './origin.ts'
import {
  refuseOverridingForm,
  refuseOverridingHeaders,
  refuseOverridingMembers,
  refuseOverridingQuery,
} from './overrides.ts'

/** What the route's configuration says about a plain API. */
export interface ApiSettings {
  /** The path that all its calls begin with, without a trailing slash. */
  base: string
  operations: readonly ApiOperation[]
  /** Origins whose browsers may call, as serialized in the Origin header. */
  allowedOrigins: ReadonlySet<string>
}

/** Methods whose request has a body unless it says that it has none (RFC 9110 §9.3). */
const BODY_EXPECTED: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * A reader of calls below a base. Refuses 403 `invalid_origin`, `unknown_tool`; 405 `method_not_allowed`; 413
 * `request_body_too_large`; 400 `request_body_missing`, and `invalid_request` for bad escapes, bad JSON, and
 * header fields or paths by which a server could execute another call.
 */
export function apiReader({ base, operations, allowedOrigins }: ApiSettings): RequestReader {
  const table = apiTable(operations)
  return call => {
    refuseBadOrigin(call, allowedOrigins)
    refuseOverridingHeaders(call.headers)
    const { tool, path } = table.find(call.method, call.path.slice(base.length))
    const { values: query, ambiguity: inQuery } = decodeQuery(call.query ?? '')
    refuseOverridingQuery(call.query ?? '')
    const body = readBody(call)
    const params = { path, query, ...(body === undefined ? {} : { body: body.value }) }
    const ambiguity = inQuery ?? body?.ambiguity
    return {
      kind: 'tool',
      tool,
      params,
      params_s256: s256Json(params),
      ...(body?.inexactNumber === undefined ? {} : { inexactNumber: body.inexactNumber }),
      ...(ambiguity === undefined ? {} : { ambiguity }),
    } satisfies CallRequest
  }
}

/**
 * `value`: a JSON body as parsed, any other as its type and the hash of its bytes; undefined if the call
 * has no body.
 */
interface ApiBody {
  value: Json
  inexactNumber?: string | undefined
  ambiguity?: string
}

function readBody(call: Call): ApiBody | undefined {
  const { body, headers } = call
  if (body.state === 'truncated') refuse('request_body_too_large', body.setting)
  if (body.state === 'absent') {
    refuseUnseenBody(call)
    return undefined
  }
  const type = singleLine(headers, 'content-type')?.trim() ?? ''
  if (!/^application\/(?:[\w.-]+\+)?json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i.test(type)) {
    refuseOverridingForm(type, body.bytes)
    return { value: { content_type: type, s256: s256(body.bytes) } }
  }
  const { value, inexactNumber } = parseJsonExact(body.bytes)
  refuseOverridingMembers(value)
  return { value, inexactNumber, ...(looksLikeDigest(value) ? { ambiguity: LOOKS_LIKE_DIGEST } : {}) }
}

const LOOKS_LIKE_DIGEST = 'Send a JSON body that does not look like the digest of another body.'

/** An approval of such a JSON body would also approve the body whose hash it contains. */
function looksLikeDigest(value: Json): boolean {
  return isJsonObject(value) && Object.keys(value).sort().join(' ') === 'content_type s256'
}

/**
 * A missing body counts as empty only if the request says so, because a proxy that shows no body must not
 * turn it into an empty one.
 */
function refuseUnseenBody({ method, headers }: Call): void {
  const length = singleLine(headers, 'content-length')?.trim()
  const unseen = length === undefined ? BODY_EXPECTED.has(method) : length !== '0'
  if (unseen || headers.has('transfer-encoding')) {
    refuse('request_body_missing', `${SEND_THE_BODY} A call without one says content-length: 0.`)
  }
}
