/**
 * Owns how a scenario runs by itself: in a folder of its own, which goes when it ends. What it tells on its
 * way goes to standard error, and its report to standard output.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Runs it, and prints the report that it returns. */
export async function runByItself(
  run: (directory: string, tell: (line: string) => void) => Promise<string>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'usher-bench-'))
  try {
    const report = await run(directory, line => void process.stderr.write(`${line}\n`))
    process.stdout.write(`${report}\n`)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}
