/**
 * Owns the official Python SDK's client as a test leads it: a process that starts the bridge itself, told
 * what to do by lines of JSON.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** What the client starts, and what it says of itself. */
export interface PythonClientOptions {
  /** The interpreter. */
  program: string
  server: { command: string; args: string[]; env: Record<string, string> }
  name: string
  mode: 'legacy' | '2026-07-28'
  /** The word to each question; left out, the client declares that it cannot be asked. */
  answer?: ((asked: { mode: string; message: string; url?: string }) => Promise<string>) | undefined
  /** It declares that a call may become a task. */
  tasks: boolean
}

export interface PythonClient {
  pid: number
  /** What it and the bridge wrote to standard error. */
  said: () => string
  /** How often the server said that its list of tools changed. */
  changes: () => number
  /** How many calls became tasks. */
  tasks: () => number
  call(
    tool: string,
    args: object,
    on?: { signal?: AbortSignal; onprogress?: (progress: { progress: number; message?: string }) => void },
  ): Promise<Record<string, unknown>>
  tools(): Promise<Record<string, unknown>[]>
  close(): Promise<void>
}

type Heard = Record<string, unknown> & { id?: number; error?: string }

const SCRIPT = join(import.meta.dirname, 'python', 'bridge_client.py')

/** Starts it, and resolves once it is connected. */
export async function startPythonClient(options: PythonClientOptions): Promise<PythonClient> {
  const { program, server, name, mode, answer, tasks } = options
  const child = spawn(program, [SCRIPT], { stdio: 'pipe' })
  const tell = (message: object): void => void child.stdin.write(`${JSON.stringify(message)}\n`)
  let said = ''
  let changes = 0
  let made = 0
  child.stderr.on('data', chunk => (said += String(chunk)))
  const waiting = new Map<number, (heard: Heard) => void>()
  const progressing = new Map<number, (progress: { progress: number; message?: string }) => void>()
  const ended = new Promise<void>(resolve => child.once('close', () => resolve()))
  const ready = new Promise<void>((resolve, reject) => {
    void ended.then(() => {
      for (const end of waiting.values()) end({ error: 'the client ended' })
      reject(new Error(`the Python client ended: ${said}`))
    })
    createInterface({ input: child.stdout }).on('line', line => {
      const heard = JSON.parse(line) as Heard
      if (heard['ready'] === true) resolve()
      else if (heard['changed'] === true) changes++
      else if (heard['task'] !== undefined) made++
      else if (heard['asks'] !== undefined)
        void answer?.(heard['asks'] as { mode: string; message: string }).then(word =>
          tell({ id: heard.id, word }),
        )
      else if (heard['progress'] !== undefined)
        progressing.get(heard.id!)?.(heard['progress'] as { progress: number })
      else waiting.get(heard.id!)?.(heard)
    })
  })
  child.stdin.on('error', () => undefined)
  tell({ ...server, name, mode, elicits: answer !== undefined, tasks })
  await ready
  let count = 0
  const ask = async (
    what: object,
    on: Parameters<PythonClient['call']>[2] = {},
  ): Promise<Record<string, unknown>> => {
    const id = ++count
    if (on.onprogress) progressing.set(id, on.onprogress)
    on.signal?.addEventListener('abort', () => tell({ cancel: id }), { once: true })
    const heard = await new Promise<Heard>(resolve => {
      waiting.set(id, resolve)
      tell({ id, ...what })
    })
    if (heard.error !== undefined) throw new Error(heard.error)
    return heard['result'] as Record<string, unknown>
  }
  return {
    pid: child.pid!,
    said: () => said,
    changes: () => changes,
    tasks: () => made,
    call: (tool, args, on) => ask({ call: [tool, args], progress: on?.onprogress !== undefined }, on),
    tools: async () => (await ask({ tools: true }))['tools'] as Record<string, unknown>[],
    close: async () => {
      child.stdin.end()
      await ended
    },
  }
}
