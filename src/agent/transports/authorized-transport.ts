/**
 * Owns calls over a transport without HTTP (stdio, in process), for the clients of the official MCP SDK.
 * Contract: "Challenge (beat 1)" ("Where there is no status line"): the challenge is the `data` of a JSON-RPC
 * error, and the proof is carried in the message.
 */
import { parseJson, type Json, type JsonObject } from '../../wire/json.ts'
import { RPC_ERROR } from '../../wire/names.ts'
import { AgentError, fail } from '../agent-error.ts'
import { interpretRpc, type CallAnswer } from '../answer.ts'
import { performCall } from '../authorized-call.ts'
import { callIn, plainJson, rpcAnswer } from './mcp.ts'
import { proveMessage } from './message.ts'
import type { Directory } from '../negotiation/metadata.ts'
import type { Profile } from '../profile.ts'

/** The parts of the SDK's transports, in any version, that matter here. */
export interface MessageTransport {
  send(message: never, options?: never): Promise<void>
}

type DeliverToClient = (message: unknown, extra?: unknown) => void

/**
 * A call that the client waits for. `id` is the id under which it was last sent; the id of an answered
 * message is never used again.
 */
interface Underway {
  id: string | number
  answer(message: JsonObject, extra: unknown): void
  ending: AbortController
}

/**
 * The transport, with every request that a tool's grant may be needed for performed as a call of `resource`.
 * Everything else passes unchanged, both ways. A call is given up if the client cancels it, and all calls are
 * given up if the transport closes, even while they wait for the owner.
 */
export function authorizeTransport<T extends MessageTransport>(
  transport: T,
  resource: string,
  parts: { profile: Profile; directory: Directory },
): T {
  /** Keyed by the id that the client gave. */
  const underway = new Map<string | number, Underway>()
  let deliver: DeliverToClient | undefined
  const plainSend = (message: object, options?: unknown): Promise<void> =>
    transport.send(message as never, options as never)

  const perform = async (message: JsonObject, id: string | number, options: unknown): Promise<void> => {
    const one: Underway = { id, answer: () => undefined, ending: new AbortController() }
    underway.set(id, one)
    const exchange = (accessToken: string | undefined): Promise<Received> =>
      new Promise((resolve, reject) => {
        one.ending.signal.addEventListener('abort', () => reject(abortError()), { once: true })
        one.answer = (answer, extra) => resolve({ answer, extra })
        const sent = { ...message, id: one.id }
        const { key, now } = parts.profile
        const proven =
          accessToken === undefined
            ? sent
            : proveMessage({ resource, message: sent, accessToken, key, now: now() })
        plainSend(proven, options).catch(reject)
      })
    try {
      const { answer, extra } = await authorized(message, resource, { ...parts, one, exchange })
      if (!one.ending.signal.aborted) deliver?.({ ...answer, id }, extra)
    } catch (error) {
      if (!one.ending.signal.aborted) deliver?.({ jsonrpc: '2.0', id, error: rpcErrorOf(error) })
    } finally {
      underway.delete(id)
    }
  }

  const send = async (message: object, options?: unknown): Promise<void> => {
    const { method, id } = message as { method?: unknown; id?: unknown }
    if ((typeof id === 'string' || typeof id === 'number') && isCall(message)) {
      void perform(plainMessage(message), id, options)
      return
    }
    await plainSend(method === 'notifications/cancelled' ? cancelled(message, underway) : message, options)
  }
  const receive: DeliverToClient = (message, extra) => {
    const { method, id } = (message ?? {}) as { method?: unknown; id?: unknown }
    const one = method === undefined ? [...underway.values()].find(known => known.id === id) : undefined
    if (one === undefined) deliver?.(message, extra)
    else one.answer(message as JsonObject, extra)
  }
  const closing = (hear: unknown) => (): void => {
    for (const { ending } of underway.values()) ending.abort()
    if (typeof hear === 'function') (hear as () => void)()
  }
  return new Proxy(transport, {
    set: (target, name, value: unknown) => {
      if (name === 'onclose') return Reflect.set(target, name, closing(value), target)
      if (name !== 'onmessage') return Reflect.set(target, name, value, target)
      deliver = typeof value === 'function' ? (value as DeliverToClient) : undefined
      return Reflect.set(target, name, deliver === undefined ? undefined : receive, target)
    },
    get: (target, name) => {
      if (name === 'onmessage') return deliver
      if (name === 'send') return send
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

interface Received {
  answer: JsonObject
  extra: unknown
}

interface Exchanging {
  profile: Profile
  directory: Directory
  one: Underway
  exchange: (accessToken: string | undefined) => Promise<Received>
}

/** The server's answer to the call, when it is no challenge. */
async function authorized(
  message: JsonObject,
  resource: string,
  { profile, directory, one, exchange }: Exchanging,
): Promise<Received> {
  const { signal } = one.ending
  let first = true
  const send = async (accessToken: string | undefined): Promise<CallAnswer<Received>> => {
    if (!first) one.id = crypto.randomUUID()
    first = false
    const received = await exchange(accessToken)
    const rpc = rpcAnswer(received.answer, one.id)
    if (rpc === undefined) fail('answer_malformed', 'The server answered with no JSON-RPC answer.')
    if (rpc.kind === 'result') return { kind: 'result', result: received }
    return interpretRpc(profile, rpc.error)
  }
  const call = callIn(message)
  if (call === undefined) fail('request_invalid', 'Name the tool, and give its arguments as a JSON object.')
  return (await performCall(profile, directory, { resource, call, signal, send })).outcome
}

/** A tools/call that cannot be read is one, too: it is refused here. */
function isCall(message: object): boolean {
  const { method } = message as { method?: unknown }
  return method === 'tools/call' || callIn(message as JsonObject) !== undefined
}

/** Sends exactly what is hashed. */
function plainMessage(message: object): JsonObject {
  return parseJson(JSON.stringify(plainJson(message))) as JsonObject
}

/** Sends the notification with the id that the server knows; the call is given up. */
function cancelled(message: object, underway: ReadonlyMap<string | number, Underway>): object {
  const { params } = message as { params?: { requestId?: string | number } }
  const one = params?.requestId === undefined ? undefined : underway.get(params.requestId)
  if (one === undefined) return message
  one.ending.abort()
  return { ...message, params: { ...params, requestId: one.id } }
}

function abortError(): AgentError {
  return new AgentError('aborted', {
    detail: 'The call was given up by its caller.',
    terminal: false,
    local: true,
  })
}

/** The server's own error as it came; errors of the agent or the authority in the form of a refusal. */
function rpcErrorOf(error: unknown): { code: number; message: string; data?: Json } {
  if (!(error instanceof AgentError)) {
    return { code: RPC_ERROR.refusal, message: 'The call could not be sent.', data: { error: 'unreachable' } }
  }
  if (error.rpc !== undefined) return error.rpc as { code: number; message: string; data?: Json }
  const { code, detail, status } = error
  const data = { error: code, ...(status === undefined ? {} : { status }) }
  return { code: RPC_ERROR.refusal, message: detail, data }
}
