/**
 * Owns the bridge's side towards a resource: the official SDK's client, of whichever revision the resource
 * speaks, over a `fetch` that sends each call under the grant chosen for it and no other. Contract:
 * "Authorized call", "Challenge (beat 1)": a challenge or a refusal is read here, before the SDK makes an
 * error of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type {
  Client,
  ClientCapabilities,
  Progress,
  StreamableHTTPClientTransport,
  Tool,
} from '@modelcontextprotocol/client'
import type { Json, JsonObject } from '../../wire/json.ts'
import type { PrivateKey } from '../../wire/keys.ts'
import { AgentError, fail } from '../agent-error.ts'
import { challengeIn, interpretRpc, refusalIn, type CallAnswer } from '../answer.ts'
import { TOOL_ANSWER_BYTES_MAX, toolCallParams, type ToolCall } from '../mcp.ts'
import { readMessage } from '../message.ts'
import { signedHeaders } from '../proof.ts'
import { bodyChunks, DOCUMENT_BYTES_MAX } from '../transport.ts'
import { withPlainQuestions } from './asked-back.ts'

/** One call as it is sent. */
export interface Sending {
  call: ToolCall
  /** The grant, and the key that it is bound to; left out, the call goes bare. */
  proof?: { accessToken: string; key: PrivateKey } | undefined
  /** The grant is spent by this call: no server is sent it that would refuse it for want of a session. */
  once?: boolean | undefined
  signal?: AbortSignal | undefined
  onProgress?: ((progress: Progress) => void) | undefined
}

/** A resource as the bridge speaks to it. */
export interface Upstream {
  readonly resource: string
  /** Every tool it lists, and how long the list may be kept, milliseconds. */
  listTools(): Promise<{ tools: Tool[]; ttlMs: number }>
  /**
   * Sends a call once. Fails with `unreachable` and `unsent` where it never left, `outcome_unknown` where
   * nobody can say what became of it.
   */
  send(sending: Sending): Promise<CallAnswer>
  close(): Promise<void>
}

/** What a resource is reached with. */
export interface UpstreamOptions {
  resource: string
  url: URL
  specNs: string
  now: () => number
  /** What the client of the bridge can do for a tool that asks back. */
  capabilities: () => ClientCapabilities
  onToolsChanged: () => void
}

/** What the `fetch` of one call saw. */
interface Exchange {
  proof: Sending['proof']
  sent: boolean
  answered: boolean
  /** The server knows nothing of the session that the call was sent in, so it made no call of it. */
  sessionEnded?: boolean
  answer?: CallAnswer
  failure?: AgentError
  /** Ends the SDK's wait for an answer that cannot come any more. */
  ending: AbortController
}

const CALL_MILLISECONDS_MAX = 600_000
const TTL_MILLISECONDS = 60_000
const TOOLS_MAX = 2000
const LAST_EVENT_MILLISECONDS = 250

/**
 * A resource, connected to when it is first asked, and again after a connection was lost or a server ended
 * its session.
 */
export function openUpstream(options: UpstreamOptions): Upstream {
  const underway = new AsyncLocalStorage<Exchange>()
  const connections = keepConnected(() => connect(options, underway))
  return {
    resource: options.resource,
    listTools: async () => {
      const { tools, ttlMs } = await attempted(() =>
        connections.repeatable(({ client }) => client.listTools({}, { cacheMode: 'refresh' })),
      )
      const given = typeof ttlMs === 'number' && ttlMs >= 0 ? ttlMs : TTL_MILLISECONDS
      return { tools: tools.slice(0, TOOLS_MAX), ttlMs: given }
    },
    send: async sending => {
      if (sending.once === true) await attempted(() => connections.repeatable(askForSession))
      const sendNow = async (): Promise<{ connection: Connection; exchange: Exchange; answer: Answered }> => {
        const { proof } = sending
        const ending = new AbortController()
        const exchange: Exchange = { proof, sent: false, answered: false, ending }
        const connection = await attempted(connections.current)
        const answer: Answered = await underway
          .run(exchange, () => sendCall(connection.client, sending, { exchange, options }))
          .then(
            value => ({ value }),
            (error: unknown) => ({ error }),
          )
        return { connection, exchange, answer }
      }
      let { connection, exchange, answer } = await sendNow()
      if (exchange.sessionEnded === true) {
        connections.lose(connection)
        if (sending.once !== true) ({ answer } = await sendNow())
      }
      if ('error' in answer) throw answer.error
      return answer.value
    },
    close: connections.close,
  }
}

/**
 * The SDK's client is loaded when a resource is first asked: the bridge's own client has its first answer
 * sooner.
 */
const loadSdk = () => import('@modelcontextprotocol/client')

type Answered = { value: CallAnswer } | { error: unknown }

interface Connection {
  client: Client
  transport: StreamableHTTPClientTransport
}

/** One connection at a time: made when somebody needs it, and another once that one is lost. */
function keepConnected(connectNow: () => Promise<Connection>): {
  current: () => Promise<Connection>
  lose: (connection: Connection) => void
  /**
   * A step that changes nothing, taken once more over another connection where the one there was fails it.
   */
  repeatable: <T>(step: (connection: Connection) => Promise<T>) => Promise<T>
  close: () => Promise<void>
} {
  let connected: Promise<Connection> | undefined
  let latest: Connection | undefined
  const current = async (): Promise<Connection> => {
    connected ??= connectNow()
    const mine = connected
    try {
      return (latest = await mine)
    } catch (error) {
      if (connected === mine) connected = undefined
      throw error
    }
  }
  const lose = (connection: Connection): void => {
    // Whoever lost it as well has lost it already.
    if (latest !== connection) return
    latest = connected = undefined
    void connection.client.close().catch(() => undefined)
  }
  return {
    current,
    lose,
    repeatable: async step => {
      const before = latest
      const connection = await current()
      try {
        return await step(connection)
      } catch (error) {
        if (connection !== before || error instanceof AgentError) throw error
        lose(connection)
        return step(await current())
      }
    },
    close: async () => {
      await (await connected?.catch(() => undefined))?.client.close().catch(() => undefined)
    },
  }
}

/**
 * Asking back is declared to servers of 2026-07-28 alone: an older one would ask in the middle of a call,
 * which the call's client may have left.
 */
async function connect(options: UpstreamOptions, underway: AsyncLocalStorage<Exchange>): Promise<Connection> {
  const capabilities = options.capabilities()
  const found = await connectAs(capabilities, 'auto', { options, underway })
  if (found.client.getProtocolEra() !== 'legacy' || Object.keys(capabilities).length === 0) return found
  await found.transport.terminateSession().catch(() => undefined)
  await found.client.close()
  return connectAs({}, 'legacy', { options, underway })
}

async function connectAs(
  capabilities: ClientCapabilities,
  mode: 'auto' | 'legacy',
  { options, underway }: { options: UpstreamOptions; underway: AsyncLocalStorage<Exchange> },
): Promise<Connection> {
  const { url, onToolsChanged } = options
  const sdk = await loadSdk()
  const client = new sdk.Client(
    { name: 'usher-bridge', version: '1.0' },
    {
      capabilities,
      versionNegotiation: { mode },
      inputRequired: { autoFulfill: false },
      listChanged: { tools: { autoRefresh: false, debounceMs: 50, onChanged: onToolsChanged } },
    },
  )
  const transport = new sdk.StreamableHTTPClientTransport(url, { fetch: guardedFetch(options, underway) })
  await client.connect(transport)
  return { client, transport }
}

/** Fails where the server ended the session, or forgot it. */
async function askForSession({ client, transport }: Connection): Promise<void> {
  if (transport.sessionId !== undefined) await client.ping()
}

async function sendCall(
  client: Client,
  { call, signal, onProgress }: Sending,
  { exchange, options }: { exchange: Exchange; options: UpstreamOptions },
): Promise<CallAnswer> {
  const request = { method: 'tools/call' as const, params: toolCallParams(call) }
  const { ProtocolError, specTypeSchemas, withInputRequired } = await loadSdk()
  try {
    const result = await client.request(request, withInputRequired(specTypeSchemas.CallToolResult), {
      allowInputRequired: true,
      timeout: CALL_MILLISECONDS_MAX,
      resetTimeoutOnProgress: true,
      signal:
        signal === undefined ? exchange.ending.signal : AbortSignal.any([signal, exchange.ending.signal]),
      ...(onProgress && { onprogress: onProgress }),
    })
    return { kind: 'result', result: withPlainQuestions(result as Json) }
  } catch (error) {
    if (error instanceof AgentError) throw error
    if (exchange.answer !== undefined) return exchange.answer
    if (exchange.failure !== undefined) throw exchange.failure
    if (error instanceof ProtocolError && exchange.answered) {
      const { code, message, data } = error
      return interpretRpc(options, { code, message, ...(data === undefined ? {} : { data: data as Json }) })
    }
    if (!exchange.sent)
      return fail('unreachable', `${options.url.origin} cannot be reached.`, {
        terminal: false,
        cause: error,
      })
    return fail('outcome_unknown', `${options.url.origin} did not say what became of the call.`, {
      cause: error,
    })
  }
}

/** Follows no redirect, takes no endless answer, and keeps credentials of ours from every other address. */
function guardedFetch(options: UpstreamOptions, underway: AsyncLocalStorage<Exchange>): typeof fetch {
  const { url } = options
  return async (input, init = {}) => {
    const at = new URL(input instanceof Request ? input.url : input)
    if (at.origin !== url.origin)
      fail('redirect_refused', `${url.origin} leads to ${at.origin}, which is not followed.`)
    const exchange = init.method === 'POST' ? underway.getStore() : undefined
    const text = typeof init.body === 'string' ? init.body : undefined
    const isCall = exchange !== undefined && isToolCall(text)
    const headers = new Headers(init.headers)
    if (isCall && exchange.proof !== undefined) {
      const { accessToken, key } = exchange.proof
      const proof = signedHeaders({ method: 'POST', url, body: text, accessToken }, { key, now: options.now })
      for (const [name, value] of Object.entries(proof)) headers.set(name, value)
    }
    if (isCall) exchange.sent = true
    const response = await fetch(at, { ...init, headers, redirect: 'manual' }).catch((error: unknown) => {
      if (isCall && neverLeft(error)) exchange.sent = false
      throw error
    })
    if (response.status >= 300 && response.status < 400) {
      await response.body?.cancel()
      fail('redirect_refused', `${url.origin} answered with a redirect, which is not followed.`)
    }
    if (isCall) await readRefusal(response, exchange, options)
    if (isCall && headers.has('mcp-session-id') && (response.status === 404 || response.status === 400))
      exchange.sessionEnded = exchange.answer === undefined && exchange.failure === undefined
    return bounded(response, url, isCall ? exchange : undefined)
  }
}

/** A challenge or a refusal of this call, if the answer is one. */
async function readRefusal(response: Response, exchange: Exchange, options: UpstreamOptions): Promise<void> {
  exchange.answered = response.ok
  if (response.status < 400) return
  try {
    const challenge = challengeIn(options, response)
    if (challenge !== undefined) exchange.answer = { kind: 'challenge', challenge }
    else {
      const chunks: Uint8Array[] = []
      const bounds = { url: options.url, bytesMax: DOCUMENT_BYTES_MAX }
      for await (const chunk of bodyChunks(response.clone(), bounds)) chunks.push(chunk)
      const refusal = refusalIn(options, response, readMessage(Buffer.concat(chunks).toString('utf8')))
      if (refusal !== undefined) exchange.failure = refusal
      else if (response.status < 500) exchange.answered = true
    }
  } catch (error) {
    if (error instanceof AgentError && error.code === 'challenge_untrusted') exchange.failure = error
  }
}

/**
 * The response, cut off with an error where it, or one event of its stream, is longer than any answer may be.
 */
function bounded(response: Response, url: URL, exchange: Exchange | undefined): Response {
  if (response.body === null) return response
  const isStream = response.headers.get('content-type')?.includes('text/event-stream') ?? false
  const reader = response.body.getReader()
  let bytes = 0
  let resumable = false
  const over = (): void => {
    // A stream whose events have names is taken up again by the SDK; of any other nothing more can come.
    if (isStream && !resumable) setTimeout(() => exchange?.ending.abort(), LAST_EVENT_MILLISECONDS).unref()
  }
  const body = new ReadableStream<Uint8Array>({
    pull: async controller => {
      const { done, value } = await reader.read().catch((error: unknown) => {
        over()
        throw error
      })
      if (done) {
        over()
        return controller.close()
      }
      const text = isStream ? Buffer.from(value) : undefined
      resumable ||= text !== undefined && /^id:/m.test(text.toString('latin1'))
      const gap = text?.lastIndexOf('\n\n') ?? -1
      bytes = gap === -1 ? bytes + value.byteLength : value.byteLength - gap
      if (bytes <= TOOL_ANSWER_BYTES_MAX) return controller.enqueue(value)
      const detail = `${url.origin} sent more than ${TOOL_ANSWER_BYTES_MAX} bytes. The call was made; its answer was not taken.`
      const error = new AgentError('answer_too_large', { detail, local: true })
      if (exchange !== undefined) exchange.failure = error
      exchange?.ending.abort()
      await reader.cancel().catch(() => undefined)
      controller.error(error)
    },
    cancel: reason => reader.cancel(reason),
  })
  const { status, statusText, headers } = response
  return new Response(body, { status, statusText, headers })
}

function isToolCall(body: string | undefined): boolean {
  const message = body === undefined ? undefined : readMessage(body)
  return (message as JsonObject | undefined)?.['method'] === 'tools/call'
}

const BEFORE_SENDING = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

function neverLeft(error: unknown): boolean {
  const { cause } = error as { cause?: { code?: unknown } }
  return typeof cause?.code === 'string' && BEFORE_SENDING.has(cause.code)
}

/** Connecting and listing change nothing, so what fails there is an outage. */
async function attempted<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof AgentError) throw error
    return fail('unreachable', 'The resource cannot be reached, or does not speak MCP.', {
      terminal: false,
      cause: error,
    })
  }
}
