/**
 * Runs all tests, as `make test` does, and a few files a second time if they failed: alone, with nothing
 * beside them. A whole run takes half an hour on two processors that do much else, where one wait in twelve
 * thousand tests may be too short. What passes only then is named in the last lines (`flaky: …`) and in
 * .cache/flaky.json, so that nobody takes it for sound: the next change mends it.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  closingLine,
  COUNTS_FILE,
  failureLine,
  RECORDS,
  total,
  type Failure,
  type RunCounts,
} from './closing-line-reporter.ts'

/** More than these are no accident. */
const RUN_AGAIN_MAX = 3

/** Options of vitest, which hold for both runs. */
const options = process.argv.slice(2).filter(word => word.startsWith('--'))
/** All, if none are named on the command line. */
const wanted = process.argv.slice(2).filter(word => !word.startsWith('--'))
const first = run(wanted, 'first')
const again = first.failedFiles
if (first.status === 0 || again.length === 0 || again.length > RUN_AGAIN_MAX || first.counts.elsewhere > 0)
  end(first.status, [], closingLine(total(first.counts)))

process.stdout.write(`\nFAILED, and run again by themselves: ${again.join(', ')}\n`)
const second = run(again, 'again')
const files = { ...first.counts.files, ...second.counts.files }
const line = closingLine(total({ files, elsewhere: second.counts.elsewhere }))
end(second.status, second.status === 0 ? first.counts.failures : [], line)

function run(
  only: readonly string[],
  time: 'first' | 'again',
): { status: number; counts: RunCounts; failedFiles: string[] } {
  const env = {
    ...process.env,
    TEST_COUNTS_FILE: COUNTS_FILE,
    TESTS_RUN_AGAIN: time === 'again' ? 'true' : '',
  }
  const { status } = spawnSync('vitest', ['run', ...options, ...only], { stdio: 'inherit', env })
  const counts = JSON.parse(readFileSync(COUNTS_FILE, 'utf8')) as RunCounts
  const failedFiles = Object.keys(counts.files).filter(file => counts.files[file]!.failed > 0)
  return { status: status ?? 1, counts, failedFiles }
}

function end(status: number, flaky: readonly Failure[], line: string): never {
  writeFileSync(join(RECORDS, 'flaky.json'), `${JSON.stringify(flaky, null, 2)}\n`)
  for (const failure of flaky) process.stdout.write(`flaky: ${failureLine(failure)}\n`)
  process.stdout.write(`${line}\n`)
  process.exit(status)
}
