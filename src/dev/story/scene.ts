/**
 * Owns what the steps of the story share: the agent, the owner, what each has heard so far, and how a step
 * says that something is not as it should be. Contract: "Parties".
 */
import { isDeepStrictEqual } from 'node:util'
import {
  AgentError,
  createAgent,
  type Agent,
  type AgentEvent,
  type AgentOptions,
  type CallResult,
  type Grant,
} from '../../agent/index.ts'
import { thumbprintHandle } from '../../wire/agents/handles.ts'
import {
  createOwnerClient,
  readAll,
  watchEvents,
  type OwnerClient,
  type OwnerEvent,
  type PendingItem,
} from '../../owner/index.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../../wire/signatures/keys.ts'
import type { JsonObject } from '../../wire/json.ts'
import type { Challenge } from '../../wire/negotiation/negotiation.ts'
import { until } from '../stack/child-process.ts'
import type { Stack } from '../stack/stack.ts'

/** Something is not as the story says. */
export class StoryFault extends Error {
  override readonly name = 'StoryFault'
}

/** Fails with `what`, the value expected and the one found, unless they are equal. */
export function expectEqual(what: string, found: unknown, expected: unknown): void {
  if (isDeepStrictEqual(found, expected)) return
  throw new StoryFault(`${what}\n  expected: ${show(expected)}\n       got: ${show(found)}`)
}

/** Fails with `what` and the value found unless `holds`. */
export function expectThat(what: string, holds: boolean, found: unknown): void {
  if (!holds) throw new StoryFault(`${what}\n       got: ${show(found)}`)
}

/** The value, which must be there. */
export function present<T>(what: string, value: T | undefined | null): T {
  if (value === undefined || value === null) throw new StoryFault(`${what}\n  expected one, got none`)
  return value
}

/** A value as a person reads it. */
export function show(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}

/** A call by our agent that is still under way, perhaps waiting for the owner. */
export interface RunningCall {
  events: AgentEvent[]
  /** Ends as the call ends. */
  result: Promise<CallResult>
}

/** What one step leaves for the next. */
export interface Memory {
  challenge?: Challenge
  firstCall?: RunningCall
  family?: string
  standing?: Grant
  /** That of the first grant, as both sides keep it. */
  receipt?: string
  trade?: Grant
  /** Grants from before she joined an organization, and from after. */
  before?: Grant
  governed?: { agent: ActingAgent; grant: Grant }
  /** The code of an invitation, and what it would bind her to. */
  code?: string
  preview?: JsonObject
  /** Who acts in an emergency. */
  desk?: ActingAgent
  /** A second agent that she knows. */
  other?: ActingAgent
}

/** How a call that is started is followed, and ended early. */
export interface CallWatch {
  signal?: AbortSignal
  /** Called with each event as it happens. */
  onEvent?: (event: AgentEvent) => void
}

/** An agent of ours, which keeps its grants between its calls. */
export interface ActingAgent {
  agent: Agent
  agentKey: PrivateKey
  /** `jkt:…`: what the owner knows it by. */
  handle: string
  /** Starts a call; one at a time. */
  startCall(tool: string, args?: object, options?: CallWatch): RunningCall
}

export interface Scene extends ActingAgent {
  stack: Stack
  owner: OwnerClient
  /** Everything that came down her event stream. */
  ownerEvents: OwnerEvent[]
  memory: Memory
  /** Another agent like it, which nobody knows. */
  newAgent(): ActingAgent
  close(): Promise<void>
}

/** Sets the scene: a new agent, and an owner who listens to her events. */
export async function openScene(stack: Stack, options: Partial<AgentOptions> = {}): Promise<Scene> {
  const access = { api: stack.ownerApi, issuer: stack.issuer, key: stack.household.ownerKey }
  const stream = await listen(access)
  return {
    ...openAgent(stack, options),
    stack,
    owner: createOwnerClient(access),
    ownerEvents: stream.events,
    memory: {},
    newAgent: () => openAgent(stack, options),
    close: stream.close,
  }
}

/** A new agent, which nobody knows. */
export function openAgent(stack: Stack, options: Partial<AgentOptions> = {}): ActingAgent {
  const agentKey = importPrivateJwk(generatePrivateJwk())
  let tell: (event: AgentEvent) => void = () => undefined
  const agent: Agent = createAgent({
    key: agentKey,
    allowLoopback: stack.devLoopback,
    waitSecondsMax: 60,
    onEvent: event => tell(event),
    ...options,
  })
  return {
    agent,
    agentKey,
    handle: thumbprintHandle(agentKey),
    startCall: (tool, args, { signal, onEvent } = {}) => {
      const events: AgentEvent[] = []
      tell = event => {
        events.push(event)
        onEvent?.(event)
      }
      const result = agent.call({ resource: stack.resource, tool, arguments: args, signal })
      // A step that fails before it awaits the call must not end the process by an unhandled rejection.
      result.catch(() => undefined)
      return { events, result }
    },
  }
}

/** Opens her event stream, and returns when it is open, so that no event after that is missed. */
async function listen(access: Parameters<typeof watchEvents>[0]) {
  const events: OwnerEvent[] = []
  const ending = new AbortController()
  let open = false
  const onState = (state: { kind: string }): void => {
    open = state.kind === 'open'
  }
  const reading = (async () => {
    for await (const event of watchEvents(access, { signal: ending.signal, onState })) events.push(event)
  })()
  let refused: unknown
  reading.catch((error: unknown) => (refused = error))
  await until("the owner's event stream to open", async () => {
    if (refused !== undefined) throw refused
    return open
  })
  const close = async (): Promise<void> => {
    ending.abort()
    await reading.catch(() => undefined)
  }
  return { events, close }
}

/** The first event of one of the types, when it comes; fails like the call, if that fails first. */
export async function firstEvent<T extends AgentEvent['type']>(
  call: RunningCall,
  ...types: T[]
): Promise<Extract<AgentEvent, { type: T }>> {
  const named = types.map(type => `"${type}"`).join(' or ')
  let failure: { cause: unknown } | undefined
  call.result.catch((cause: unknown) => (failure = { cause }))
  return until(`the agent to tell of ${named}`, async () => {
    const found = call.events.find(event => types.some(type => event.type === type))
    if (found === undefined && failure !== undefined)
      throw new StoryFault(`The call ended before ${named}`, { cause: failure.cause })
    return found as Extract<AgentEvent, { type: T }> | undefined
  })
}

/** The refusal of a call; undefined if it was answered. Fails, with the cause, if it ended otherwise. */
export async function refusalOf(call: RunningCall): Promise<AgentError | undefined> {
  try {
    await call.result
    return undefined
  } catch (cause) {
    if (cause instanceof AgentError) return cause
    throw new StoryFault('The call failed, and nobody refused it.', { cause })
  }
}

/** Waits for the end of a call, which must be denied. @returns the sentence that its agent got. */
export async function expectDenied(call: RunningCall): Promise<string> {
  const refusal = await refusalOf(call)
  expectEqual('It is denied.', [refusal?.code, refusal?.status], ['request_denied', 403])
  return refusal?.detail ?? ''
}

/** The request of this family, which must wait for her. */
export async function pendingItem({ owner }: Pick<Scene, 'owner'>, family: string): Promise<PendingItem> {
  const items = await readAll(owner.pending())
  return present(
    `The pending list holds ${family}.`,
    items.find(item => item.family === family),
  )
}

/** The owner's event that fits, when it comes. */
export function ownerEvent(
  scene: Scene,
  what: string,
  fits: (event: OwnerEvent) => boolean,
): Promise<OwnerEvent> {
  return until(what, async () => scene.ownerEvents.find(fits))
}
