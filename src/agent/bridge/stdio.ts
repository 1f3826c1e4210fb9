/**
 * Owns the bridge over standard input and output: one client, and when an answer has been written. Contract:
 * "Single-use grant": an answer is kept until it has been written.
 */
import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import type { JsonObject } from '../../wire/json.ts'
import { AgentError } from '../agent-error.ts'
import { sentence } from './answers/answers.ts'
import { messageAsWritten } from './answers/as-written.ts'
import { openClients } from './clients.ts'
import type { BridgeOptions } from './core.ts'
import { serverFor, type Serving, type ServerParts } from './serve.ts'
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
  const transport = new ReportTransport(sent, () => introduced)
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

/** Standard output, which also reports what has been written. */
class ReportTransport extends StdioServerTransport {
  readonly #sent: Map<string | number, () => Promise<void>>

  constructor(sent: Map<string | number, () => Promise<void>>, beforeEnd: () => Promise<unknown>) {
    super(process.stdin.pipe(markingLines(beforeEnd)))
    this.#sent = sent
  }

  override async close(): Promise<void> {
    await super.close()
    // A piped stream would continue to flow and keep the process alive.
    process.stdin.unpipe().pause()
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(messageAsWritten(message as unknown as JsonObject) as unknown as JSONRPCMessage)
    if (!('id' in message) || 'method' in message || message.id === undefined) return
    const act = this.#sent.get(message.id)
    this.#sent.delete(message.id)
    await act?.().catch(() => undefined)
  }
}
