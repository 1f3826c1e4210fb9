/**
 * Runs all tests, as `make test` does, and a few files a second time if they failed: alone, with nothing
 * beside them. A whole run takes half an hour on two processors that do much else, where one wait in twelve
 * thousand tests may be too short. What needed a second run is named, so that nobody takes it for sound.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { closingLine, COUNTS_FILE, total, type RunCounts } from './closing-line-reporter.ts'

/** More than these are no accident. */
const RUN_AGAIN_MAX = 3

/** All, if none are named on the command line. */
const wanted = process.argv.slice(2)
const first = run(wanted, 'first')
const again = first.failedFiles
if (first.status === 0 || again.length === 0 || again.length > RUN_AGAIN_MAX || first.counts.elsewhere > 0)
  end(first.status, closingLine(total(first.counts)))

process.stdout.write(`\nFAILED, and run again by themselves: ${again.join(', ')}\n`)
const second = run(again, 'again')
const files = { ...first.counts.files, ...second.counts.files }
const line = closingLine(total({ files, elsewhere: second.counts.elsewhere }))
end(second.status, second.status === 0 ? `GREEN only when run again: ${again.join(', ')}\n${line}` : line)

function run(
  only: readonly string[],
  time: 'first' | 'again',
): { status: number; counts: RunCounts; failedFiles: string[] } {
  const env = {
    ...process.env,
    TEST_COUNTS_FILE: COUNTS_FILE,
    TESTS_RUN_AGAIN: time === 'again' ? 'true' : '',
  }
  const { status } = spawnSync('vitest', ['run', ...only], { stdio: 'inherit', env })
  const counts = JSON.parse(readFileSync(COUNTS_FILE, 'utf8')) as RunCounts
  const failedFiles = Object.keys(counts.files).filter(file => counts.files[file]!.failed > 0)
  return { status: status ?? 1, counts, failedFiles }
}

function end(status: number, says: string): never {
  process.stdout.write(`${says}\n`)
  process.exit(status)
}
