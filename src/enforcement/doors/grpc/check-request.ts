/**
 * Owns the reading of a CheckRequest into a Call. Contract: "Resource server enforcement point" (the payload
 * of `/check` is not shown: it is Envoy's). Host and scheme are not even defined in our messages. If a
 * request says something in two ways, both must agree.
 */
import { refuse } from '../../../wire/refusal.ts'
import type { Call, CallBody } from '../../call.ts'
import { readCallBody } from '../../request/call-body.ts'
import { decodeCheckRequest, type CheckRequest, type HttpRequest } from './check-messages.ts'
import { fieldText, readHeaderLines, type HeaderLines } from '../../request/header-lines.ts'
import { splitTarget } from '../../request/request-target.ts'

/**
 * What the transport, not the message, knows about a check. If `deadline` is left out, there is none.
 */
export type CheckTransport = Pick<Call, 'deadline' | 'isCancelled'>

type HeaderMap = NonNullable<HttpRequest['header_map']>
type PeerSource = NonNullable<CheckRequest['attributes']>['source']

/**
 * The call that a CheckRequest describes. Refuses 400 `invalid_request` for bytes that are no CheckRequest,
 * for one without an HTTP request, for `headers` and `header_map`, or `body` and `raw_body`, that disagree,
 * and for targets and header fields that are refused at every door; 415 `unsupported_media_type` for an
 * encoded body. `bodyBytesMax` is the cap of `readCallBody`.
 */
export function readCheckRequest(bytes: Buffer, transport: CheckTransport, bodyBytesMax: number): Call {
  const { source, request, context_extensions } = decode(bytes).attributes ?? {}
  const http = request?.http
  if (!http?.method || !http.path) {
    refuse('invalid_request', 'Send the method and the path of an HTTP request in the check.')
  }
  const headers = readHeaders(http)
  const requestId = headers.get('x-request-id')?.[0]
  const traceparent = headers.get('traceparent')?.[0]
  return {
    method: http.method,
    ...splitTarget(http.path),
    headers,
    body: readBody(http, headers, bodyBytesMax),
    context: context_extensions ?? {},
    peer: readPeer(source),
    ...transport,
    ...(requestId === undefined ? {} : { requestId }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
}

function decode(bytes: Buffer): CheckRequest {
  try {
    return decodeCheckRequest(bytes)
  } catch (cause) {
    refuse('invalid_request', 'Send an envoy.service.auth.v3.CheckRequest.', { cause })
  }
}

function readHeaders(http: HttpRequest): HeaderLines {
  const joined = readHeaderLines(Object.entries(http.headers ?? {}))
  const apart = readHeaderLines(headerMapLines(http.header_map))
  if (apart.size === 0) return joined
  if (joined.size > 0 && !sayTheSame(joined, apart)) {
    refuse('invalid_request', 'Send headers or header_map, or the same in both.')
  }
  return apart
}

function headerMapLines(headerMap: HeaderMap | undefined): [string, string][] {
  return (headerMap?.headers ?? []).map(({ key = '', value = '', raw_value }) => {
    const text = raw_value === undefined ? '' : fieldText(raw_value)
    if (value !== '' && text !== '' && value !== text) {
      refuse('invalid_request', 'Send value or raw_value of a header, or the same in both.')
    }
    return [key, text === '' ? value : text]
  })
}

function sayTheSame(joined: HeaderLines, apart: HeaderLines): boolean {
  const listed = (lines: readonly string[]): string =>
    lines.flatMap(line => line.split(',').map(part => part.trim())).join(',')
  return (
    joined.size === apart.size &&
    [...apart].every(([name, lines]) => listed(joined.get(name) ?? []) === listed(lines))
  )
}

function readBody(http: HttpRequest, headers: HeaderLines, bytesMax: number): CallBody {
  const text = Buffer.from(http.body ?? '', 'utf8')
  const raw = http.raw_body ?? Buffer.alloc(0)
  if (text.length > 0 && raw.length > 0 && !text.equals(raw)) {
    refuse('invalid_request', 'Send body or raw_body, or the same in both.')
  }
  const isText = raw.length === 0
  const size = http.size === undefined ? {} : { size: http.size }
  return readCallBody({ bytes: isText ? text : raw, isText, ...size }, headers, bytesMax)
}

function readPeer(source: PeerSource): string {
  const { socket_address, pipe } = source?.address ?? {}
  if (socket_address?.address) return socket_address.address
  return pipe?.path ? `unix:${pipe.path}` : 'unknown'
}
