/**
 * Owns calls that a client waits for as tasks (MCP 2026-07-28, extension io.modelcontextprotocol/tasks):
 * created if the owner is asked, fetched by `tasks/get`, even from another process. Contract: "Permission
 * ticket" (awaiting-owner).
 */
import { isJsonObject, type Json, type JsonObject } from '../../../wire/json.ts'
import { AgentError } from '../../agent-error.ts'
import type { ToolCall } from '../../transports/mcp.ts'
import { errorResult, waitingText } from '../answers/answers.ts'
import type { Calls } from '../calls.ts'
import { isOfOneCall, type StoredTask } from '../negotiation/family.ts'
import type { OpenRequest } from '../negotiation/request.ts'
import { replyTo, type Question } from './questions.ts'
import { unusable } from '../negotiation/state.ts'
import { NEGOTIATION_SECONDS_MAX } from '../bounds.ts'

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

interface Task {
  entry: StoredTask
  /** When its client asked for it last, seconds since the epoch. */
  lastPollAt?: number
  ending: AbortController
  /** The answer to the call, once there is one. */
  result?: JsonObject
  cancelled?: boolean
  /** The client has the answer. */
  isDelivered?: boolean
  request: OpenRequest
  /** Ends it if nobody asks for it any more. */
  timer?: NodeJS.Timeout
}

/** The tasks of one client. */
export interface Tasks {
  /** `name`: the tool as the client calls it. */
  create(request: OpenRequest, call: ToolCall, name?: string): Promise<JsonObject>
  /**
   * Undefined for a task that nobody knows. If it is completed, `onDelivered` gets what to do when that has
   * been written to the client.
   */
  get(id: string, onDelivered: (act: () => Promise<void>) => void): Promise<JsonObject | undefined>
  /** Brings a person's answer to a question of the tool's server; false for an unknown task. */
  update(id: string, responses: Json | undefined): Promise<boolean>
  cancel(id: string): Promise<boolean>
}

/**
 * How many tasks of one client may be under way or be kept with their answers; what is over gives way to what
 * is made.
 */
export const TASKS_MAX = 100
const TTL_SECONDS = 3600
/** A poll is written to disk only if that extends the task by at least this much. */
const LONGER_SECONDS_MIN = 300
const POLL_MILLISECONDS = 2000
/** A client that asked within this time asks again soon, and gets a decision then. */
const HERE_SECONDS = (5 * POLL_MILLISECONDS) / 1000
const FOR_EVER_SECONDS = 2 ** 31 - 1
const TASK_ID = /^([A-Za-z0-9_-]{43})\.[0-9a-f-]{36}$/

/** The tasks that this process knows. */
interface Shelf {
  tasks: Map<string, Task>
  drop: (task: Task) => void
  /** Makes room for so many more; false if all that it holds are under way. */
  roomFor: (more: number) => boolean
  /** A client that does not ask for it this long is no longer waiting. */
  live: (task: Task, seconds?: number) => void
  /** Whether its client asks for it at the moment. */
  hasRecentPoll: (task: Task) => boolean
}

function createShelf(now: () => number): Shelf {
  /** Oldest first. */
  const tasks: Shelf['tasks'] = new Map()
  const drop = (task: Task): void => {
    clearTimeout(task.timer)
    if (tasks.get(task.entry.id) === task) tasks.delete(task.entry.id)
  }
  /** Nobody waits with it any more; its request may have an answer that a repeat of the call gets. */
  const dismiss = (task: Task): void => {
    drop(task)
    if (!isClosed(task)) void forget(task).catch(() => undefined)
  }
  return {
    tasks,
    drop,
    roomFor: more => {
      while (tasks.size + more > TASKS_MAX) {
        const all = [...tasks.values()]
        const over = all.find(isClosed) ?? all.find(({ result }) => result !== undefined)
        if (over === undefined) return false
        dismiss(over)
      }
      return true
    },
    hasRecentPoll: ({ lastPollAt = -Infinity }) => now() - lastPollAt <= HERE_SECONDS,
    live: (task, seconds = secondsLeft(task.entry, now())) => {
      task.lastPollAt = now()
      clearTimeout(task.timer)
      task.timer = setTimeout(() => dismiss(task), seconds * 1000).unref()
    },
  }
}

/** The tasks that the calls of one client became. `now`: seconds since the epoch. */
export function createTasks(calls: Calls, now: () => number): Tasks {
  const shelf = createShelf(now)
  const { tasks, roomFor, live } = shelf
  /** Those that are being written down, and are not among the tasks yet. */
  let making = 0
  const prolong = async (task: Task): Promise<void> => {
    live(task)
    const until = Math.min(now() + TTL_SECONDS, lastOf(task.entry.created))
    if (task.cancelled === true || until - task.entry.until < LONGER_SECONDS_MIN) return
    task.entry = { ...task.entry, until }
    if (task.request.record.tasks === undefined) return
    const { entry } = task
    await task.request.waitByTasks(all => (task.cancelled === true ? all : [...without(entry, all), entry]))
  }
  const find = async (id: string): Promise<Task | undefined> => {
    const known = tasks.get(id)
    if (known !== undefined) return known
    const [, family] = TASK_ID.exec(id) ?? []
    const found = family === undefined ? undefined : await calls.find(family)
    if (found === undefined) return undefined
    const entry = found.request.record.tasks?.find(task => task.id === id)
    try {
      // Another request of the client may have brought it back meanwhile.
      const before = tasks.get(id)
      if (before !== undefined || entry === undefined || entry.until <= now()) return before
      roomFor(making + 1)
      const task = watch(calls, { entry, request: found.request }, shelf)
      live(task, entry.until - now())
      return task
    } finally {
      found.leave()
    }
  }
  return {
    create: async (request, call, name) => {
      if (!roomFor(making + 1)) throw tooMany()
      const created = now()
      const id = `${request.record.id}.${crypto.randomUUID()}`
      const until = created + TTL_SECONDS
      const own = isOfOneCall(request.record) ? {} : { call }
      const entry = { id, created, until, name, ...own }
      making++
      try {
        await request.waitByTasks(all => [...all, entry])
        const task = watch(calls, { entry, request }, shelf)
        live(task)
        return { resultType: 'task', ...describe(task) }
      } finally {
        making--
      }
    },
    get: async (id, onDelivered) => {
      const task = await find(id)
      if (task === undefined) return undefined
      await prolong(task)
      const described = describe(task)
      if (described['status'] === 'completed') onDelivered(() => delivered(task))
      return described
    },
    update: async (id, responses) => answerQuestion(await find(id), responses),
    cancel: async id => {
      const task = await find(id)
      if (task === undefined) return false
      if (task.result !== undefined || task.cancelled === true) return true
      task.cancelled = true
      live(task)
      await forget(task)
      return true
    },
  }
}

/** The task of a request, which gets its answer. */
function watch(
  calls: Calls,
  of: Pick<Task, 'entry' | 'request'>,
  { tasks, drop, hasRecentPoll }: Shelf,
): Task {
  const task: Task = { ...of, ending: new AbortController() }
  tasks.set(task.entry.id, task)
  const leave = task.request.enter({ call: task.entry.call, isHere: () => hasRecentPoll(task) })
  void finish(calls, task)
    .then(result => (result === undefined ? drop(task) : (task.result = result)))
    .finally(leave)
  return task
}

/** Whether the client was told that it is over: nothing is lost with it. */
function isClosed({ isDelivered, cancelled }: Task): boolean {
  return isDelivered === true || cancelled === true
}

function tooMany(): AgentError {
  return new AgentError('temporarily_unavailable', {
    detail: `${TASKS_MAX} tasks of this client are under way, which is as many as there may be.`,
    terminal: false,
    local: true,
  })
}

/** When a task that was made then ends, however often it is asked for. */
function lastOf(created: number): number {
  return created + NEGOTIATION_SECONDS_MAX
}

function secondsLeft({ created }: StoredTask, now: number): number {
  return Math.max(0, Math.min(TTL_SECONDS, lastOf(created) - now))
}

/**
 * A person's answer to a question of the tool's server; other questions cannot be answered here. False if
 * there is no task.
 */
function answerQuestion(task: Task | undefined, responses: Json | undefined): boolean {
  if (task === undefined) return false
  const { stage } = task.request
  const response =
    stage.name === 'asked' && isJsonObject(responses) ? responses[stage.question.id] : undefined
  if (stage.name === 'asked' && isJsonObject(response))
    stage.question.answer(replyTo(stage.question.params, response))
  return true
}

function without(entry: StoredTask, tasks: readonly StoredTask[]): StoredTask[] {
  return tasks.filter(({ id }) => id !== entry.id)
}

/** Nobody waits with this task any more. */
async function forget(task: Task): Promise<void> {
  await task.request.waitByTasks(all => without(task.entry, all)).finally(() => task.ending.abort())
}

/** The client has the answer: what no other client waits for is deleted. */
async function delivered(task: Task): Promise<void> {
  task.isDelivered = true
  const { entry, request } = task
  const isLast = without(entry, request.record.tasks ?? []).length === 0
  await (isLast ? request.delivered() : request.waitByTasks(all => without(entry, all)))
}

/**
 * The answer to the call, when the owner has decided; undefined if another process leads it and will have the
 * answer.
 */
async function finish(calls: Calls, { entry, request, ending }: Task): Promise<JsonObject | undefined> {
  const { signal } = ending
  try {
    await request.until(({ name }) => name === 'settled' || name === 'failed', FOR_EVER_SECONDS, signal)
    const { stage, record } = request
    const { resource } = record
    const call = entry.call ?? record.call
    if (stage.name === 'failed' && request.failsFor(call)) throw stage.error
    if (stage.name !== 'settled' && stage.name !== 'failed')
      throw new AgentError('aborted', { detail: 'The task was cancelled.', local: true })
    if (stage.name === 'settled' && stage.settled.kind === 'answer' && request.answers(call))
      return asObject(stage.settled.result)
    const entered = await calls.enter({ resource, call, signal })
    if (entered.kind === 'answer') return asObject(entered.result)
    entered.leave()
    throw new AgentError('challenged_again', { detail: 'The resource challenges the grant.', local: true })
  } catch (error) {
    if (error instanceof AgentError && error.code === 'in_progress') return undefined
    const reason = unusable(error)
    const failure = reason instanceof AgentError ? reason : notFinished(error)
    return errorResult(failure, request.family()) as unknown as JsonObject
  }
}

function notFinished(cause: unknown): AgentError {
  return new AgentError('unexpected_answer', { detail: 'The task failed.', local: true, cause })
}

function describe({ entry, result, cancelled, request }: Task): JsonObject {
  const { stage } = request
  const going = stage.name === 'asked' ? 'input_required' : 'working'
  const status = cancelled === true ? 'cancelled' : result === undefined ? going : 'completed'
  return {
    taskId: entry.id,
    status,
    createdAt: new Date(entry.created * 1000).toISOString(),
    lastUpdatedAt: new Date().toISOString(),
    ttlMs: (entry.until - entry.created) * 1000,
    pollIntervalMs: POLL_MILLISECONDS,
    ...(stage.name === 'waiting' || stage.name === 'approved'
      ? { statusMessage: waitingText(entry.name ?? request.record.call.tool, stage) }
      : {}),
    ...(status === 'input_required' && stage.name === 'asked' ? asking(stage.question) : {}),
    ...(status === 'completed' ? { result: result! } : {}),
  }
}

/** The question of the tool's server, which a client answers by `tasks/update`. */
function asking({ id, params }: Question): JsonObject {
  return { inputRequests: { [id]: params } }
}

function asObject(value: Json): JsonObject {
  return isJsonObject(value) ? value : {}
}
