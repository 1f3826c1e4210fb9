/**
 * Owns the commands that a story runs as alice, in the words in which she would type them. Contract: "Owner
 * API".
 */
import { execFile } from 'node:child_process'
import type { Stack } from '../stack/stack.ts'
import { StoryFault } from './scene.ts'
import { CLI, handSettings } from './try-by-hand.ts'

const COMMAND_TIMEOUT_MS = 60_000

/** The lines that a command printed: its results, and its messages about them. */
export interface CommandOutput {
  out: string[]
  err: string[]
}

/** Runs `usher` as alice, which must end with this exit code. */
export function usher(stack: Stack, args: string[], expectedCode = 0): Promise<CommandOutput> {
  const options = { env: handSettings(stack), timeout: COMMAND_TIMEOUT_MS }
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [CLI, ...args], options, (error, out, err) => {
      const code = error === null ? 0 : error.code
      if (code === expectedCode) return resolve({ out: linesOf(out), err: linesOf(err) })
      return reject(new StoryFault(`usher ${args.join(' ')} ended with ${code}.\n${out}${err}`.trimEnd()))
    })
  })
}

function linesOf(text: string): string[] {
  return text.trimEnd().split('\n')
}
