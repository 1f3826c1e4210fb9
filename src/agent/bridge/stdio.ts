/**
 * Owns the bridge over standard input and output: one client, and when an answer has been written. Contract:
 * "Single-use grant": an answer is kept until it has been written.
 */
import { SUBSCRIPTION_ID_META_KEY, type JSONRPCMessage } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { AgentError } from '../agent-error.ts'
import { sentence } from './answers/answers.ts'
import { messageAsWritten } from './answers/as-written.ts'
import { openClients } from './clients.ts'
import type { Bridge, BridgeOptions } from './core.ts'
import { isListening, listenFor, type ListenedResources } from './notices/listening.ts'
import type { ServerParts } from './client-side.ts'
import { bridgeFor, serverFor, type Serving } from './serve.ts'
import { markingLines } from './answers/unchanged.ts'

/** Serves one client over standard input and output. */
export function serveOnStdio(options: BridgeOptions): Serving {
  const sent = new Map<string | number, () => Promise<void>>()
  const clients = openClients(options)
  let introduced: Promise<unknown> = Promise.resolve()
  const shared: ServerParts = {
    options,
    clients,
    whenSent: (id, act) => void sent.set(id, act),
    onIntroducing: introductions => void (introduced = introductions),
  }
  const transport = new ReportTransport(sent, {
    beforeEnd: () => introduced,
    open: params => bridgeFor(shared, params),
  })
  let end = (): void => undefined
  const closed = new Promise<void>(resolve => (end = resolve))
  const handle = serveStdio(context => serverFor(shared, context), {
    transport,
    onerror: error => options.say(sentenceOf(error)),
  })
  const inner = transport.onclose
  transport.onclose = () => {
    inner?.()
    end()
  }
  clients.prepare()
  return { address: undefined, closed: closed.then(() => clients.close()), close: () => handle.close() }
}

function sentenceOf(error: Error): string {
  return sentence(new AgentError('client_error', { detail: error.message, local: true }))
}

/** Standard output, which also reports what has been written, and input, in which a client may listen. */
class ReportTransport extends StdioServerTransport {
  readonly #sent: Map<string | number, () => Promise<void>>
  readonly #listeners: StdioListeners

  constructor(
    sent: Map<string | number, () => Promise<void>>,
    { beforeEnd, open }: { beforeEnd: () => Promise<unknown>; open: (params: JsonObject) => Bridge },
  ) {
    super(process.stdin.pipe(markingLines(beforeEnd)))
    this.#sent = sent
    this.#listeners = new StdioListeners(open, message => void this.send(message).catch(() => undefined))
  }

  override async start(): Promise<void> {
    const deliver = this.onmessage
    this.onmessage = message => this.#listeners.take(message, one => deliver?.(one))
    await super.start()
  }

  override async close(): Promise<void> {
    this.#listeners.close()
    await super.close()
    // A piped stream would continue to flow and keep the process alive.
    process.stdin.unpipe().pause()
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(messageAsWritten(message as unknown as JsonObject) as unknown as JSONRPCMessage)
    if ('method' in message) return this.#listeners.acknowledge(message)
    if (!('id' in message) || message.id === undefined) return
    this.#listeners.end(message.id)
    const act = this.#sent.get(message.id)
    this.#sent.delete(message.id)
    await act?.().catch(() => undefined)
  }
}

type Id = string | number

/** What the client listens to, by the id of the request. */
class StdioListeners {
  readonly #open: (params: JsonObject) => Bridge
  readonly #send: (message: JSONRPCMessage) => void
  /** Undefined as long as servers are asked. */
  readonly #listening = new Map<Id, ListenedResources | undefined>()

  constructor(open: (params: JsonObject) => Bridge, send: (message: JSONRPCMessage) => void) {
    this.#open = open
    this.#send = send
  }

  /** Passes the message on, a request to listen once it is known what the client will hear of. */
  take(message: JSONRPCMessage, deliver: (message: JSONRPCMessage) => void): void {
    const json = message as unknown as JsonObject
    if (json['method'] === 'notifications/cancelled' && isJsonObject(json['params']))
      this.end(json['params']['requestId'] as Id)
    if (!isListening(json)) return deliver(message)
    const id = json['id'] as Id
    this.#listening.set(id, undefined)
    const send = (notification: JsonObject): void => this.#send(notification as unknown as JSONRPCMessage)
    void listenFor(json, this.#open, send).then(listening => {
      // It was cancelled meanwhile.
      if (!this.#listening.has(id)) return listening.end()
      this.#listening.set(id, listening)
      deliver(listening.request as unknown as JSONRPCMessage)
    })
  }

  acknowledge(message: JSONRPCMessage): void {
    const { method, params } = message as unknown as { method: string; params?: Json }
    const meta = isJsonObject(params) ? params['_meta'] : undefined
    if (method !== 'notifications/subscriptions/acknowledged' || !isJsonObject(meta)) return
    this.#listening.get(meta[SUBSCRIPTION_ID_META_KEY] as Id)?.acknowledge()
  }

  end(id: Id): void {
    this.#listening.get(id)?.end()
    this.#listening.delete(id)
  }

  close(): void {
    for (const id of this.#listening.keys()) this.end(id)
  }
}
