/**
 * Owns the last lines of a test run: the name and first words of all that failed, then `N passed, N failed`,
 * and `, N skipped` if any were. With `TEST_COUNTS_FILE` the counts go there, for whoever writes that line
 * (test/support/run-tests.ts).
 */
import { mkdirSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { SerializedError } from 'vitest'
import type { Reporter, TestModule } from 'vitest/node'
import { ROOT } from './repository.ts'

/** The folder of what a run leaves for those who ask afterwards. */
export const RECORDS = process.env['TEST_RECORDS'] ?? join(ROOT, '.cache')
export const COUNTS_FILE = join(RECORDS, 'test-counts.json')
const STDOUT = 1

export interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** Of each file by its path in the repository; `elsewhere` are errors that belong to none. */
export interface RunCounts {
  files: Record<string, Counts>
  elsewhere: number
  failures: Failure[]
}

/** What failed, and the first line of how. */
export interface Failure {
  /** Its path in the repository. */
  file: string
  /** The whole name; empty if the file itself failed. */
  test: string
  error: string
}

/** One failure in a line. */
export function failureLine({ file, test, error }: Failure): string {
  return `${test === '' ? file : `${file} > ${test}`}: ${error}`
}

/** Of a whole run. */
export function total({ files, elsewhere }: Pick<RunCounts, 'files' | 'elsewhere'>): Counts {
  const sum = { passed: 0, failed: elsewhere, skipped: 0 }
  for (const { passed, failed, skipped } of Object.values(files)) {
    sum.passed += passed
    sum.failed += failed
    sum.skipped += skipped
  }
  return sum
}

/** The line that a run ends with. */
export function closingLine({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}

/**
 * Counts the whole run, over all projects. A file that could not be loaded and an error outside any test
 * count as failed.
 */
export default class ClosingLineReporter implements Reporter {
  readonly #failures: Failure[] = []
  readonly #countsFile = process.env['TEST_COUNTS_FILE']
  #line: string | undefined

  onInit(): void {
    // What an earlier run left there is not of this one.
    if (this.#countsFile !== undefined) rmSync(this.#countsFile, { force: true })
    // At the exit, so that not even the teardown of a server writes after it.
    process.on('exit', () => {
      const failed = this.#failures.map(failure => `FAILED ${failureLine(failure)}`)
      if (this.#line !== undefined) writeSync(STDOUT, [...failed, this.#line, ''].join('\n'))
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    // A mistyped path must not look like a pass (vitest.config.ts lets a file without tests be).
    if (modules.length === 0) process.exitCode = 1
    const counts: RunCounts = { files: {}, elsewhere: 0, failures: this.#failures }
    for (const module of modules) counts.files[module.relativeModuleId] = this.#countsOf(module)
    for (const error of unhandled) {
      const path = error['VITEST_TEST_PATH'] as string | undefined
      const file = path === undefined ? undefined : counts.files[relative(ROOT, path)]
      if (file === undefined) counts.elsewhere++
      else file.failed++
      this.#tell({ file: path === undefined ? 'outside any test' : relative(ROOT, path), test: '' }, [error])
    }
    this.#line = this.#countsFile === undefined ? closingLine(total(counts)) : ''
    if (this.#countsFile === undefined) return
    mkdirSync(dirname(this.#countsFile), { recursive: true })
    writeFileSync(this.#countsFile, JSON.stringify(counts))
  }

  #countsOf(module: TestModule): Counts {
    const file = module.relativeModuleId
    const count = { passed: 0, failed: module.errors().length, skipped: 0 }
    this.#tell({ file, test: '' }, module.errors())
    for (const test of module.children.allTests()) {
      const { state, errors = [] } = test.result()
      count[state === 'pending' ? 'skipped' : state]++
      this.#tell({ file, test: test.fullName }, errors.slice(0, 1))
    }
    for (const suite of module.children.allSuites()) {
      this.#tell({ file, test: suite.fullName }, suite.errors())
      count.failed += suite.errors().length
    }
    return count
  }

  #tell(where: Pick<Failure, 'file' | 'test'>, errors: readonly SerializedError[]): void {
    for (const { message } of errors) this.#failures.push({ ...where, error: message.split('\n', 1)[0]! })
  }
}
