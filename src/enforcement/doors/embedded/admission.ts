/**
 * Owns the embedded door: it takes a request as Node's server received it, and gives back exactly the request
 * that was judged, or the denial. Contract: "Resource server enforcement point" and "Authentication": the
 * body is read here, once, and nobody else reads it from the wire.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import { readWholeBody, type FieldChanges, type UnreadBody } from '../../../http/servers/node-request.ts'
import { jsonIn, type Json } from '../../../wire/json.ts'
import { UPSTREAM_HEADER } from '../../../wire/names.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import type { Core } from '../../assembly.ts'
import type { Allowed, Call, CallBody, Denied } from '../../call.ts'
import { readCallBody } from '../../request/call-body.ts'
import { denialOf } from '../../denial.ts'
import { readHeaderLines, type HeaderLines } from '../../request/header-lines.ts'
import { upstreamHeaders } from '../../identity-headers.ts'
import { endWithGrant, type StreamEnd } from './open-streams.ts'
import { splitTarget } from '../../request/request-target.ts'
import {
  asFamily,
  asHandle,
  asOwner,
  type Family,
  type Handle,
  type Owner,
} from '../../../wire/identifiers.ts'

/** The caller, as the grant names it. A call that needs no grant has no caller. */
export interface Caller {
  owner: Owner
  /** The connection handle, `jkt:…` or issuer-qualified. */
  agent: Handle
  /** The negotiation family: the correlation id of logs, ledger and receipt. */
  family: Family
  /** `s256:` hash of the agreement. */
  contract: string
  /** Undefined for a method that is no tool. */
  tool: string | undefined
}

/**
 * What goes on to the handler: the bytes that were judged, their value if they are JSON, and the changes to
 * header fields.
 */
export interface AdmittedCall {
  kind: 'admitted'
  body: Buffer
  value: Json | undefined
  changes: FieldChanges
  /** Undefined if the call needed no grant. */
  caller: Caller | undefined
}

/** `gone`: the sender went away before the request was whole. Nobody is left to answer. */
export type CallAdmission = AdmittedCall | Denied | { kind: 'gone' }

export interface AdmissionOptions {
  core: Pick<Core, 'decide' | 'unjudged' | 'browsers'>
  bodyBytesMax: number
  /** Called with every error here that is no Refusal. */
  report: (fault: unknown) => void
  /** Called when a stream was ended because its grant was, or because nobody could tell. */
  onStreamEnd: (end: StreamEnd) => void
}

/**
 * Some frameworks shorten `url` to what follows the place where a handler is mounted, and keep what was sent
 * here.
 */
type ReceivedRequest = IncomingMessage & { originalUrl?: unknown }

/** Reads and judges one request; `stream` is its body if that is not the request itself. Never rejects. */
export type Admit = (
  request: IncomingMessage,
  response: ServerResponse,
  stream?: Readable,
) => Promise<CallAdmission>

export function createAdmission(options: AdmissionOptions): Admit {
  return async (request, response, stream = request) => {
    try {
      return await admit({ request, response, stream }, options)
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) options.report(thrown)
      const denied = denialOf(thrown)
      options.core.unjudged(denied)
      return denied
    }
  }
}

async function admit(
  received: { request: ReceivedRequest; response: ServerResponse; stream: Readable },
  { core, bodyBytesMax, onStreamEnd }: AdmissionOptions,
): Promise<CallAdmission> {
  const { request, response, stream } = received
  if (request.httpVersionMajor !== 1) throw new Error('only HTTP/1.1 is judged inside a resource')
  const target = splitTarget(receivedTarget(request))
  const headers = readHeaderLines(fieldLines(request.rawHeaders))
  const answer = core.browsers.preflight({ method: request.method ?? '', headers })
  if (answer !== undefined) return answer
  const bytes = await readWholeBody(stream, bodyBytesMax)
  if (bytes === 'gone') return { kind: 'gone' }
  const requestId = headers.get('x-request-id')?.[0]
  const traceparent = headers.get('traceparent')?.[0]
  const call: Call = {
    method: request.method ?? '',
    ...target,
    headers,
    body: bodyOf(bytes, headers, bodyBytesMax),
    context: {},
    peer: request.socket.remoteAddress ?? 'unknown',
    isCancelled: () => response.destroyed || request.socket.destroyed,
    ...(requestId === undefined ? {} : { requestId }),
    ...(traceparent === undefined ? {} : { traceparent }),
  }
  const outcome = await core.decide(call)
  if (outcome.kind === 'deny') return outcome
  // What the handler answers can be read, too.
  for (const [name, value] of core.browsers.readable(headers)) response.setHeader(name, value)
  const { isStillLive, metadata } = outcome
  if (isStillLive !== undefined)
    endWithGrant(response, isStillLive, why => onStreamEnd({ why, family: metadata.family }))
  const body = Buffer.isBuffer(bytes) ? bytes : Buffer.alloc(0)
  return {
    kind: 'admitted',
    body,
    value: valueOf(body),
    changes: upstreamHeaders(outcome, headers),
    caller: callerIn(outcome),
  }
}

/**
 * The request as it was sent, and the bytes that the signature is over. If somebody rewrote the target, it
 * may not be the one that is then executed.
 */
function receivedTarget({ url = '', originalUrl }: ReceivedRequest): string {
  if (typeof originalUrl !== 'string' || originalUrl === url) return url
  const [sent, local] = [originalUrl, url].map(text => text.split('?')) as [string[], string[]]
  const isMounted = local[0] === '/' || sent[0]!.endsWith(local[0]!)
  if (!isMounted || sent.slice(1).join('?') !== local.slice(1).join('?')) {
    throw new Error('the target of the request was rewritten before it was judged')
  }
  return originalUrl
}

function fieldLines(rawHeaders: readonly string[]): [string, string][] {
  return Array.from({ length: rawHeaders.length / 2 }, (_, i) => [rawHeaders[2 * i]!, rawHeaders[2 * i + 1]!])
}

function bodyOf(bytes: Buffer | UnreadBody, headers: HeaderLines, bytesMax: number): CallBody {
  if (bytes === 'taken') {
    refuse(
      'request_body_missing',
      'The body was read before usher could judge it: put usher before every body parser.',
    )
  }
  if (!Buffer.isBuffer(bytes)) {
    return { state: 'truncated', setting: `Send at most ${bytesMax} bytes, or raise body_bytes_max.` }
  }
  return readCallBody({ bytes, isText: false }, headers, bytesMax)
}

/** An allowed body that is no JSON belongs to a plain API, whose handler reads the bytes. */
function valueOf(body: Buffer): Json | undefined {
  return body.length === 0 ? undefined : jsonIn(body)
}

/** The caller of an allowed call; undefined if it needed no grant. */
export function callerIn({ headers }: Allowed): Caller | undefined {
  const [owner, agent, family, contract] = (['owner', 'agent', 'family', 'contract'] as const).map(
    name => headers[UPSTREAM_HEADER[name]],
  )
  if (owner === undefined || agent === undefined || family === undefined || contract === undefined)
    return undefined
  return {
    owner: asOwner(owner),
    agent: asHandle(agent),
    family: asFamily(family),
    contract,
    tool: headers[UPSTREAM_HEADER.tool],
  }
}
