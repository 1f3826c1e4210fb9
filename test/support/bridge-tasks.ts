/**
 * Owns tasks (MCP 2026-07-28, extension io.modelcontextprotocol/tasks) at the official SDK's client of
 * TypeScript, which has none: an answer that is a task is seen as it comes over the transport, and fetched by
 * requests of its own.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from '@modelcontextprotocol/client'

/** What a client declares that can do it. */
export const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } }

export interface TaskClient {
  /** How many calls became tasks. */
  made: () => number
  /** The task that came last. */
  latest: () => string | undefined
  /** One request about a task. */
  ask: (taskId: string, method?: 'tasks/get' | 'tasks/cancel') => Promise<Record<string, unknown>>
  /** The answer of a call; if that is a task, its result. One call at a time. */
  finished: (call: Promise<Record<string, unknown>>) => Promise<Record<string, unknown>>
}

/** A schema that takes whatever comes. */
const PASS = {
  '~standard': { version: 1 as const, vendor: 'test', validate: (value: unknown) => ({ value }) },
}
const POLL_MILLISECONDS = 200

/** Listens at a client that is connected. */
export function withTasks(client: Client): TaskClient {
  const tasks: string[] = []
  const transport = client.transport!
  const deliver = transport.onmessage!
  transport.onmessage = (message, extra) => {
    if ('result' in message && message.result['resultType'] === 'task')
      tasks.push(String(message.result['taskId']))
    deliver(message, extra)
  }
  const ask: TaskClient['ask'] = (taskId, method = 'tasks/get') =>
    client.request({ method, params: { taskId } }, PASS) as Promise<Record<string, unknown>>
  return {
    made: () => tasks.length,
    latest: () => tasks.at(-1),
    ask,
    finished: async call => {
      const before = tasks.length
      try {
        return await call
      } catch (error) {
        const taskId = tasks[before]
        if (taskId === undefined) throw error
        for (;;) {
          const { status, result } = await ask(taskId)
          if (status === 'completed') return result as Record<string, unknown>
          await delay(POLL_MILLISECONDS)
        }
      }
    },
  }
}
