/**
 * Owns the server that the official conformance suite wants to meet (its scenarios name tools, resources and
 * prompts), on the official SDK 1.x and knowing nothing of usher. It can be connected to any transport, or be
 * served over HTTP in the place of the sample tool server.
 */
import { randomUUID } from 'node:crypto'
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import {
  CallToolRequestSchema,
  CompleteRequestSchema,
  CreateMessageResultSchema,
  ElicitResultSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
  type CallToolResult,
  type ElicitRequestFormParams,
  type PromptMessage,
  type ServerNotification,
  type ServerRequest,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'
import type { Protect, ToolServer } from '../../src/dev/stack/tool-server.ts'
import { listenAsTools } from './tool-listener.ts'

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>
type Run = (args: Record<string, unknown>, extra: Extra) => Promise<CallToolResult>

const OBJECT = { type: 'object' as const, properties: {} }
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' }
const text = (words: string) => ({ type: 'text' as const, text: words })
const answer =
  (...content: CallToolResult['content']): Run =>
  () =>
    Promise.resolve({ content })

const withLogging: Run = async (_args, { sendNotification }) => {
  for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed'])
    await sendNotification({ method: 'notifications/message', params: { level: 'info', data } })
  return { content: [text('The tool told of its steps.')] }
}

const withProgress: Run = async (_args, { _meta, sendNotification }) => {
  const progressToken = _meta?.progressToken
  for (const progress of [0, 50, 100]) {
    if (progressToken !== undefined)
      await sendNotification({
        method: 'notifications/progress',
        params: { progressToken, progress, total: 100 },
      })
  }
  return { content: [text('The tool told of its progress.')] }
}

const withSampling: Run = async ({ prompt }, { sendRequest }) => {
  const content = text(String(prompt))
  const params = { messages: [{ role: 'user' as const, content }], maxTokens: 100 }
  const { content: reply } = await sendRequest(
    { method: 'sampling/createMessage', params },
    CreateMessageResultSchema,
  )
  return { content: [text(`LLM response: ${reply.type === 'text' ? reply.text : reply.type}`)] }
}

const asking =
  (form: (args: Record<string, unknown>) => ElicitRequestFormParams): Run =>
  async (args, { sendRequest }) => {
    const { action, content } = await sendRequest(
      { method: 'elicitation/create', params: form(args) },
      ElicitResultSchema,
    )
    return {
      content: [text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`)],
    }
  }

const OPTIONS = ['option1', 'option2', 'option3']
const titled = (one: string, two: string) => [
  { const: 'value1', title: one },
  { const: 'value2', title: two },
]

const CONTACT: ElicitRequestFormParams['requestedSchema'] = {
  type: 'object',
  properties: { username: { type: 'string' }, email: { type: 'string' } },
  required: ['username', 'email'],
}
const DEFAULTS: ElicitRequestFormParams['requestedSchema'] = {
  type: 'object',
  properties: {
    name: { type: 'string', default: 'John Doe' },
    age: { type: 'integer', default: 30 },
    score: { type: 'number', default: 95.5 },
    status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
    verified: { type: 'boolean', default: true },
  },
}
const ENUMS: ElicitRequestFormParams['requestedSchema'] = {
  type: 'object',
  properties: {
    untitledSingle: { type: 'string', enum: OPTIONS },
    titledSingle: { type: 'string', oneOf: titled('First Option', 'Second Option') },
    legacyEnum: { type: 'string', enum: ['opt1', 'opt2'], enumNames: ['Option One', 'Option Two'] },
    untitledMulti: { type: 'array', items: { type: 'string', enum: OPTIONS } },
    titledMulti: { type: 'array', items: { anyOf: titled('First Choice', 'Second Choice') } },
  },
}

/** Ends its stream in the middle of the call, if the transport can, and answers on the next one. */
const withReconnection: Run = (_args, { closeSSEStream }) => {
  closeSSEStream?.()
  return Promise.resolve({ content: [text('Reconnection test completed successfully')] })
}

const RUNS: Record<string, Run> = {
  test_simple_text: answer(text('This is a simple text response for testing.')),
  test_image_content: answer(image),
  test_audio_content: answer({ type: 'audio', data: WAV, mimeType: 'audio/wav' }),
  test_embedded_resource: answer({
    type: 'resource',
    resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'Embedded.' },
  }),
  test_multiple_content_types: answer(text('Multiple content types test:'), image, {
    type: 'resource',
    resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"test":"data"}' },
  }),
  test_tool_with_logging: withLogging,
  test_tool_with_progress: withProgress,
  test_error_handling: () =>
    Promise.resolve({ isError: true, content: [text('This tool intentionally returns an error')] }),
  test_sampling: withSampling,
  test_elicitation: asking(({ message }) => ({ message: String(message), requestedSchema: CONTACT })),
  test_elicitation_sep1034_defaults: asking(() => ({ message: 'Defaults', requestedSchema: DEFAULTS })),
  test_elicitation_sep1330_enums: asking(() => ({ message: 'Enums', requestedSchema: ENUMS })),
  test_reconnection: withReconnection,
  json_schema_2020_12_tool: answer(text('Done.')),
  // Not of the suite: names a resource to be read, and does not send it.
  linked_report: answer({ type: 'resource_link', uri: 'test://template/7/data', name: 'Report' }),
  // Not of the suite either: say what belongs to no call.
  update_watched: answer(text('Updated.')),
  change_lists: answer(text('Changed.')),
}

/** The names of its tools. */
export const CONFORMANCE_TOOLS: readonly string[] = Object.keys(RUNS)

const SCHEMAS: Record<string, Tool['inputSchema']> = {
  test_sampling: { type: 'object', properties: { prompt: { type: 'string' } }, required: ['prompt'] },
  test_elicitation: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  json_schema_2020_12_tool: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: {
      address: { type: 'object', properties: { street: { type: 'string' }, city: { type: 'string' } } },
    },
    properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' } },
    additionalProperties: false,
  },
}

const RESOURCES = [
  { uri: 'test://static-text', name: 'Text', description: 'A text.', mimeType: 'text/plain' },
  { uri: 'test://static-binary', name: 'Image', description: 'A picture.', mimeType: 'image/png' },
  { uri: 'test://watched-resource', name: 'Watched', description: 'It changes.', mimeType: 'text/plain' },
]

function contentsOf(uri: string): { uri: string; mimeType: string; text?: string; blob?: string } {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1]
  if (id !== undefined)
    return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true }) }
  if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: PNG }
  if (RESOURCES.some(one => one.uri === uri))
    return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' }
  throw new Error(`no resource ${uri}`)
}

const PROMPTS = [
  { name: 'test_simple_prompt', description: 'Without arguments.' },
  {
    name: 'test_prompt_with_arguments',
    description: 'With arguments.',
    arguments: [
      { name: 'arg1', description: 'The first.', required: true },
      { name: 'arg2', description: 'The second.', required: true },
    ],
  },
  {
    name: 'test_prompt_with_embedded_resource',
    description: 'With a resource.',
    arguments: [{ name: 'resourceUri', description: 'Its URI.', required: true }],
  },
  { name: 'test_prompt_with_image', description: 'With a picture.' },
]

function messagesOf(name: string, args: Record<string, string>): PromptMessage[] {
  const messages = (...content: PromptMessage['content'][]): PromptMessage[] =>
    content.map(one => ({ role: 'user', content: one }))
  if (name === 'test_simple_prompt') return messages(text('This is a simple prompt for testing.'))
  if (name === 'test_prompt_with_arguments')
    return messages(text(`Prompt with arguments: arg1='${args['arg1']}', arg2='${args['arg2']}'`))
  if (name === 'test_prompt_with_image') return messages(image, text('Please analyze the image above.'))
  const resource = { uri: args['resourceUri'] ?? '', mimeType: 'text/plain', text: 'Embedded.' }
  return messages({ type: 'resource', resource }, text('Please process the embedded resource above.'))
}

/** A new server for one connection. `onCall` hears of each call that it executes. */
export function conformanceServer(onCall: (tool: string, args: unknown) => void = () => undefined): Server {
  const server = new Server(
    { name: 'conformance', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
    },
  )
  const watched = new Set<string>()
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: CONFORMANCE_TOOLS.map(name => ({
      name,
      description: `${name} of the conformance suite`,
      inputSchema: SCHEMAS[name] ?? OBJECT,
    })),
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    onCall(params.name, params.arguments)
    const run = RUNS[params.name]
    if (run === undefined) throw new Error(`no tool ${params.name}`)
    if (params.name === 'update_watched') {
      for (const uri of watched) await server.sendResourceUpdated({ uri })
      await server.sendLoggingMessage({ level: 'debug', data: 'a detail' })
      await server.sendLoggingMessage({ level: 'error', logger: 'store', data: { of: '<b>everything</b>' } })
    }
    if (params.name === 'change_lists') {
      await server.sendPromptListChanged()
      await server.sendResourceListChanged()
    }
    return run(params.arguments ?? {}, extra)
  })
  server.setRequestHandler(ListResourcesRequestSchema, () => ({ resources: RESOURCES }))
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [
      { uriTemplate: 'test://template/{id}/data', name: 'Template', mimeType: 'application/json' },
    ],
  }))
  server.setRequestHandler(ReadResourceRequestSchema, ({ params }) => ({
    contents: [contentsOf(params.uri)],
  }))
  server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
    if (!RESOURCES.some(({ uri }) => uri === params.uri)) throw new Error(`no resource ${params.uri}`)
    watched.add(params.uri)
    return {}
  })
  server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => (watched.delete(params.uri), {}))
  server.setRequestHandler(ListPromptsRequestSchema, () => ({ prompts: PROMPTS }))
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => ({
    messages: messagesOf(params.name, params.arguments ?? {}),
  }))
  server.setRequestHandler(CompleteRequestSchema, () => ({
    completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false },
  }))
  return server
}

/** The same over HTTP with sessions, and with streams that a client can resume. */
export function startConformanceTools(
  port: number,
  protect: Protect = handler => handler,
): Promise<ToolServer> {
  const record: ToolServer['record'] = { arrivals: [], executions: [] }
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  return listenAsTools({ port, protect }, record, async (request, response, body) => {
    const { host = '', origin = `http://${host}`, 'mcp-session-id': id } = request.headers
    if ([`http://${host}`, origin].some(one => URL.parse(one)?.hostname !== '127.0.0.1'))
      return void response.writeHead(403).end()
    const session = typeof id === 'string' ? sessions.get(id) : undefined
    if (session !== undefined) return session.handleRequest(request, response, body)
    if (id !== undefined) return void response.writeHead(404).end()
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: made => void sessions.set(made, transport),
      onsessionclosed: ended => void sessions.delete(ended),
      eventStore: new InMemoryEventStore(),
      retryInterval: 500,
    })
    const called = (tool: string, args: unknown): void =>
      void record.executions.push({ tool, arguments: args })
    await conformanceServer(called).connect(transport)
    return transport.handleRequest(request, response, body)
  })
}
