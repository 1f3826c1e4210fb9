/**
 * Owns the record of a test run: which tests were executed, and which of them passed, for those who ask
 * afterwards what was shown (test/support/contract-rows-check.ts). Written to .cache/executed-tests.json; and
 * what each file took, the longest first, to .cache/file-times.json.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import { forgetAbsentSuites, recordAbsentSuite, type AbsentSuite } from './absent-suites.ts'
import { RECORDS } from './closing-line-reporter.ts'
import type { ExecutedTest } from './contract-rows.ts'
import { ROOT } from './repository.ts'

export const EXECUTED_TESTS_FILE = join(RECORDS, 'executed-tests.json')
const TIMES_FILE = join(RECORDS, 'file-times.json')

const recorded = (): ExecutedTest[] => JSON.parse(readFileSync(EXECUTED_TESTS_FILE, 'utf8')) as ExecutedTest[]

/**
 * Writes every test of the run, with its whole name. If files are run again (test/support/run-tests.ts), the
 * others stay as the run before left them.
 */
export default class ExecutedTestsReporter implements Reporter {
  #absentBefore: readonly AbsentSuite[] = []

  onInit(): void {
    this.#absentBefore = forgetAbsentSuites()
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const executed = modules.flatMap(module =>
      [...module.children.allTests()].map((test): ExecutedTest => ({
        file: module.relativeModuleId,
        name: test.fullName,
        passed: test.result().state === 'passed',
      })),
    )
    const files = new Set(modules.map(module => module.relativeModuleId))
    const before = process.env['TESTS_RUN_AGAIN'] ? recorded().filter(({ file }) => !files.has(file)) : []
    if (process.env['TESTS_RUN_AGAIN']) {
      const paths = new Set(modules.map(({ moduleId }) => relative(ROOT, moduleId)))
      for (const suite of this.#absentBefore) if (!paths.has(suite.file)) recordAbsentSuite(suite)
    }
    mkdirSync(RECORDS, { recursive: true })
    writeFileSync(EXECUTED_TESTS_FILE, JSON.stringify([...before, ...executed]))
    if (process.env['TESTS_RUN_AGAIN']) return
    const seconds = (ms: number): number => Math.round(ms / 100) / 10
    const times = modules.map(module => {
      const { duration, collectDuration, setupDuration } = module.diagnostic()
      const file = module.relativeModuleId
      return {
        file,
        project: module.project.name,
        tests: seconds(duration),
        loading: seconds(collectDuration + setupDuration),
      }
    })
    const lines = times.toSorted((one, other) => other.tests - one.tests).map(time => JSON.stringify(time))
    writeFileSync(TIMES_FILE, `[\n${lines.join(',\n')}\n]\n`)
  }
}
