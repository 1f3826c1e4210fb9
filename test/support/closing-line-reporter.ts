/** Owns the last line of a test run: `N passed, N failed`, and `, N skipped` where any were. */
import { writeSync } from 'node:fs'
import type { SerializedError } from 'vitest'
import type { Reporter, TestModule } from 'vitest/node'

const STDOUT = 1

/**
 * Counts the whole run, over all projects. A file that could not be loaded and an error outside any test
 * count as failed.
 */
export default class ClosingLineReporter implements Reporter {
  #line: string | undefined

  onInit(): void {
    // At the exit, so that not even the teardown of a server writes after it.
    process.on('exit', () => {
      if (this.#line !== undefined) writeSync(STDOUT, `${this.#line}\n`)
    })
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    // A mistyped path must not look like a pass (vitest.config.ts lets a file without tests be).
    if (modules.length === 0) process.exitCode = 1
    const count = { passed: 0, failed: unhandled.length, skipped: 0 }
    for (const module of modules) {
      count.failed += module.errors().length
      for (const { state } of [...module.children.allTests()].map(test => test.result()))
        count[state === 'pending' ? 'skipped' : state]++
      for (const suite of module.children.allSuites()) count.failed += suite.errors().length
    }
    this.#line = `${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}`
  }
}
