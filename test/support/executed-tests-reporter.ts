/**
 * Owns the record of a test run: which tests were executed, and which of them passed, for those who ask
 * afterwards what was shown (test/support/contract-rows-check.ts). Written to .cache/executed-tests.json.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'
import type { ExecutedTest } from './contract-rows.ts'
import { ROOT } from './repository.ts'

export const EXECUTED_TESTS_FILE = join(ROOT, '.cache', 'executed-tests.json')

/** Writes every test of the run, with its whole name. */
export default class ExecutedTestsReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const executed = modules.flatMap(module =>
      [...module.children.allTests()].map((test): ExecutedTest => ({
        file: module.relativeModuleId,
        name: test.fullName,
        passed: test.result().state === 'passed',
      })),
    )
    mkdirSync(dirname(EXECUTED_TESTS_FILE), { recursive: true })
    writeFileSync(EXECUTED_TESTS_FILE, JSON.stringify(executed))
  }
}
