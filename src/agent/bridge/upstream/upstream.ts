/**
 * Owns the bridge's side towards a resource: the official SDK's client, in the revision that the resource
 * speaks, and what its answer to a call means. Contract: "Authorized call", "Single-use grant".
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client, ListToolsResult, Tool } from '@modelcontextprotocol/client'
import { connectionWords } from '../../../terminal/connection-words.ts'
import type { Json, JsonObject } from '../../../wire/json.ts'
import { AgentError, fail, unsent } from '../../agent-error.ts'
import { interpretRpc, type CallAnswer } from '../../answer.ts'
import { requestOf, type ToolCall } from '../../transports/mcp.ts'
import { withoutOurMarks } from '../answers/answers.ts'
import { withoutLevel } from '../answers/message-meta.ts'
import { withPlainPages, withPlainQuestions } from '../questions/asked-back.ts'
import { newExchange, type Exchange, type GrantProof } from './exchange.ts'
import { UnreadAnswer } from '../answers/foreign-answer.ts'
import { ANY_OBJECT, entriesOf, type ListMethod } from '../listing/entries.ts'
import { createAsides, isUnheard, type Asides } from './asides.ts'
import { connectTo, type ConnectOptions, type UpstreamOptions } from './connect.ts'
import { follow, Followed, followingCall, LISTEN } from './followed.ts'
import { keepConnected, type UpstreamConnection, type UpstreamConnections } from './connections.ts'
import type { SpoiltTool } from '../answers/readable-tool.ts'
import { awaitStream, openOwnStream } from './own-stream.ts'
import type { Ask } from '../questions/questions.ts'
import { limitLogs, type ProgressListeners } from '../notices/logs.ts'
import { boundedProgress } from '../questions/progress.ts'
import { loadSdk } from '../answers/read-answer.ts'
import { askForSession, isForgotten } from './live-session.ts'
import { LIST_ENTRIES_MAX, LIST_TTL_MILLISECONDS } from '../bounds.ts'

/** One call as it is sent. */
export interface Sending extends ProgressListeners {
  call: ToolCall
  /** What the client says about the sending alone, such as `traceparent`. */
  meta?: JsonObject | undefined
  /** If left out, the call goes without a grant. */
  proof?: GrantProof | undefined
  /**
   * This call spends the grant, so it is not sent to a server that would refuse it because a session is
   * missing.
   */
  once?: boolean | undefined
  signal?: AbortSignal | undefined
  /** Asks a caller that waits for the call; left out if nobody can be asked. */
  ask?: Ask | undefined
}

/** A resource as the bridge speaks to it. */
export interface Upstream {
  readonly resource: string
  /**
   * Every tool it lists that can be read, those that cannot be, and how long the list may be kept,
   * milliseconds.
   */
  listTools(): Promise<{ tools: Tool[]; spoilt: SpoiltTool[]; ttlMs: number }>
  /**
   * Everything that it lists by a method of the protocol, such as `prompts/list`, in the member of that name;
   * nothing if it has no such method.
   */
  listAll(method: ListMethod): Promise<JsonObject[]>
  /** Whether its server, if it is one of MCP 2025-11-25, keeps a level of log messages for a session. */
  hasLevels(): Promise<boolean>
  /** Asks its server to tell of changes of a resource of MCP; undefined if it tells of none. */
  followingCall(uri: string): Promise<ToolCall | undefined>
  /** Ends the stream on which its server, if it is one of MCP 2026-07-28, tells of them. */
  unfollow(uri: string): void
  /** What its server said of itself when the connection was made. */
  introduction(): Promise<{ serverInfo: JsonObject | undefined; instructions: string | undefined }>
  /**
   * Whether what its server says outside calls is heard without a grant; undefined if it keeps no session,
   * and so says nothing there.
   */
  hearsSession(): Promise<boolean | undefined>
  /**
   * Sends a call once. Fails with `unreachable` and `unspent` if it was never sent, and with
   * `outcome_unknown` if its outcome cannot be known.
   */
  send(sending: Sending): Promise<CallAnswer>
  close(): Promise<void>
}

/** A call that tells nothing of its progress for this long ends. */
const SILENCE_MILLISECONDS_MAX = 600_000
const CALL_MILLISECONDS_MAX = 3_600_000

/**
 * A resource. The bridge connects when it is first asked, and again after a connection was lost or a server
 * ended its session.
 */
export function openUpstream(options: UpstreamOptions): Upstream {
  const underway = new AsyncLocalStorage<Exchange>()
  const asides = createAsides(options)
  const followed = new Followed(uri => options.notices?.lost(uri))
  const connections = connectionsTo(options, underway, asides)
  const silent = { onToolsChanged: () => undefined, notices: undefined, standingProof: undefined }
  const undeclared = connectionsTo({ ...options, ...silent, declaresNothing: true }, underway, asides)
  return {
    resource: options.resource,
    listTools: async () => {
      const { list, spoilt } = await attempted(() =>
        connections.repeatable(async ({ client }) => {
          const exchange = newExchange('tools/list')
          const list = await underway.run(exchange, () => listAll(client, exchange))
          return { list, spoilt: exchange.spoilt.slice(0, LIST_ENTRIES_MAX) }
        }),
      )
      const { tools, ttlMs } = list
      const lifetime = typeof ttlMs === 'number' && ttlMs >= 0 ? ttlMs : LIST_TTL_MILLISECONDS
      const why = `the list has more than ${LIST_ENTRIES_MAX} tools without it`
      const over = tools.slice(LIST_ENTRIES_MAX).map(({ name }) => ({ name, why }))
      return { tools: tools.slice(0, LIST_ENTRIES_MAX), spoilt: [...spoilt, ...over], ttlMs: lifetime }
    },
    listAll: method =>
      attempted(() => connections.repeatable(({ client }) => entriesOf(client, method, underway))),
    hasLevels: async () => {
      const { client } = await attempted(connections.current)
      return client.getServerCapabilities()?.logging !== undefined && client.getProtocolEra() === 'legacy'
    },
    followingCall: async uri => followingCall((await attempted(connections.current)).client, uri),
    unfollow: uri => followed.end(uri),
    introduction: async () => {
      const { client } = await attempted(connections.current)
      const serverInfo = client.getServerVersion() as unknown as JsonObject | undefined
      return { serverInfo, instructions: client.getInstructions() }
    },
    hearsSession: async () => {
      const connection = await attempted(connections.current)
      if (connection.transport.sessionId === undefined) return undefined
      await awaitStream(connection.stream)
      return !isUnheard(connection)
    },
    send: sending => send(sending, { options, underway, connections, undeclared, asides, followed }),
    close: async () => {
      followed.close()
      await Promise.all([connections.close(), undeclared.close()])
    },
  }
}

interface SendParts {
  options: UpstreamOptions
  underway: AsyncLocalStorage<Exchange>
  connections: UpstreamConnections
  /** Those that declare nothing that the client can be asked. */
  undeclared: UpstreamConnections
  asides: Asides
  followed: Followed
}

async function send(sending: Sending, parts: SendParts): Promise<CallAnswer> {
  const { options, underway, asides, followed } = parts
  const needSession = async (way: UpstreamConnections): Promise<void> => {
    if (sending.once === true) await attempted(() => way.repeatable(one => askForSession(one, underway)))
  }
  await needSession(parts.connections)
  const connections = await attempted(() => wayOf(sending, parts))
  if (connections !== parts.connections) await needSession(connections)
  const sendNow = async (): Promise<{
    connection: UpstreamConnection
    exchange: Exchange
    answer: Answered
  }> => {
    const exchange = newExchange(requestOf(sending.call).method, { proof: sending.proof })
    const connection = await attempted(connections.current)
    await openOwnStream(connection, sending, options)
    const { call, end } = connection.questions.begin(sending.call.tool, sending.ask)
    exchange.asking = call
    exchange.onLog = sending.onLog && limitLogs(sending.onLog)
    const [begun, wasUnheard] = [performance.now(), isUnheard(connection)]
    const answer: Answered = await connections
      .using(connection, () =>
        underway.run(exchange, () => sendCall(connection.client, sending, { exchange, options, followed })),
      )
      .then(
        value => ({ value }),
        (error: unknown) => ({ error }),
      )
      .finally(end)
    // A client that left waited for no end of the call, and its leaving says nothing of the tool.
    const hasLeft = sending.signal?.aborted === true
    const milliseconds = performance.now() - (exchange.silentSince ?? begun)
    if (mayAsk(sending.call) && !hasLeft) asides.noteEnd(call, { answer, milliseconds, wasUnheard })
    return { connection, exchange, answer }
  }
  let { connection, exchange, answer } = await sendNow()
  const isEnded =
    exchange.session === 'ended' ||
    (exchange.session === 'doubtful' && sending.once !== true && (await isForgotten(connection, underway)))
  if (isEnded) {
    connections.lose(connection)
    if (sending.once !== true) ({ answer } = await sendNow())
  }
  if ('error' in answer) throw answer.error
  return answer.value
}

/** The requests that change the session in which they are made, so that they are of use in no other. */
const OF_SESSION: ReadonlySet<string | undefined> = new Set([
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
])

const mayAsk = ({ method }: ToolCall): boolean => !OF_SESSION.has(method)

/** A tool that would ask where nobody hears it is called where it knows that nobody can be asked. */
async function wayOf(
  sending: Sending,
  { options, connections, undeclared, asides }: SendParts,
): Promise<UpstreamConnections> {
  const connection = await connections.current()
  if (!mayAsk(sending.call) || !isUnheard(connection)) return connections
  if (!(await asides.has(sending.call.tool))) return connections
  // The SDK asks for the stream as soon as there is a session, and may not have the answer yet.
  await awaitStream(connection.stream)
  await openOwnStream(connection, sending, options)
  return isUnheard(connection) ? undeclared : connections
}

/** Keeps the connection, and says when it was lost, or made again. */
function connectionsTo(
  options: ConnectOptions,
  underway: AsyncLocalStorage<Exchange>,
  asides: Asides,
): UpstreamConnections {
  let isConnectedAgain = false
  const connections: UpstreamConnections = keepConnected(async () => {
    const connection = await connectTo(options, underway, asides)
    if (isConnectedAgain) options.notices?.again()
    isConnectedAgain = true
    // Nobody tells of changes any more, so there may have been some, and the next list subscribes again.
    const subscription = connection.client.autoOpenedSubscription
    void subscription?.closed.then(by => {
      if (by !== 'remote' || !connections.lose(connection)) return
      const { promptsListChanged, resourcesListChanged } = subscription.honoredFilter
      options.onToolsChanged()
      if (promptsListChanged === true) options.notices?.listChanged('prompts')
      if (resourcesListChanged === true) options.notices?.listChanged('resources')
    })
    return connection
  })
  return connections
}

type Answered = { value: CallAnswer } | { error: unknown }

async function listAll(client: Client, exchange: Exchange): Promise<ListToolsResult> {
  try {
    return await client.listTools({}, { cacheMode: 'refresh', signal: exchange.ending.signal })
  } catch (error) {
    throw exchange.failure ?? error
  }
}

async function sendCall(
  client: Client,
  { call, meta, signal, onProgress }: Sending,
  { exchange, options, followed }: Pick<SendParts, 'options' | 'followed'> & { exchange: Exchange },
): Promise<CallAnswer> {
  const { method, params } = requestOf(call)
  const passed = client.getProtocolEra() === 'legacy' ? withoutLevel(meta) : meta
  const request = { method, params: passed === undefined ? params : { ...params, _meta: passed } }
  const { ProtocolError, specTypeSchemas, withInputRequired } = await loadSdk()
  const asker = { resource: options.resource, tool: call.tool }
  const schema = call.method === undefined ? specTypeSchemas.CallToolResult : ANY_OBJECT
  // The SDK's own bound of the whole is looked at only when the server tells something.
  const late = setTimeout(() => {
    exchange.failure ??= tooLong(options.url)
    exchange.ending.abort()
  }, options.callMillisecondsMax ?? CALL_MILLISECONDS_MAX).unref()
  try {
    if (method === LISTEN) return { kind: 'result', result: await follow(client, params, followed) }
    const result = await client.request(
      request as { method: 'tools/call'; params: { name: string } },
      withInputRequired(schema as typeof specTypeSchemas.CallToolResult),
      {
        allowInputRequired: true,
        timeout: SILENCE_MILLISECONDS_MAX,
        resetTimeoutOnProgress: true,
        signal:
          signal === undefined ? exchange.ending.signal : AbortSignal.any([signal, exchange.ending.signal]),
        ...(onProgress && { onprogress: boundedProgress(onProgress) }),
      },
    )
    return {
      kind: 'result',
      result: withPlainQuestions(withoutOurMarks(result as Json), asker),
    }
  } catch (error) {
    if (error instanceof AgentError) throw error
    if (exchange.answer !== undefined) return exchange.answer
    if (exchange.failure !== undefined) throw exchange.failure
    if (error instanceof ProtocolError && exchange.answered) {
      const { code, message } = error
      const data = withPlainPages(code, error.data as Json | undefined, asker)
      return interpretRpc(options, { code, message, ...(data === undefined ? {} : { data }) })
    }
    if (!exchange.sent)
      return fail('unreachable', unreachableText(options.url.origin, '.', error), {
        terminal: false,
        unspent: true,
        cause: error,
      })
    if (exchange.unread !== undefined) throw new UnreadAnswer(options.url, exchange.unread)
    return fail('outcome_unknown', `${options.url.origin} did not say what became of the call.`, {
      cause: error,
    })
  } finally {
    clearTimeout(late)
  }
}

function tooLong({ origin }: URL): AgentError {
  const detail = `${origin} did not say what became of the call: it took longer than any call may take.`
  return new AgentError('outcome_unknown', { detail, local: true })
}

/** With cause and remedy, such as a certificate that is not trusted; `otherwise` if they are not known. */
function unreachableText(who: string, otherwise: string, error: unknown): string {
  const why = connectionWords(error)
  return `${who} cannot be reached${why === undefined ? otherwise : `: ${why}`}`
}

/** Connecting and listing change nothing, so a failure there is an outage, and spends no grant. */
async function attempted<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof AgentError) throw unsent(error)
    return fail('unreachable', unreachableText('The resource', ', or does not speak MCP.', error), {
      terminal: false,
      unspent: true,
      cause: error,
    })
  }
}
