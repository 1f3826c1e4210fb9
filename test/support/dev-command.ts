/** Owns `usher dev` as its tests run it, from the sources: it is in no bundle. */
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'

const CLI = join(import.meta.dirname, '..', '..', 'src', 'cli.ts')

interface Ended {
  code: number
  out: string
  err: string
}

/** Starts it, to be ended by a signal; `printed` is what it wrote so far. */
export function startDev(args: string[]): { printed: () => string; end: () => Promise<number | null> } {
  const child = spawn(process.execPath, [CLI, 'dev', ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', chunk => (out += String(chunk)))
  const code = new Promise<number | null>(resolve => child.once('close', resolve))
  return {
    printed: () => out,
    end: () => {
      child.kill('SIGINT')
      return code
    },
  }
}

/** Runs it to its end. */
export function dev(args: string[], environment: Record<string, string> = {}): Promise<Ended> {
  const env = { ...process.env, ...environment }
  return new Promise(resolve => {
    execFile(process.execPath, [CLI, 'dev', ...args], { env, timeout: 110_000 }, (error, out, err) =>
      resolve({ code: error === null ? 0 : Number(error.code), out, err }),
    )
  })
}
