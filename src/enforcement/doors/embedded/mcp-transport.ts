/**
 * Owns the embedded door for MCP over transports without HTTP: stdio, in process, any other that hands
 * JSON-RPC messages to a server of the official SDK. Contract: "Challenge (beat 1)" ("Where there is no
 * status line") and "Authorized call".
 */
import type { Logger } from '../../../http/telemetry/log.ts'
import { canonicalize, isJsonObject, parseJson, type Json, type JsonObject } from '../../../wire/json.ts'
import { takeProof } from '../../../wire/signatures/message-proof.ts'
import { MESSAGE_META } from '../../../wire/names.ts'
import { Refusal, refuse } from '../../../wire/refusal.ts'
import type { Core } from '../../assembly.ts'
import type { Call, Denied } from '../../call.ts'
import { denialOf } from '../../denial.ts'
import { rpcDenial } from '../../json-rpc-denial.ts'
import { readHeaderLines } from '../../request/header-lines.ts'
import type { Route } from '../../request/routes.ts'
import { callerIn, type Caller } from './admission.ts'
import { createToolMarks, type ToolMarks } from './tool-marks.ts'

/** The part of an SDK transport, in any version, that matters here. */
export interface McpTransport {
  send(message: never, options?: never): Promise<void>
}

export interface TransportDoorOptions {
  core: Pick<Core, 'decide' | 'unjudged'>
  bodyBytesMax: number
  logger: Logger
}

type Deliver = (message: unknown, extra?: unknown) => void
type Send = (message: object) => Promise<void>

/** A message as it may be delivered. */
interface Passed {
  message: Json
}

/**
 * The transport, with every incoming message judged before the server gets it. A denied message is answered
 * here if it asked for an answer, and dropped otherwise. Outgoing messages pass; a list of tools is marked
 * with what each call needs.
 */
export function guardTransport<T extends McpTransport>(
  transport: T,
  route: Route,
  options: TransportDoorOptions,
): T {
  const judging = new Map<unknown, { cancelled: boolean }>()
  const send: Send = message => transport.send(message as never)
  const marks = createToolMarks(
    route,
    () => Date.now() / 1000,
    () => void send(LIST_CHANGED).catch(() => undefined),
  )
  let deliver: Deliver | undefined

  const hand = async (received: unknown, extra: unknown): Promise<void> => {
    const verdict = await judgeMessage({ received, extra, judging, marks }, route, options)
    if ('message' in verdict) deliver?.(verdict.message, extra)
    else await answerDenied(verdict, received, send)
  }
  const receive: Deliver = (received, extra) => {
    hand(received, extra).catch((error: unknown) =>
      options.logger.error({ err: error }, 'a judged message could not be handed on, or a denial not sent'),
    )
  }
  return new Proxy(transport, {
    // The server assigns it when it connects; reading it gives what was assigned.
    set: (target, name, value: unknown) => {
      if (name !== 'onmessage') return Reflect.set(target, name, value, target)
      deliver = typeof value === 'function' ? (value as Deliver) : undefined
      return Reflect.set(target, name, deliver === undefined ? undefined : receive, target)
    },
    get: (target, name) => {
      if (name === 'onmessage') return deliver
      if (name === 'send')
        return (message: never, sending?: never) => target.send(marks.sent(message), sending)
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

const LIST_CHANGED = { jsonrpc: '2.0', method: 'notifications/tools/list_changed' }

interface Incoming {
  received: unknown
  extra: unknown
  /** The requests that are being judged, by id: one may be cancelled before it is let through. */
  judging: Map<unknown, { cancelled: boolean }>
  marks: ToolMarks
}

/** Never rejects. */
async function judgeMessage(
  { received, extra, judging, marks }: Incoming,
  route: Route,
  { core, bodyBytesMax, logger }: TransportDoorOptions,
): Promise<Passed | Denied> {
  try {
    refuseHttp(extra)
    const { message, proof } = takeProof(plainMessage(received))
    const bytes = Buffer.from(canonicalize(message))
    if (bytes.length > bodyBytesMax) {
      refuse('request_body_too_large', `Send at most ${bodyBytesMax} bytes, or raise body_bytes_max.`)
    }
    noteCancellation(message, judging)
    const state = { cancelled: false }
    const { id } = message
    if (id !== undefined) judging.set(id, state)
    const call = callOf({ bytes, proof, route, isCancelled: () => state.cancelled })
    const outcome = await core.decide(call)
    marks.judged(message, call, outcome)
    if (judging.get(id) === state) judging.delete(id)
    // The server gets the value of exactly the bytes that were judged.
    return outcome.kind === 'deny' ? outcome : { message: withCaller(parseJson(bytes), callerIn(outcome)) }
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) logger.error({ err: thrown }, 'a message could not be read')
    const denied = denialOf(thrown)
    core.unjudged(denied)
    return denied
  }
}

/** The bytes that an HTTP signature covers are gone when a transport hands on a message. */
function refuseHttp(extra: unknown): void {
  const { requestInfo, request } = (extra ?? {}) as { requestInfo?: unknown; request?: unknown }
  if (requestInfo !== undefined || request !== undefined) {
    throw new Error('a message came over HTTP: protect the HTTP handler in place of the transport')
  }
}

/** Getters and `toJSON` run once, here, so that later readers cannot get another value. */
function plainMessage(received: unknown): JsonObject {
  const message = parseJson(JSON.stringify(received) ?? 'null')
  return isJsonObject(message) ? message : refuse('invalid_request', 'Send one JSON-RPC message, no batch.')
}

function noteCancellation({ method, params }: JsonObject, judging: Incoming['judging']): void {
  if (method !== 'notifications/cancelled' || !isJsonObject(params)) return
  const state = judging.get(params.requestId)
  if (state !== undefined) state.cancelled = true
}

function callOf(judged: {
  bytes: Buffer
  proof: Record<string, string>
  route: Route
  isCancelled: () => boolean
}): Call {
  const { bytes, proof, route, isCancelled } = judged
  return {
    method: 'POST',
    path: route.path,
    headers: readHeaderLines(Object.entries(proof)),
    body: { state: 'complete', bytes, lossyText: false },
    context: { owner: route.owner },
    peer: 'in-process',
    isCancelled,
  }
}

/** Where a server over HTTP would find header fields. */
function withCaller(message: Json, caller: Caller | undefined): Json {
  if (caller === undefined || !isJsonObject(message)) return message
  const params = isJsonObject(message.params) ? message.params : {}
  const meta = isJsonObject(params._meta) ? params._meta : {}
  const { tool, ...who } = caller
  const identity = { ...who, ...(tool === undefined ? {} : { tool }) }
  return { ...message, params: { ...params, _meta: { ...meta, [MESSAGE_META.caller]: identity } } }
}

/** Nobody waits for an answer to a notification or a response. */
async function answerDenied(denied: Denied, received: unknown, send: Send): Promise<void> {
  const { id, method } = (received ?? {}) as { id?: unknown; method?: unknown }
  if (method === undefined || (typeof id !== 'string' && typeof id !== 'number')) return
  await send({ jsonrpc: '2.0', id, error: rpcDenial(denied) })
}
