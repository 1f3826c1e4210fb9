/**
 * Owns the bridge's side towards its client: an MCP server on the official SDK, over stdio or on the
 * loopback, of whichever revision the client speaks. Contract: "What the service does": the client is
 * unmodified and knows nothing of it.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  createRequestStateCodec,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ClientCapabilities,
  type JSONRPCMessage,
  type McpRequestContext,
  type Progress,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { isLoopbackHost } from '../../wire/loopback.ts'
import { AgentError } from '../agent-error.ts'
import { errorResult, sentence } from './answers.ts'
import { answerCall, QUESTION_MILLISECONDS, wordsIn, type Client, type Word } from './completion.ts'
import { openBridge, type Bridge, type BridgeOptions } from './core.ts'
import { foreignLine } from './foreign-text.ts'
import { createTasks, TASKS_EXTENSION, type Tasks } from './tasks.ts'

/** Something that goes on until it is closed. */
export interface Serving {
  /** Where it listens, on the loopback. */
  address: string | undefined
  closed: Promise<void>
  close(): Promise<void>
}

interface Opened {
  bridge: Bridge
  tasks: Tasks
  /** What the client can do, once it has said so. */
  capabilities: ClientCapabilities | undefined
}

/** What the requests of a process share. */
interface Shared {
  options: BridgeOptions
  opened: Map<string, Opened>
  /** Tells those that listen, where they do so by a request of their own. */
  listChanged?: () => void
  /** Acts once the answer to a request has been written. */
  whenSent(id: string | number, act: () => Promise<void>): void
}

/** Serves one client over standard input and output. */
export function serveOnStdio(options: BridgeOptions): Serving {
  const sent = new Map<string | number, () => Promise<void>>()
  const shared: Shared = { options, opened: new Map(), whenSent: (id, act) => void sent.set(id, act) }
  const transport = new TellingTransport(sent)
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
  prepare(shared)
  return { address: undefined, closed: closed.then(() => closeAll(shared)), close: () => handle.close() }
}

/** Serves clients over HTTP on a loopback address. */
export async function serveOnLoopback(options: BridgeOptions, host: string, port: number): Promise<Serving> {
  const { toNodeHandler } = await import('@modelcontextprotocol/node')
  const later = (act: () => Promise<void>): void => void setImmediate(() => void act().catch(() => undefined))
  const shared: Shared = { options, opened: new Map(), whenSent: (_id, act) => later(act) }
  const handler = createMcpHandler(context => serverFor(shared, context))
  shared.listChanged = () => handler.notify.toolsChanged()
  const serve = toNodeHandler(handler)
  const server = createServer((request, response) => {
    if (isForeign(request.headers.host) || isForeign(request.headers.origin?.replace(/^https?:\/\//, ''))) {
      response.writeHead(403).end()
      return
    }
    void serve(request as Parameters<typeof serve>[0], response)
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve))
  const closed = new Promise<void>(resolve => server.once('close', resolve))
  const { port: taken } = server.address() as AddressInfo
  return {
    address: `http://${host.includes(':') ? `[${host}]` : host}:${taken}/`,
    closed: closed.then(() => closeAll(shared)),
    close: async () => {
      await handler.close()
      server.closeAllConnections()
      server.close()
    },
  }
}

/** A page of somebody else's may reach the loopback, under a name or an origin of its own. */
function isForeign(host: string | undefined): boolean {
  if (host === undefined) return false
  const url = URL.parse(`http://${host}`)
  return url === null || !(isLoopbackHost(url.hostname) || url.hostname === 'localhost')
}

async function closeAll({ opened }: Shared): Promise<void> {
  await Promise.all([...opened.values()].map(({ bridge }) => bridge.close()))
}

/** With a name given, what was left is looked after before the client says anything. */
function prepare(shared: Shared): void {
  const { clientName } = shared.options
  if (clientName !== undefined) open(shared, clientName, undefined)
}

function open(
  { options, opened, listChanged }: Shared,
  client: string,
  capabilities: ClientCapabilities | undefined,
): Opened {
  const known = opened.get(client)
  if (known !== undefined) {
    known.capabilities ??= capabilities
    return known
  }
  const passed = (): ClientCapabilities => {
    const { elicitation } = made.capabilities ?? {}
    return elicitation === undefined ? {} : { elicitation }
  }
  const bridge = openBridge(options, client, passed)
  const made: Opened = { bridge, tasks: createTasks(bridge.calls), capabilities }
  opened.set(client, made)
  if (listChanged !== undefined) bridge.onChanged(listChanged)
  void bridge.calls.sweep().catch(() => undefined)
  return made
}

function serverFor(shared: Shared, { era }: McpRequestContext): Server {
  const modern = era === 'modern'
  const server = new Server(
    { name: 'usher-bridge', version: '1.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        ...(modern ? { extensions: { [TASKS_EXTENSION]: {} } } : {}),
      },
      instructions:
        'These tools belong to an owner who decides who may call them. A call may wait for her: repeat it with the same arguments.',
    },
  )
  const listening = new Set<() => void>()
  server.onclose = () => {
    for (const end of listening) end()
  }
  const heard = new WeakSet<Bridge>()
  const of = (context: ServerContext): Served => {
    const { name, capabilities } = clientOf(server, context, modern)
    const found = open(shared, shared.options.clientName ?? name, capabilities)
    if (shared.listChanged === undefined && !heard.has(found.bridge)) {
      heard.add(found.bridge)
      listening.add(found.bridge.onChanged(() => void server.sendToolListChanged().catch(() => undefined)))
    }
    return { ...found, capabilities }
  }
  server.setRequestHandler('tools/list', async (_request, context) => {
    const { tools, ttlMs } = await told(of(context).bridge.tools())
    return { tools: tools as never, ...(modern ? { ttlMs, cacheScope: 'private' as const } : {}) }
  })
  server.setRequestHandler('tools/call', async (request, context) =>
    callTool(shared, {
      server,
      context,
      request: request.params as unknown as JsonObject,
      modern,
      ...of(context),
    }),
  )
  if (modern) addTaskMethods(server, context => of(context).tasks)
  return server
}

interface Served extends Opened {
  capabilities: ClientCapabilities
}

interface Calling extends Served {
  server: Server
  context: ServerContext
  request: JsonObject
  modern: boolean
}

async function callTool(shared: Shared, calling: Calling): Promise<never> {
  const { context, request, bridge } = calling
  const name = typeof request['name'] === 'string' ? request['name'] : ''
  const listed = await bridge.find(name).catch((error: unknown) => {
    if (error instanceof AgentError) return error
    throw error
  })
  if (listed instanceof AgentError) return errorResult(listed, undefined) as never
  if (listed === undefined) throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such tool.')
  const { client, passed } = await clientSide(calling)
  const args = request['arguments']
  const { signal, id } = context.mcpReq
  const answer = await told(
    answerCall(bridge.calls, {
      name,
      resource: listed.resource,
      call: { tool: listed.tool, ...(isJsonObject(args) ? { arguments: args } : {}), ...passed },
      structured: listed.listed['outputSchema'] !== undefined,
      signal,
      holdSeconds: shared.options.holdSeconds,
      ownerConsole: shared.options.ownerConsole,
      client,
      onProgress: progressOf(context),
      onDelivered: act => {
        if (!signal.aborted) shared.whenSent(id, act)
      },
    }),
  )
  return answer as never
}

/** What the client can do for this call, and what of its words belongs to the tool. */
async function clientSide(calling: Calling): Promise<{ client: Client; passed: Passed }> {
  const { server, context, modern, capabilities, tasks, bridge } = calling
  const { elicitation, extensions } = capabilities
  const form = elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined)
  const url = elicitation?.url !== undefined
  const codec = createRequestStateCodec<{ about: string }>({ key: await bridge.secret(), ttlSeconds: 3600 })
  const raw = context.mcpReq.requestState<string>()
  const ours = raw === undefined ? undefined : await codec.verify(raw, context).catch(() => undefined)
  const passed = ours === undefined ? passedOn(context) : {}
  const words = ours === undefined ? {} : { ...wordsIn(context.mcpReq.inputResponses), about: ours.about }
  const client: Client = {
    form: modern && form,
    url: modern && url,
    words,
    progress: waitingProgress(context),
    sealed: state => codec.mint(state, context),
    ...(modern && extensions?.[TASKS_EXTENSION] !== undefined
      ? { toTask: request => tasks.create(request) }
      : {}),
    ...(!modern && form ? { askNow: (message, signal) => askNow(context, message, signal) } : {}),
    ...(!modern && url
      ? { showNow: (message, link, signal) => showNow(server, context, { message, link, signal }) }
      : {}),
  }
  return { client, passed }
}

type Passed = { inputResponses?: Json; requestState?: Json }

/** What a tool that asked back is answered. */
function passedOn({ mcpReq }: ServerContext): Passed {
  const requestState = mcpReq.requestState<string>()
  return {
    ...(mcpReq.inputResponses === undefined ? {} : { inputResponses: mcpReq.inputResponses as Json }),
    ...(requestState === undefined ? {} : { requestState }),
  }
}

async function askNow(context: ServerContext, message: string, signal: AbortSignal): Promise<Word> {
  const requestedSchema = { type: 'object' as const, properties: {} }
  const { action } = await context.mcpReq.elicitInput(
    { mode: 'form', message, requestedSchema },
    { timeout: QUESTION_MILLISECONDS, signal },
  )
  return action
}

async function showNow(
  server: Server,
  context: ServerContext,
  { message, link, signal }: { message: string; link: string; signal: AbortSignal },
): Promise<{ word: Word; decided: () => Promise<void> }> {
  const elicitationId = crypto.randomUUID()
  const { action } = await context.mcpReq.elicitInput(
    { mode: 'url', message, url: link, elicitationId },
    { timeout: QUESTION_MILLISECONDS, signal },
  )
  return { word: action, decided: server.createElicitationCompletionNotifier(elicitationId) }
}

/** Progress of the wait, one step further each time; nobody listens without a token. */
function waitingProgress(context: ServerContext): Client['progress'] {
  const progressToken = context.mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  let progress = 0
  return message => {
    progress += 0.001
    return context.mcpReq.notify({
      method: 'notifications/progress',
      params: { progressToken, progress, message },
    })
  }
}

/** Progress of the tool, passed on; its words are a stranger's. */
function progressOf(context: ServerContext): ((progress: Progress) => void) | undefined {
  const progressToken = context.mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  return ({ progress, total, message }) => {
    const params = {
      progressToken,
      progress,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message: foreignLine(message) }),
    }
    void context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
  }
}

function addTaskMethods(server: Server, tasksOf: (context: ServerContext) => Tasks): void {
  const schemas = { params: ANY_OBJECT }
  const idIn = (given: unknown): string => {
    const { taskId } = given as { taskId?: unknown }
    return typeof taskId === 'string' ? taskId : ''
  }
  const unknown = (): never => {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such task.')
  }
  server.setRequestHandler(
    'tasks/get',
    schemas,
    async (given, context) => (await tasksOf(context).get(idIn(given))) ?? unknown(),
  )
  server.setRequestHandler('tasks/cancel', schemas, async (given, context) =>
    (await tasksOf(context).cancel(idIn(given))) ? {} : unknown(),
  )
  server.setRequestHandler('tasks/update', schemas, async () => ({}))
}

/** What a handler of an extension is given is looked at there. */
const ANY_OBJECT = {
  '~standard': {
    version: 1 as const,
    vendor: 'usher',
    validate: (value: unknown) => ({ value: (value ?? {}) as JsonObject }),
  },
}

function clientOf(
  server: Server,
  context: ServerContext,
  modern: boolean,
): { name: string; capabilities: ClientCapabilities } {
  const envelope = (context.mcpReq.envelope ?? {}) as Record<string, unknown>
  const info = modern
    ? (envelope[CLIENT_INFO_META_KEY] as { name?: string } | undefined)
    : server.getClientVersion()
  const capabilities = modern
    ? (envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined)
    : server.getClientCapabilities()
  return { name: info?.name ?? 'client', capabilities: capabilities ?? {} }
}

/** An error of ours as the SDK tells it; the tool's own with its code. */
async function told<T>(outcome: Promise<T>): Promise<T> {
  try {
    return await outcome
  } catch (error) {
    if (!(error instanceof AgentError)) throw error
    throw new ProtocolError(error.rpc?.code ?? ProtocolErrorCode.InternalError, sentence(error))
  }
}

function sentenceOf(error: Error): string {
  return sentence(new AgentError('client_error', { detail: error.message, local: true }))
}

/** Standard output, with word of what has been written. */
class TellingTransport extends StdioServerTransport {
  readonly #sent: Map<string | number, () => Promise<void>>

  constructor(sent: Map<string | number, () => Promise<void>>) {
    super()
    this.#sent = sent
  }

  override async send(message: JSONRPCMessage): Promise<void> {
    await super.send(message)
    if (!('id' in message) || 'method' in message || message.id === undefined) return
    const act = this.#sent.get(message.id)
    this.#sent.delete(message.id)
    await act?.().catch(() => undefined)
  }
}
