/**
 * Owns the reading of an MCP request: which method, which tool, which parameters. Contract: "Authorized call"
 * (the tool maps to a resource, a call with no arguments has the parameters `{}`) and docs/choices.md: the
 * call is authorized on the body alone, and anything that two readers could read differently is refused.
 */
import { s256Json } from '../../wire/encoding.ts'
import { parseJsonExact, type JsonObject } from '../../wire/json.ts'
import { Refusal, refuse } from '../../wire/refusal.ts'
import { toolParameters } from '../../wire/resources/tool-parameters.ts'
import type { Call } from '../call.ts'
import { foldedName } from '../identity-headers.ts'
import { presentedGrant } from '../upstream.ts'
import { SEND_THE_BODY } from './call-body.ts'
import type { CallRequest } from './call-request.ts'
import { singleLine } from './header-lines.ts'
import { readMessage } from './mcp-message.ts'
import { readMethod, type MethodRules } from './mcp-methods.ts'
import { checkMirrors } from './mcp-mirrors.ts'
import { refuseBadOrigin } from './origin.ts'
import { refuseOverridingHeaders } from './overrides.ts'
import type { ToolParts } from './tool-parts.ts'

/** What the route's configuration says about MCP. */
export interface McpSettings {
  /**
   * Methods let through with a live grant: a JSON-RPC method (`resources/read`), a family of them
   * (`resources/*`), or the HTTP methods `GET` and `DELETE` of the older transports.
   */
  openMethods: ReadonlySet<string>
  /** Whether the stream of a session (GET) passes without a grant; left out, it does not. */
  isStreamFree?: boolean
  /** What each further method needs; left out if no method is mapped. */
  methods?: MethodRules | undefined
  /** The tools that are split by constant arguments; left out if none is. */
  parts?: ToolParts | undefined
  /** Origins whose browsers may call, as serialized in the Origin header (`https://tools.example.com`). */
  allowedOrigins: ReadonlySet<string>
}

const NO_RULES: MethodRules = new Map()
const PASSING_METHODS: ReadonlySet<string> = new Set(['initialize', 'ping', 'tools/list', 'server/discover'])

/**
 * Reads the MCP request in a call. Refuses 403 `invalid_origin`, `unknown_method`; 405 `method_not_allowed`;
 * 400 `request_body_missing`, `header_body_mismatch`, and `invalid_request` for batches, case variants of the
 * deciding keys, bad JSON, header fields that name another path or method, and calls without a name; 413
 * `request_body_too_large`; 415 `unsupported_media_type`. Never decides about a grant.
 */
export function readMcp(call: Call, settings: McpSettings): CallRequest {
  refuseBadOrigin(call, settings.allowedOrigins)
  refuseOverridingHeaders(call.headers)
  if (call.method !== 'POST') return readBodylessMethod(call, settings)
  refuseOtherMediaTypes(call)
  const { value, inexactNumber } = parseJsonExact(wholeBody(call))
  const message = readMessage(value)
  checkMirrors(call.headers, message)
  const { method, params } = message
  if (method === undefined) return { kind: 'pass', method: 'response' }
  if (method === 'tools/call') return readToolCall(params, inexactNumber, settings)
  if (passes(method)) return { kind: 'pass', method }
  const mapped = readMethod({ ...message, method }, settings.methods ?? NO_RULES, inexactNumber)
  if (mapped !== undefined) return mapped
  if (isOpen(method, settings.openMethods)) return { kind: 'open', method }
  refuse('unknown_method', 'Call tools with tools/call: this method is not opened here.')
}

/**
 * By this field a client has a stream begin after an event of it, or of another stream. Servers that pass
 * fields on as variables read the second spelling alike.
 */
const RESUMPTION = ['last-event-id', 'last_event_id']

/**
 * Transports before 2026-07-28 stream with GET and end sessions with DELETE. What a server resumes may be the
 * rest of an answer to a call, so it needs a grant even where the stream of the session does not. The field
 * is taken off even if we did not see it, because a proxy may show us only some fields.
 */
function readBodylessMethod(call: Call, { openMethods, isStreamFree = false }: McpSettings): CallRequest {
  const { method, headers, body } = call
  const isFree = (one: string): boolean => one === 'GET' && isStreamFree
  const served = ['GET', 'DELETE'].filter(one => isFree(one) || openMethods.has(one))
  if (!served.includes(method)) {
    const allow = ['POST', ...served].join(', ')
    throw new Refusal('method_not_allowed', `Use ${allow} here.`, { headers: { allow } })
  }
  if (body.state !== 'absent') refuse('invalid_request', `Send ${method} without a body.`)
  if (!isFree(method)) return { kind: 'open', method }
  const spellings = [...headers.keys()].filter(name => foldedName(name) === RESUMPTION[0])
  if (spellings.length > 0 && presentedGrant(call) !== undefined) return { kind: 'open', method }
  return { kind: 'pass', method, grantFields: [...new Set([...RESUMPTION, ...spellings])] }
}

/**
 * Another type or charset could make the tool read other text than was checked. If it is absent, the tool
 * decides.
 */
function refuseOtherMediaTypes(call: Call): void {
  const type = singleLine(call.headers, 'content-type')
  if (
    type !== undefined &&
    !/^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i.test(type.trim())
  ) {
    refuse('unsupported_media_type', 'Send the request as application/json in UTF-8.')
  }
}

function wholeBody({ body }: Call): Buffer {
  if (body.state === 'truncated') refuse('request_body_too_large', body.setting)
  if (body.state === 'absent') refuse('request_body_missing', SEND_THE_BODY)
  return body.bytes
}

function readToolCall(
  params: JsonObject | undefined,
  inexactNumber: string | undefined,
  { parts }: Pick<McpSettings, 'parts'>,
): CallRequest {
  const name = params?.name
  if (typeof name !== 'string' || name === '') refuse('invalid_request', 'Name the tool in params.name.')
  const tool = parts?.nameOf(name, params!) ?? name
  const parameters = toolParameters(params!)
  return {
    kind: 'tool',
    tool,
    params: parameters,
    params_s256: s256Json(parameters),
    ...(inexactNumber === undefined ? {} : { inexactNumber }),
  }
}

function passes(method: string): boolean {
  return (
    PASSING_METHODS.has(method) ||
    (method.startsWith('notifications/') && method.length > 'notifications/'.length)
  )
}

function isOpen(method: string, openMethods: ReadonlySet<string>): boolean {
  if (method === 'GET' || method === 'DELETE') return false
  const family = /^(.+\/)[^/]+$/.exec(method)?.[1]
  return openMethods.has(method) || (family !== undefined && openMethods.has(`${family}*`))
}
