/**
 * Owns the processes of a local stack: each is started with its own environment, writes to its own file, and
 * certainly ends. Contract: "Parties": each party runs by itself, as it would in production.
 */
import { openSync, closeSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { spawnGuarded } from './guarded-spawn.ts'

export interface ChildOptions {
  /** What people call it. */
  name: string
  command: string[]
  /** The whole environment; left out, this process's own. */
  environment?: Record<string, string>
  /** Where its output goes. */
  logFile: string
}

export interface Child {
  name: string
  logFile: string
  /** Undefined if it could not be started. */
  pid: number | undefined
  /** Undefined while it runs; afterwards how it ended, and the last lines that it wrote. */
  ended(): Promise<string | undefined>
  /** Settles when it ends. */
  exited: Promise<void>
  /** SIGTERM, then SIGKILL for one that does not end in time. */
  stop(): Promise<void>
}

const STOP_TIMEOUT_MS = 10_000
const LAST_LINES = 15

/** Starts a process. If it cannot be started, `ended` says so. */
export function startChild({ name, command, environment, logFile }: ChildOptions): Child {
  const log = openSync(logFile, 'a')
  const child = spawnGuarded(command, { signal: 'TERM', stdout: log, stderr: log, environment })
  closeSync(log)
  let ending: string | undefined
  const exited = new Promise<void>(resolve => {
    child.once('error', error => {
      ending = `${name} could not be started: ${error.message}`
      resolve()
    })
    child.once('exit', (code, signal) => {
      ending = `${name} ended (${signal ?? `exit status ${code}`})`
      resolve()
    })
  })
  return {
    name,
    logFile,
    pid: child.pid,
    exited,
    ended: async () => (ending === undefined ? undefined : `${ending}.\n${await lastLines(logFile)}`),
    stop: async () => {
      if (ending !== undefined) return
      child.kill('SIGTERM')
      const patience = new AbortController()
      await Promise.race([
        exited,
        delay(STOP_TIMEOUT_MS, undefined, { signal: patience.signal }).then(
          () => child.kill('SIGKILL'),
          () => undefined,
        ),
      ])
      patience.abort()
      await exited
    },
  }
}

async function lastLines(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch(() => '')
  const lines = text.trimEnd().split('\n').slice(-LAST_LINES)
  return lines.map(line => `    ${line}`).join('\n')
}

const CONDITION_TIMEOUT_MS = 60_000
const BETWEEN_LOOKS_MS = 25

/**
 * Waits until `condition` returns something other than undefined or false, and returns that. A throw counts
 * as "not yet" until the deadline, and is then the cause of the error that names `what`.
 */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined | false>,
  timeoutMs: number = CONDITION_TIMEOUT_MS,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    let cause: unknown
    try {
      const met = await condition()
      if (met !== undefined && met !== false) return met
    } catch (error) {
      if (error instanceof ChildEnd) throw error
      cause = error
    }
    if (performance.now() > deadline)
      throw new Error(
        `Waited ${timeoutMs / 1000} s without success: ${what}.`,
        cause === undefined ? {} : { cause },
      )
    await delay(BETWEEN_LOOKS_MS)
  }
}

/** A process ended while we waited for it, so waiting longer is useless. */
export class ChildEnd extends Error {}

/** Like `until`, but if the process has ended, it gives up at once and says what the process wrote last. */
export function untilReady(child: Child, condition: () => Promise<boolean>): Promise<boolean> {
  return until(`${child.name} to be ready (see ${child.logFile})`, async () => {
    const ending = await child.ended()
    if (ending !== undefined) throw new ChildEnd(ending)
    return condition()
  })
}
