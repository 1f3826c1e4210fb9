/**
 * Owns the point at which a process is killed: preloaded (`--import`) before the program, it counts what the
 * program does to the world outside (requests that it sends, files that it gives their name) and ends the
 * process by SIGKILL at the step named by `KILL_AT`: `<what>#<n>`, `before` or `after` it. Each step that was
 * reached is a line of the file `STEPS`. At the step `FULL_AT` the disk is full, for that one file.
 */
import { appendFileSync } from 'node:fs'
import promises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname } from 'node:path'

const killAt = process.env['KILL_AT']
const steps = process.env['STEPS']
const fullAt = process.env['FULL_AT']
const counts = new Map<string, number>()

/** Runs one step, and ends the process before or after it if that was asked. */
async function step<T>(what: string, run: () => Promise<T>): Promise<T> {
  const count = (counts.get(what) ?? 0) + 1
  counts.set(what, count)
  const name = `${what}#${count}`
  if (steps !== undefined) appendFileSync(steps, `${name}\n`)
  if (killAt === `before ${name}`) process.kill(process.pid, 'SIGKILL')
  if (fullAt === name) {
    const code = 'ENOSPC'
    throw Object.assign(new Error(code), { code, syscall: 'write', path: '/full' })
  }
  const done = await run()
  if (killAt === `after ${name}`) process.kill(process.pid, 'SIGKILL')
  return done
}

const { fetch } = globalThis
globalThis.fetch = (input, init) => {
  const { body, method } = init ?? {}
  const { pathname } = new URL(input instanceof Request ? input.url : input)
  if (method !== 'POST') return fetch(input, init)
  const isCall = typeof body === 'string' && body.includes('"tools/call"')
  if (!isCall && pathname !== '/token') return fetch(input, init)
  const isSigned = new Headers(init?.headers).has('signature')
  const what = isCall ? (isSigned ? 'signed call' : 'bare call') : 'ticket'
  return step(what, () => fetch(input, init))
}

// No step of its own where something is killed: what is removed can be removed again.
if (fullAt?.includes(' removed#') === true) {
  const { rm } = promises
  promises.rm = (path, options) => step(`${basename(dirname(String(path)))} removed`, () => rm(path, options))
}
const { rename } = promises
promises.rename = (from, to) => step(`${basename(dirname(String(to)))} kept`, () => rename(from, to))
syncBuiltinESMExports()
