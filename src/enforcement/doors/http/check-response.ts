/**
 * Owns the writing of an Outcome as the HTTP answer to a gateway. Contract: "Errors" (503, never an allow,
 * for our own outage) and "Challenge (beat 1)". 200 lets a call pass, and at some gateways any 2xx does, so
 * `checked` checks every answer before it is sent.
 */
import type { RawAnswer } from '../../../http/servers/raw-server.ts'
import type { Outcome } from '../../call.ts'
import { assert, type AnswerWriter } from '../check-door.ts'
import { denialMessage, denialOf } from '../../denial.ts'
import { upstreamHeaders } from '../../identity-headers.ts'

export interface HttpAnswerOptions {
  /**
   * The status of an outage: 503, or 424 for an Envoy that turns it into 503 itself. Envoy treats any 5xx as
   * a failure of ours, which it may be configured to let pass, and drops our answer.
   */
  outageStatus: 503 | 424
  /** A field that repeats the body of a denial, for a gateway that drops bodies. */
  bodyHeader?: string | undefined
}

/** Envoy removes the fields that this field of an allow names. */
const REMOVE_HEADER = 'x-envoy-auth-headers-to-remove'
const FIELD_NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
const FIELD_VALUE = /^[\x20-\x7e\t]*$/
const VALUE_CHARACTERS_MAX = 16_384

/** How outcomes become answers of one listener. */
export function httpAnswers(options: HttpAnswerOptions): AnswerWriter<RawAnswer> {
  const write: AnswerWriter<RawAnswer>['write'] = (outcome, received) => {
    if (outcome.kind === 'deny') return checked(outcome, denied(outcome, options))
    const { set, remove } = upstreamHeaders(outcome, received)
    const headers: RawAnswer['headers'] = [...set, ['cache-control', 'no-store']]
    if (remove.length > 0) headers.push([REMOVE_HEADER, remove.join(',')])
    return checked(outcome, { status: 200, headers, body: '' })
  }
  return { write, outage: write(denialOf(undefined), new Map()) }
}

function denied(outcome: Extract<Outcome, { kind: 'deny' }>, options: HttpAnswerOptions): RawAnswer {
  const { outageStatus, bodyHeader } = options
  const { status, headers, body } = denialMessage(outcome, { forGateway: true })
  return {
    status: status >= 500 ? outageStatus : status,
    headers: bodyHeader === undefined ? headers : [...headers, [bodyHeader, asciiJson(body)]],
    body,
  }
}

/** JSON as ASCII text: other characters are escaped. */
function asciiJson(json: string): string {
  return json.replaceAll(/[^\x20-\x7e]/g, char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/**
 * The only way out: checks that the status is 200 exactly if the call was let through, and that everything is
 * well-formed. Throws otherwise.
 */
function checked(outcome: Outcome, answer: RawAnswer): RawAnswer {
  const { status, headers } = answer
  assert(Number.isInteger(status), 'the status is an integer')
  assert(
    outcome.kind === 'allow' ? status === 200 : status >= 400 && status <= 599,
    'an allow, and only an allow, is 200',
  )
  for (const [name, value] of headers) {
    assert(FIELD_NAME.test(name), 'a header name is a lower-case token')
    assert(FIELD_VALUE.test(value), 'a header value is printable ASCII')
    assert(value.length <= VALUE_CHARACTERS_MAX, 'a header value is short enough for a gateway')
  }
  return answer
}
