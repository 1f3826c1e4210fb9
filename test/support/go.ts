/**
 * Owns the program in Go that tests run beside ours: other people's modules (`go/main.go`). `go/go.sum` pins
 * them. It is built in the project's cache by `make go-program` and never by a test, so that no test waits
 * for a download.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from './repository.ts'
import type { Requirement } from './requirement.ts'

const run = promisify(execFile)
const PROGRAM = join(ROOT, '.cache', 'go', 'cosignatures')
const RUN_TIMEOUT_MS = 60_000

/** Asks the program: JSON on its standard input, and on its standard output. */
type AskGo = (input: unknown) => Promise<unknown>

/** The program, or the line that says how to make it. */
export function goProgram(): Requirement<AskGo> {
  return existsSync(PROGRAM)
    ? { found: ask }
    : {
        missing:
          'the Go program of test/support/go is not built: run `make go-program`, with Go 1.26 or later',
      }
}

async function ask(input: unknown): Promise<unknown> {
  const asked = run(PROGRAM, [], { timeout: RUN_TIMEOUT_MS })
  asked.child.stdin!.end(JSON.stringify(input))
  const { stdout } = await asked
  return JSON.parse(stdout)
}
