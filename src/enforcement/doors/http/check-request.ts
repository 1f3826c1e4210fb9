/**
 * Owns the reading of a `/check` request into a Call. Contract: "Resource server enforcement point" (the
 * payload of `/check` is not shown) and "Authentication" (inputs never come from the transport): each
 * listener is configured with where to find the original request.
 */
import type { RawRequest } from '../../../http/servers/raw-server.ts'
import { UPSTREAM_HEADER_PREFIX } from '../../../wire/names.ts'
import { refuse } from '../../../wire/refusal.ts'
import type { Call, CallBody } from '../../call.ts'
import type { CheckDeadline } from '../../deadline.ts'
import { readCallBody } from '../../request/call-body.ts'
import { fieldText, readHeaderLines, type HeaderLines } from '../../request/header-lines.ts'
import { foldedName } from '../../identity-headers.ts'
import { splitTarget } from '../../request/request-target.ts'

/**
 * Where a gateway puts the call that it asks about. With `original` it asks by forward-auth: the method and
 * target of the call are in these two header fields, and nowhere else. Without it, the gateway asks as Envoy
 * does: the call's own method at `/check` + the call's own target. The gateway must itself write each field
 * named here, overwriting what a client sent.
 */
export interface GatewayHeaders {
  original?: { method: string; uri: string } | undefined
  /** Holds the call's own content-length; if left out, the announced length is not known. */
  length?: string | undefined
  /**
   * Holds the address that called the gateway, the last one of several; if left out, all calls count as one
   * source.
   */
  peer?: string | undefined
}

const PREFIX = '/check'
/** Header fields of the connection between the gateway and us, which say nothing about the call. */
const HOP_FIELDS = ['host', 'connection', 'keep-alive', 'content-length', 'transfer-encoding']

export interface HttpCheckOptions {
  gateway: GatewayHeaders
  /** The cap of `readCallBody`. */
  bodyBytesMax: number
  /** When the gateway stops waiting, if it asked at that time, in milliseconds since the epoch. */
  deadlineOf: (startAt: number) => CheckDeadline
}

/**
 * The call that a `/check` request asks about. Refuses 404 `not_found` for a request at another path; 400
 * `invalid_request` if a field that the gateway must write is missing, comes twice (even under a similar
 * name) or makes no sense, if the client sent `x-uma-*` fields that a forward-auth gateway could not remove,
 * and for everything that is refused at every door.
 */
export function readHttpCheck(request: RawRequest, options: HttpCheckOptions): Call {
  const { gateway, bodyBytesMax, deadlineOf } = options
  refuseCodedBody(request)
  const { written, sent } = separate(request, gateway)
  const { method, target } = originalOf(request, gateway, written)
  const received = readHeaderLines(sent)
  // The field is empty if the call announced no length, because not every gateway can leave a field out.
  const length = gateway.length === undefined ? undefined : written.only(gateway.length) || undefined
  const headers: HeaderLines =
    length === undefined ? received : new Map([...received, ['content-length', [length]]])
  if (gateway.original !== undefined) refuseIdentityFields(headers)
  const requestId = headers.get('x-request-id')?.[0]
  const traceparent = headers.get('traceparent')?.[0]
  return {
    method,
    ...splitTarget(target),
    headers,
    body: readBody(request, headers, bodyBytesMax),
    context: {},
    peer: readPeer(request, gateway, written),
    deadline: deadlineOf(request.receivedAt),
    isCancelled: request.isClosed,
    ...(requestId === undefined ? {} : { requestId }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
}

/**
 * Node removes chunking and ignores any other coding besides, so the bytes would not be those of the call.
 */
function refuseCodedBody({ lines }: RawRequest): void {
  const codings = lines.filter(([name]) => name.toLowerCase() === 'transfer-encoding')
  if (codings.length > 1 || codings.some(([, coding]) => coding.trim().toLowerCase() !== 'chunked'))
    refuse('invalid_request', 'Have the gateway send the body as it is, or in chunks.')
}

/** The fields that the gateway writes. */
interface Written {
  /** The value of a field; undefined if it is absent. Refuses a field that comes twice. */
  only(name: string): string | undefined
}

function separate(
  { lines }: RawRequest,
  { original, length, peer }: GatewayHeaders,
): { written: Written; sent: [string, string][] } {
  const names = new Set([original?.method, original?.uri, length, peer].filter(name => name !== undefined))
  const byName = new Map<string, string[]>([...names].map(name => [name, []]))
  const sent: [string, string][] = []
  for (const [rawName, bytes] of lines) {
    const name = rawName.toLowerCase()
    const value = fieldText(Buffer.from(bytes, 'latin1'))
    const ofGateway = byName.get(name)
    if (ofGateway === undefined && names.has(foldedName(name)))
      refuse('invalid_request', `Send no header ${name}: some take it for one that the gateway writes.`)
    if (ofGateway !== undefined) ofGateway.push(value)
    else if (!HOP_FIELDS.includes(name)) sent.push([name, value])
  }
  const only = (name: string): string | undefined => {
    const [value, ...others] = byName.get(name) ?? []
    if (others.length > 0) refuse('invalid_request', `Have the gateway write ${name} itself, and once.`)
    return value
  }
  return { written: { only }, sent }
}

function originalOf(
  request: RawRequest,
  { original }: GatewayHeaders,
  written: Written,
): { method: string; target: string } {
  if (original === undefined) {
    if (!request.target.startsWith(`${PREFIX}/`)) refuseElsewhere()
    return { method: request.method, target: request.target.slice(PREFIX.length) }
  }
  // Caddy leaves the "?" of a call whose query is empty.
  if (request.target !== PREFIX && request.target !== `${PREFIX}?`) refuseElsewhere()
  const method = written.only(original.method)
  const target = written.only(original.uri)
  if (method === undefined || target === undefined || !/^[!#$%&'*+\-.^_`|~\w]+$/.test(method)) {
    refuse(
      'invalid_request',
      `Have the gateway write method and target of the call into ${original.method} and ${original.uri}.`,
    )
  }
  return { method, target }
}

function refuseElsewhere(): never {
  refuse('not_found', `Ask at ${PREFIX}, as docs/gateways.md says for your gateway.`)
}

/** A forward-auth gateway forwards what the client sent; it can overwrite only the fields that it knows. */
function refuseIdentityFields(headers: HeaderLines): void {
  const found = [...headers.keys()].find(name => foldedName(name).startsWith(UPSTREAM_HEADER_PREFIX))
  if (found !== undefined)
    refuse('invalid_request', `Send no header ${found}: the enforcement point writes it.`)
}

function readBody({ body }: RawRequest, headers: HeaderLines, bytesMax: number): CallBody {
  const received =
    body === 'too_large'
      ? { bytes: Buffer.alloc(0), isText: false, size: -1 }
      : { bytes: body, isText: false }
  return readCallBody(received, headers, bytesMax)
}

function readPeer(request: RawRequest, { peer }: GatewayHeaders, written: Written): string {
  if (peer === undefined) return request.peer
  return written.only(peer)?.split(',').at(-1)?.trim() || 'unknown'
}
