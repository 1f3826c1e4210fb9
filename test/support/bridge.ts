/**
 * Owns the bridge as a client meets it: a separate process on standard input and output, under the official
 * SDK's clients of both revisions.
 */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client as Client2 } from '@modelcontextprotocol/client'
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import type { Stack } from '../../src/dev/stack/stack.ts'
import { createOwnerClient, type OwnerClient, type PendingItem } from '../../src/owner/index.ts'
import { python } from './python.ts'
import { withTasks } from './bridge-tasks.ts'
import { startPythonClient, type PythonClient } from './python-client.ts'
import { usherProgram } from './usher-program.ts'

/** The SDK's clients, by package and revision. */
export type ClientKind = (typeof TYPESCRIPT)[number] | (typeof PYTHON)[number]
const TYPESCRIPT = ['1.x 2025-11-25', '2.x 2025-11-25', '2.x 2026-07-28'] as const
const PYTHON = ['Python 2025-11-25', 'Python 2026-07-28'] as const
const pythonWithMcp = python('mcp')

/** Those that this machine has. */
export const CLIENTS: readonly ClientKind[] =
  'found' in pythonWithMcp ? [...TYPESCRIPT, ...PYTHON] : TYPESCRIPT
/** A line for the report if those of Python are missing. */
export const PYTHON_CLIENT = pythonWithMcp

export interface Elicited {
  mode: string
  message: string
  url?: string
  requestedSchema?: { properties: Record<string, { enum?: string[] }>; required?: string[] }
}

export interface BridgeOptions {
  kind?: ClientKind
  /** The client's name, which decides whose keys are used. */
  name: string
  resources: readonly string[]
  /** The folder of the bridge's state. */
  state: string
  args?: readonly string[]
  /** Words before its command, such as those that give it processes of its own. */
  under?: readonly string[]
  capabilities?: object
  /** The person's word to each question; questions are counted. */
  /** What she fills in; by default the first choice of each field that is required. */
  fills?: (asked: Elicited) => object | undefined
  word?: (asked: Elicited) => 'accept' | 'decline' | 'cancel' | Promise<'accept' | 'decline' | 'cancel'>
  environment?: Record<string, string>
  /** The longest message that the client takes; 10 MiB, as the SDK has it. */
  bufferBytesMax?: number
}

export interface ToolAnswer {
  text: string
  isError: boolean
  reason: unknown
  family: unknown
  meta: Record<string, unknown>
}

export interface BridgedClient {
  client: Client1 | Client2 | undefined
  pid: number
  elicited: Elicited[]
  /** How often the bridge said that its list of tools changed. */
  changes: () => number
  /** How many calls became tasks; their answers were fetched. */
  tasks: () => number
  /** What the bridge wrote to standard error. */
  said: () => string
  call: (name: string, args?: object, options?: CallOptions) => Promise<ToolAnswer>
  tools: () => Promise<Record<string, unknown>[]>
  /** Ends the process as a crash would. */
  kill: () => Promise<void>
  close: () => Promise<void>
}

export interface CallOptions {
  signal?: AbortSignal
  onprogress?: (progress: { progress: number; message?: string | undefined }) => void
}

const CLI = usherProgram()

/** Starts a bridge under a client of that kind. */
export async function startBridge(options: BridgeOptions): Promise<BridgedClient> {
  const { kind = '1.x 2025-11-25', name, resources, state, args = [], capabilities = {}, word } = options
  const elicited: Elicited[] = []
  const answerTo = async (
    params: unknown,
  ): Promise<{ action: 'accept' | 'decline' | 'cancel'; content?: object }> => {
    const asked = params as Elicited
    elicited.push(asked)
    const action = (await word?.(asked)) ?? 'accept'
    const content = (options.fills ?? filledIn)(asked)
    return action === 'accept' && asked.mode !== 'url' && content !== undefined
      ? { action, content }
      : { action }
  }
  const [command, ...rest] = [...(options.under ?? []), process.execPath, CLI, 'agent', 'bridge']
  const server = {
    command,
    args: [...rest, ...resources, ...args],
    env: {
      PATH: process.env['PATH']!,
      HOME: state,
      UMA_DEV_LOOPBACK: 'true',
      UMA_BRIDGE_STATE: state,
      ...options.environment,
    },
    stderr: 'pipe' as const,
    ...(options.bufferBytesMax === undefined ? {} : { maxBufferSize: options.bufferBytesMax }),
  }
  if (kind.startsWith('Python')) {
    const asks = 'elicitation' in capabilities
    const answer = async (asked: Elicited): Promise<string> => (await answerTo(asked)).action
    const tasks = 'extensions' in capabilities
    return underPython({ kind, name, server, answer: asks ? answer : undefined, tasks, elicited })
  }
  const transport = kind.startsWith('1') ? new Stdio1(server) : new Stdio2(server)
  let said = ''
  transport.stderr?.on('data', chunk => (said += String(chunk)))
  let changes = 0
  const onChanged = (): void => void changes++
  const client = await connect(kind, { name, capabilities, transport, answerTo, onChanged })
  const tasks = client instanceof Client2 ? withTasks(client) : undefined
  return {
    client,
    pid: transport.pid!,
    elicited,
    changes: () => changes,
    tasks: () => tasks?.made() ?? 0,
    said: () => said,
    call: async (tool, given = {}, { signal, onprogress } = {}) => {
      const sending = { timeout: 60_000, ...(signal && { signal }), ...(onprogress && { onprogress }) }
      const request = { name: tool, arguments: given as Record<string, unknown> }
      const result =
        client instanceof Client2
          ? await tasks!.finished(client.callTool(request, sending))
          : await client.callTool(request, undefined, sending)
      return answerIn(result)
    },
    tools: async () => (await client.listTools()).tools,
    kill: async () => {
      const ended = new Promise<void>(resolve => {
        const before = client.onclose
        client.onclose = () => {
          before?.()
          resolve()
        }
      })
      process.kill(transport.pid!, 'SIGKILL')
      await ended
    },
    close: () => client.close(),
  }
}

/** The first choice of each field that is required. */
export function filledIn({ requestedSchema }: Elicited): object {
  const fields = requestedSchema?.required ?? []
  return Object.fromEntries(fields.map(name => [name, requestedSchema?.properties[name]?.enum?.[0] ?? 'x']))
}

async function underPython(options: {
  kind: ClientKind
  name: string
  server: { command: string; args: string[]; env: Record<string, string> }
  answer: ((asked: Elicited) => Promise<string>) | undefined
  tasks: boolean
  elicited: Elicited[]
}): Promise<BridgedClient> {
  if (!('found' in pythonWithMcp)) throw new Error(pythonWithMcp.missing)
  const { kind, name, server, answer, tasks, elicited } = options
  const mode = kind.endsWith('2026-07-28') ? '2026-07-28' : 'legacy'
  const { program } = pythonWithMcp.found
  const client: PythonClient = await startPythonClient({ program, server, name, mode, answer, tasks })
  return {
    client: undefined,
    pid: client.pid,
    elicited,
    changes: client.changes,
    tasks: client.tasks,
    said: client.said,
    call: async (tool, given = {}, on = {}) => answerIn(await client.call(tool, given, on)),
    tools: () => client.tools(),
    kill: async () => {
      throw new Error('the bridge is a child of the Python client')
    },
    close: () => client.close(),
  }
}

/** What a call was answered, as a test looks at it. */
export function answerIn(result: Record<string, unknown>): ToolAnswer {
  const { content, isError, _meta } = result as {
    content: { text?: string }[]
    isError?: boolean
    _meta?: Record<string, unknown>
  }
  const meta = _meta ?? {}
  return {
    text: content.map(part => part.text ?? '').join('\n'),
    isError: isError === true,
    reason: meta['usher/reason'],
    family: meta['usher/family'],
    meta,
  }
}

/** Whether the client is to call again: a slow machine takes longer for it than a call is held. */
export function isToRepeat({ reason }: ToolAnswer): boolean {
  return reason === 'waiting' || reason === 'approved'
}

/** The answer of a call that is repeated as its words say. */
export async function repeated(call: () => Promise<ToolAnswer>): Promise<ToolAnswer> {
  for (;;) {
    const answer = await call()
    if (!isToRepeat(answer)) return answer
  }
}

async function connect(
  kind: ClientKind,
  using: {
    name: string
    capabilities: object
    transport: Stdio1 | Stdio2
    answerTo: (params: unknown) => Promise<{ action: 'accept' | 'decline' | 'cancel'; content?: object }>
    onChanged: () => void
  },
): Promise<Client1 | Client2> {
  const { name, capabilities, transport, answerTo, onChanged } = using
  const asks = 'elicitation' in capabilities
  if (transport instanceof Stdio1) {
    const client = new Client1({ name, version: '1' }, { capabilities })
    client.setNotificationHandler(ToolListChangedNotificationSchema, onChanged)
    if (asks)
      client.setRequestHandler(
        ElicitRequestSchema,
        async ({ params }) => (await answerTo(params)) as { action: 'accept' },
      )
    await client.connect(transport)
    return client
  }
  const mode = kind.endsWith('2026-07-28') ? { pin: '2026-07-28' } : ('legacy' as const)
  const listChanged = { tools: { autoRefresh: false, debounceMs: 0, onChanged } }
  const client = new Client2(
    { name, version: '1' },
    { capabilities, versionNegotiation: { mode }, listChanged },
  )
  if (asks)
    client.setRequestHandler(
      'elicitation/create',
      async ({ params }) => (await answerTo(params)) as { action: 'accept' },
    )
  await client.connect(transport)
  return client
}

/** A folder for the bridge's state, and what was started with it, ended together. */
export async function bridgeFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'usher-bridge-'))
  // What was just told to end may still write what it knows.
  const remove = (): Promise<void> =>
    rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 20 })
  return { folder, remove }
}

/**
 * Every file under a folder, with its text; without those that a bridge removes while this looks. Left out is
 * also what it is writing, or was killed in the middle of: names that begin with a dot.
 */
export async function filesIn(folder: string): Promise<{ path: string; text: string }[]> {
  const names = await readdir(folder, { recursive: true, withFileTypes: true })
  const whole = names.filter(entry => entry.isFile() && !entry.name.startsWith('.'))
  const files = whole.map(entry => join(entry.parentPath, entry.name))
  const read = await Promise.all(
    files.map(async path => {
      const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error
        return undefined
      })
      return text === undefined ? [] : [{ path, text }]
    }),
  )
  return read.flat()
}

/** The owner of the stack, as a test acts for her. */
export function ownerOf(stack: Stack): OwnerClient {
  return createOwnerClient({ api: stack.ownerApi, issuer: stack.issuer, key: stack.household.ownerKey })
}

export async function pendingOf(owner: OwnerClient): Promise<PendingItem[]> {
  const items: PendingItem[] = []
  for await (const item of owner.pending()) items.push(item)
  return items
}
