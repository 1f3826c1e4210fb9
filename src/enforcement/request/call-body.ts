/**
 * Owns the check that the body that a proxy showed is the whole body. Contract: "Authentication": a truncated
 * body fails closed with a named reason. Proxies signal this in different ways, and one of them not at all;
 * any sign is enough.
 */
import { refuse } from '../../wire/refusal.ts'
import type { CallBody } from '../call.ts'
import { singleLine, type HeaderLines } from './header-lines.ts'

/**
 * What a door received. `size`: the proxy's own count of body bytes, if it gives one (-1: it cut the
 * body).
 */
export interface ReceivedBody {
  bytes: Buffer
  /**
   * Whether the bytes are as the caller sent them, or are text in which the proxy replaced what it could not
   * decode.
   */
  isText: boolean
  size?: number
}

/** Only Envoy sets it, and drops a client's own copy. */
const PARTIAL_HEADER = 'x-envoy-auth-partial-body'

const RAISE_THE_CAP =
  'Raise max_request_bytes in the with_request_body setting of ext_authz and body_bytes_max here to the same value, and the per_connection_buffer_limit_bytes of the listener with them.'

/** The sentence that refuses a body that did not come at all. */
export const SEND_THE_BODY =
  'The proxy sent no body: set with_request_body (max_request_bytes, pack_as_bytes: true) on ext_authz.'

/**
 * Judges a received body against what its header fields announce. `bytesMax` is this end's cap, which the
 * proxy's max_request_bytes must equal. Refuses 415 `unsupported_media_type` for an encoded body: what was
 * checked would not be what the tool decodes.
 */
export function readCallBody(received: ReceivedBody, headers: HeaderLines, bytesMax: number): CallBody {
  refuseEncodedBody(headers)
  const announced = announcedLength(headers)
  const { length } = received.bytes
  const partial = headers.get(PARTIAL_HEADER) ?? []
  if (partial.some(value => value.trim().toLowerCase() !== 'false') || (received.size ?? 0) < 0) {
    return { state: 'truncated', setting: RAISE_THE_CAP }
  }
  if (length === 0) return { state: 'absent' }
  // The proxy marks a body that exactly fills its buffer as whole, although more may follow.
  if (length > bytesMax || (length === bytesMax && announced === undefined)) {
    return { state: 'truncated', setting: RAISE_THE_CAP }
  }
  if (announced !== undefined && announced !== length)
    return { state: 'truncated', setting: differingLength(received) }
  return {
    state: 'complete',
    bytes: received.bytes,
    lossyText: received.isText && mayHaveLostBytes(received.bytes),
  }
}

function differingLength({ isText, bytes }: ReceivedBody): string {
  if (isText && mayHaveLostBytes(bytes)) return 'Set pack_as_bytes: true in with_request_body of ext_authz.'
  return `The length of the body is not its content-length. ${RAISE_THE_CAP}`
}

function refuseEncodedBody(headers: HeaderLines): void {
  const encodings = (headers.get('content-encoding') ?? []).flatMap(line => line.split(','))
  if (encodings.some(encoding => !['', 'identity'].includes(encoding.trim().toLowerCase()))) {
    refuse('unsupported_media_type', 'Send the body without a content-encoding.')
  }
}

function announcedLength(headers: HeaderLines): number | undefined {
  const value = singleLine(headers, 'content-length')?.trim()
  if (value === undefined) return undefined
  if (!/^\d{1,15}$/.test(value)) refuse('invalid_request', 'Send content-length once, as a decimal number.')
  return Number(value)
}

/** Envoy writes `!` for each byte that is not UTF-8; other proxies write U+FFFD. */
function mayHaveLostBytes(bytes: Buffer): boolean {
  return bytes.includes('!') || bytes.includes('\u{FFFD}')
}
