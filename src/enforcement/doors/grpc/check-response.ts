/**
 * Owns the writing of an Outcome as a CheckResponse, and the one place where its bytes are made. Contract:
 * "Errors" (503, never an allow, for our own outage). A CheckResponse without a status allows, so `answer`
 * checks everything before it sends it.
 */
import type { Allowed, Denied, Outcome } from '../../call.ts'
import type { CheckResponse, HeaderValueOption } from './check-messages.ts'
import { encodeCheckResponse } from './check-response-bytes.ts'
import { assert } from '../check-door.ts'
import { denialMessage, denialOf } from '../../denial.ts'
import type { HeaderLines } from '../../request/header-lines.ts'
import { upstreamHeaders } from '../../identity-headers.ts'

const OVERWRITE_IF_EXISTS_OR_ADD = 2
const VALUE_CHARACTERS_MAX = 16_384
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const FIELD_VALUE = /^[\x20-\x7e\t]*$/
/** The first byte of a CheckResponse whose field 1, the status, is present. */
const STATUS_TAG = 0x0a

const OK = 0
const PERMISSION_DENIED = 7
const RPC_CODES: ReadonlyMap<number, number> = new Map([
  [400, 3],
  [401, 16],
  [404, 5],
  [413, 8],
  [429, 8],
  [500, 13],
  [503, 14],
])

/** The bytes of the answer to a call whose received header fields are given. Throws if `answer` does. */
export function writeOutcome(outcome: Outcome, received: HeaderLines): Buffer {
  return answer(outcome.kind === 'allow' ? allowed(outcome, received) : denied(outcome))
}

/**
 * The only way out: encodes a response after asserting that its status is set, that it allows exactly when it
 * carries an ok_response, and that what it carries is well-formed. Throws otherwise; the caller then answers
 * `OUTAGE`.
 */
export function answer(response: CheckResponse): Buffer {
  const { code } = response.status
  const { denied_response, ok_response } = response
  assert(Number.isInteger(code), 'the status code is an integer')
  assert((code === OK) === (ok_response !== undefined), 'an allow, and only an allow, carries an ok_response')
  assert(
    (code === OK) !== (denied_response !== undefined),
    'a denial, and only a denial, carries a denied_response',
  )
  if (denied_response) {
    const status = denied_response.status.code
    // A JSON-RPC error may come with 200, as `denied` knows: the gateway decides by `code` alone.
    assert(status === 200 || isDenialStatus(status), 'a denial is 400 to 599')
  }
  for (const { header } of [...(ok_response?.headers ?? []), ...(denied_response?.headers ?? [])]) {
    assert(FIELD_NAME.test(header.key), 'a header name is a lower-case token')
    assert(FIELD_VALUE.test(header.value), 'a header value is printable ASCII')
    assert(header.value.length <= VALUE_CHARACTERS_MAX, 'a header value is short enough for a proxy')
  }
  const bytes = encodeCheckResponse(response)
  assert(bytes[0] === STATUS_TAG, 'the status is on the wire')
  return bytes
}

/** The answer of last resort, made before anything can go wrong. */
export const OUTAGE: Buffer = answer(denied(denialOf(undefined)))

function allowed(outcome: Allowed, received: HeaderLines): CheckResponse {
  const { set, remove } = upstreamHeaders(outcome, received)
  return {
    status: { code: OK },
    ok_response: { headers: set.map(overwriting), headers_to_remove: remove },
    dynamic_metadata: struct(outcome.metadata),
  }
}

function denied(outcome: Denied): CheckResponse {
  assert(isDenialStatus(outcome.status), 'a denial is 400 to 599, whatever status its JSON-RPC error has')
  const { status, headers, body } = denialMessage(outcome)
  const { error } = outcome.body as { error?: unknown }
  return {
    status: {
      code: RPC_CODES.get(outcome.status) ?? PERMISSION_DENIED,
      message: typeof error === 'string' ? error : 'denied',
    },
    denied_response: {
      status: { code: status },
      headers: headers.map(overwriting),
      body,
    },
    dynamic_metadata: struct(outcome.metadata),
  }
}

function isDenialStatus(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status <= 599
}

/**
 * Callers differ in which of the two members they read, and in what a missing one means. So both say
 * overwrite.
 */
function overwriting([key, value]: [string, string]): HeaderValueOption {
  return { header: { key, value }, append: { value: false }, append_action: OVERWRITE_IF_EXISTS_OR_ADD }
}

function struct(members: Record<string, string>): { fields: Record<string, { stringValue: string }> } {
  return {
    fields: Object.fromEntries(
      Object.entries(members).map(([name, value]) => [name, { stringValue: value }]),
    ),
  }
}
