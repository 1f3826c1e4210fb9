/**
 * Owns calls that a client waits for as tasks (MCP 2026-07-28, extension io.modelcontextprotocol/tasks):
 * created where the owner is asked, fetched by `tasks/get`, also from another process. Contract: "Permission
 * ticket" (awaiting-owner).
 */
import { isJsonObject, type Json, type JsonObject } from '../../wire/json.ts'
import { AgentError } from '../agent-error.ts'
import { errorResult, waitingText } from './answers.ts'
import type { Calls } from './calls.ts'
import type { PendingRequest } from './request.ts'

export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

interface Task {
  id: string
  createdAt: string
  ending: AbortController
  /** The answer to the call, once there is one. */
  result?: JsonObject
  cancelled?: boolean
  request: PendingRequest
  /** Ends it where nobody asks for it any more. */
  timer?: NodeJS.Timeout
}

/** The tasks of one connection. */
export interface Tasks {
  create(request: PendingRequest): Promise<JsonObject>
  /** Undefined for a task that nobody knows. */
  get(id: string): Promise<JsonObject | undefined>
  cancel(id: string): Promise<boolean>
}

const TTL_MILLISECONDS = 3_600_000
const POLL_MILLISECONDS = 2000
const FOR_EVER = 2 ** 31 - 1
const TASK_ID = /^([A-Za-z0-9_-]{43})\.[0-9a-f-]{36}$/

export function createTasks(calls: Calls): Tasks {
  const tasks = new Map<string, Task>()
  const forget = async ({ id, request, ending, timer }: Task): Promise<void> => {
    clearTimeout(timer)
    await request.waitByTasks((request.record.tasks ?? []).filter(other => other !== id))
    ending.abort()
  }
  /** Whoever does not ask for it as long as that does not wait for it. */
  const live = (task: Task): void => {
    clearTimeout(task.timer)
    task.timer = setTimeout(() => {
      tasks.delete(task.id)
      void forget(task).catch(() => undefined)
    }, TTL_MILLISECONDS).unref()
  }
  const watch = (id: string, request: PendingRequest): Task => {
    const task: Task = { id, createdAt: new Date().toISOString(), ending: new AbortController(), request }
    tasks.set(id, task)
    const leave = request.enter()
    void finish(calls, task)
      .then(result => (result === undefined ? tasks.delete(id) : (task.result = result)))
      .finally(leave)
    return task
  }
  const find = async (id: string): Promise<Task | undefined> => {
    const known = tasks.get(id)
    if (known !== undefined) return known
    const [, family] = TASK_ID.exec(id) ?? []
    if (family === undefined) return undefined
    const found = await calls.find(family)
    if (found === undefined) return undefined
    const task = found.request.record.tasks?.includes(id) === true ? watch(id, found.request) : undefined
    found.leave()
    return task
  }
  return {
    create: async request => {
      const id = `${request.record.id}.${crypto.randomUUID()}`
      await request.waitByTasks([...(request.record.tasks ?? []), id])
      const task = watch(id, request)
      live(task)
      return { resultType: 'task', ...describe(task) }
    },
    get: async id => {
      const task = await find(id)
      if (task === undefined) return undefined
      live(task)
      return describe(task)
    },
    cancel: async id => {
      const task = await find(id)
      if (task === undefined) return false
      task.cancelled = task.result === undefined
      await forget(task)
      return true
    },
  }
}

/**
 * The answer of the call, when the owner has decided; undefined where another process leads it, which will
 * have the answer.
 */
async function finish(calls: Calls, { request, ending }: Task): Promise<JsonObject | undefined> {
  const { signal } = ending
  try {
    await request.until(({ name }) => name === 'settled' || name === 'failed', FOR_EVER, signal)
    const { stage, record } = request
    if (stage.name === 'failed') throw stage.error
    if (stage.name !== 'settled')
      throw new AgentError('aborted', { detail: 'The task was cancelled.', local: true })
    if (stage.settled.kind === 'answer') return asObject(stage.settled.result)
    const { resource, call } = record
    const entered = await calls.enter({ resource, call, signal })
    if (entered.kind === 'answer') return asObject(entered.result)
    entered.leave()
    throw new AgentError('challenged_again', { detail: 'The resource challenges the grant.', local: true })
  } catch (error) {
    if (error instanceof AgentError && error.code === 'in_progress') return undefined
    if (error instanceof AgentError) return errorResult(error, request.family()) as unknown as JsonObject
    throw error
  }
}

function describe({ id, createdAt, result, cancelled, request }: Task): JsonObject {
  const { stage } = request
  const status = cancelled === true ? 'cancelled' : result === undefined ? 'working' : 'completed'
  if (status === 'completed') void request.delivered()
  return {
    taskId: id,
    status,
    createdAt,
    lastUpdatedAt: new Date().toISOString(),
    ttlMs: TTL_MILLISECONDS,
    pollIntervalMs: POLL_MILLISECONDS,
    ...(stage.name === 'waiting' ? { statusMessage: waitingText(request.record.call.tool, stage) } : {}),
    ...(status === 'completed' ? { result: result! } : {}),
  }
}

function asObject(value: Json): JsonObject {
  return isJsonObject(value) ? value : {}
}
