/**
 * Owns what the steps of the story share: the agent, the owner, what each has heard so far, and how a step
 * says that something is not as it should be. Contract: "Parties".
 */
import { isDeepStrictEqual } from 'node:util'
import {
  createAgent,
  type Agent,
  type AgentEvent,
  type AgentOptions,
  type CallResult,
  type Grant,
} from '../agent/index.ts'
import { createOwnerClient, watchEvents, type OwnerClient, type OwnerEvent } from '../owner/index.ts'
import { generatePrivateJwk, importPrivateJwk, type PrivateKey } from '../wire/keys.ts'
import type { Challenge } from '../wire/negotiation.ts'
import { until } from './child-process.ts'
import type { Stack } from './stack.ts'

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
  trade?: Grant
}

/** How a call that is started is followed, and ended early. */
export interface CallWatch {
  signal?: AbortSignal
  /** Hears each event as it happens. */
  onEvent?: (event: AgentEvent) => void
}

export interface Scene {
  stack: Stack
  agentKey: PrivateKey
  /** `jkt:…`: what the owner knows the agent by. */
  handle: string
  owner: OwnerClient
  /** Everything that came down her event stream. */
  ownerEvents: OwnerEvent[]
  memory: Memory
  /** Starts a call of our agent; one agent makes them all, and keeps its grants between them. */
  startCall(tool: string, args?: object, options?: CallWatch): RunningCall
  close(): Promise<void>
}

/** Sets the scene: a new agent, and an owner who listens to her events. */
export async function openScene(stack: Stack, options: Partial<AgentOptions> = {}): Promise<Scene> {
  const agentKey = importPrivateJwk(generatePrivateJwk())
  let tell: (event: AgentEvent) => void = () => undefined
  const agent: Agent = createAgent({
    key: agentKey,
    allowLoopback: stack.devLoopback,
    waitSecondsMax: 60,
    onEvent: event => tell(event),
    ...options,
  })
  const access = { api: stack.ownerApi, issuer: stack.issuer, key: stack.household.ownerKey }
  const stream = await listen(access)
  return {
    stack,
    agentKey,
    handle: `jkt:${agentKey.thumbprint}`,
    owner: createOwnerClient(access),
    ownerEvents: stream.events,
    memory: {},
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
    close: stream.close,
  }
}

/** Opens her event stream, and answers once it stands: an event after that is not missed. */
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

/** The first event of the type, once it was told; fails as the call fails, if that comes first. */
export async function told<T extends AgentEvent['type']>(
  call: RunningCall,
  type: T,
): Promise<Extract<AgentEvent, { type: T }>> {
  let failure: { cause: unknown } | undefined
  call.result.catch((cause: unknown) => (failure = { cause }))
  return until(`the agent to tell of "${type}"`, async () => {
    const found = call.events.find(event => event.type === type)
    if (found === undefined && failure !== undefined)
      throw new StoryFault(`The call ended before "${type}"`, { cause: failure.cause })
    return found as Extract<AgentEvent, { type: T }> | undefined
  })
}

/** The owner's event that fits, once it came. */
export function heard(scene: Scene, what: string, fits: (event: OwnerEvent) => boolean): Promise<OwnerEvent> {
  return until(what, async () => scene.ownerEvents.find(fits))
}
