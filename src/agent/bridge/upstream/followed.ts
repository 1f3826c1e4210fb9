/**
 * Owns how a server is asked to tell of changes of a resource of MCP, and the streams on which one of
 * 2026-07-28 does (`subscriptions/listen`), which the SDK answers with no result. Contract: "Authorized
 * call": each is asked for like any other call.
 */
import type { Client, McpSubscription } from '@modelcontextprotocol/client'
import { AgentError, fail } from '../../agent-error.ts'
import { isJsonObject, type JsonObject } from '../../../wire/json.ts'
import type { ToolCall } from '../../transports/mcp.ts'

export const LISTEN = 'subscriptions/listen'
/** A server that takes such a request says so soon. */
const ACKNOWLEDGED_MILLISECONDS_MAX = 10_000
/** Each holds a connection. */
const STREAMS_MAX = 64

/** The request for changes of that resource, in the revision of the server; undefined if it tells of none. */
export function followingCall(client: Client, uri: string): ToolCall | undefined {
  if (client.getServerCapabilities()?.resources?.subscribe !== true) return undefined
  if (client.getProtocolEra() === 'legacy')
    return { tool: 'resources/subscribe', method: 'resources/subscribe', params: { uri } }
  return { tool: LISTEN, method: LISTEN, params: { notifications: { resourceSubscriptions: [uri] } } }
}

function tooMany(): AgentError {
  const detail = `As many resources of this server are followed as may be: ${STREAMS_MAX}.`
  return new AgentError('temporarily_unavailable', { detail, local: true })
}

/** The streams of one server, by the URI that each is about. */
export class Followed {
  readonly #streams = new Map<string, McpSubscription>()
  readonly #onLost: (uri: string) => void

  /** `onLost` is called when a stream ended that nobody here has ended. */
  constructor(onLost: (uri: string) => void) {
    this.#onLost = onLost
  }

  /** Opens one, in place of another about the same. Fails if the server does not tell of that resource. */
  async open(client: Client, uri: string): Promise<void> {
    if (!this.#streams.has(uri) && this.#streams.size >= STREAMS_MAX) throw tooMany()
    const timeout = ACKNOWLEDGED_MILLISECONDS_MAX
    const stream = await client.listen({ resourceSubscriptions: [uri] }, { timeout })
    if (stream.honoredFilter.resourceSubscriptions?.includes(uri) !== true) {
      await stream.close()
      fail('unexpected_answer', 'The server does not tell of changes of this resource.')
    }
    const before = this.#streams.get(uri)
    this.#streams.set(uri, stream)
    void before?.close()
    void stream.closed.then(by => {
      if (this.#streams.get(uri) !== stream) return
      this.#streams.delete(uri)
      if (by !== 'local') this.#onLost(uri)
    })
  }

  end(uri: string): void {
    const stream = this.#streams.get(uri)
    this.#streams.delete(uri)
    void stream?.close()
  }

  close(): void {
    for (const uri of this.#streams.keys()) this.end(uri)
  }
}

/** Opens the stream of a request to listen, which is about one resource. */
export async function follow(
  client: Client,
  { notifications }: JsonObject,
  followed: Followed,
): Promise<JsonObject> {
  const uris = isJsonObject(notifications) ? notifications['resourceSubscriptions'] : undefined
  const [uri] = Array.isArray(uris) ? uris : []
  if (typeof uri !== 'string') fail('request_invalid', 'Name the resource that is to be followed.')
  await followed.open(client, uri)
  return {}
}
