/**
 * Owns calls that a client waits for as tasks (MCP 2026-07-28, extension io.modelcontextprotocol/tasks): created where the owner is asked,
 * fetched by `tasks/get`, also from another process. contract, "Permission ticket" (awaiting-owner).
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
  const watch = (id: string, request: PendingRequest): Task => {
    const task: Task = { id, createdAt: new Date().toISOString(), ending: new AbortController(), request }
    tasks.set(id, task)
    const leave = request.enter()
    void finish(calls, task)
      .then(result => (task.result = result))
      .finally(leave)
    setTimeout(() => tasks.delete(id), TTL_MILLISECONDS).unref()
    return task
  }
  const find = async (id: string): Promise<Task | undefined> => {
    const known = tasks.get(id)
    if (known !== undefined) return known
    const [, family] = TASK_ID.exec(id) ?? []
    if (family === undefined) return undefined
    const found = await calls.find(family)
    if (found === undefined) return undefined
    const task = found.request.record.task === id ? watch(id, found.request) : undefined
    found.leave()
    return task
  }
  return {
    create: async request => {
      const id = request.record.task ?? `${request.record.id}.${crypto.randomUUID()}`
      await request.becomeTask(id)
      const task = tasks.get(id) ?? watch(id, request)
      return { resultType: 'task', ...describe(task) }
    },
    get: async id => {
      const task = await find(id)
      return task && describe(task)
    },
    cancel: async id => {
      const task = await find(id)
      if (task === undefined) return false
      task.cancelled = task.result === undefined
      await task.request.becomeTask(undefined)
      task.ending.abort()
      return true
    },
  }
}

/** The answer of the call, when the owner has decided. */
async function finish(calls: Calls, { request, ending }: Task): Promise<JsonObject> {
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
