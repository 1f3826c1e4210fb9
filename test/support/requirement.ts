/**
 * Owns tests that need something this machine may lack (Envoy, a container runtime): if it is missing, one
 * line says so and they are not registered, so not counted. With `REQUIRE_ALL=1`, which CI sets, a missing
 * one fails, except for what CI cannot get.
 */
import { relative } from 'node:path'
import { describe, expect, test } from 'vitest'
import { recordAbsentSuite } from './absent-suites.ts'
import { ROOT } from './repository.ts'

/**
 * What was found, or one line that says what is missing and how to get it. `inCi: false`: CI has no way to
 * get it, and does without.
 */
export type Requirement<T> = { found: T } | { missing: string; inCi?: false }

/** A suite that needs what `requirement` found; `register` gets it and declares the tests. */
export function describeWith<T>(
  requirement: Requirement<T>,
  title: string,
  register: (found: T) => void,
): void {
  if ('found' in requirement) {
    describe(title, () => register(requirement.found))
  } else if (process.env['REQUIRE_ALL'] === '1' && requirement.inCi !== false) {
    test(title, () => expect.fail(`REQUIRE_ALL=1, and this is missing: ${requirement.missing}`))
  } else {
    // What CI never gets is no reason there not to miss the tests that it had.
    if (process.env['REQUIRE_ALL'] !== '1')
      recordAbsentSuite({ file: relative(ROOT, expect.getState().testPath!), title })
    process.stdout.write(`absent, not counted: ${title}: ${requirement.missing}\n`)
  }
}
