/**
 * Owns the lists of test/faults (*.yaml): faults that systems of this kind are known to have had, each as a
 * patch that brings it into this tree, with the one test that must then fail. They also list faults that
 * cannot be brought in yet, and why.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import type { ExecutedTest } from '../support/contract-rows.ts'
import { ROOT } from '../support/repository.ts'

export const FAULTS_DIRECTORY = join(ROOT, 'test', 'faults')

const FAULT = z.strictObject({
  /** Its patch is `<name>.patch`. */
  name: z.string().regex(/^[a-z0-9-]+$/),
  /** What a programmer would have got wrong, and what it leads to. */
  fault: z.string().min(20),
  /** The test that must fail: its file, and its whole name with the suites around it, joined by ` > `. */
  file: z.string().regex(/^test\/\S+\.test\.ts$/),
  test: z.string().min(1),
})
const LIST = z.strictObject({
  faults: z.array(FAULT),
})

export type Fault = z.infer<typeof FAULT>

/**
 * The faults in their order. Throws if a list is malformed, names one twice, or differs from the patches
 * that are there.
 */
export function readFaults(): Fault[] {
  const files = readdirSync(FAULTS_DIRECTORY)
  const lists = files.filter(file => file.endsWith('.yaml')).toSorted()
  const faults = lists.flatMap(
    file => LIST.parse(parse(readFileSync(join(FAULTS_DIRECTORY, file), 'utf8'))).faults,
  )
  const listed = faults.map(({ name }) => `${name}.patch`).toSorted()
  const there = files.filter(file => file.endsWith('.patch')).toSorted()
  if (listed.join() !== there.join())
    throw new Error(`${lists.join(', ')} list ${listed.join(' ')}, but there are ${there.join(' ')}.`)
  return faults
}

/**
 * What is wrong with the tests that the faults name, in view of a whole run: a sentence each. A file that was
 * not run is not judged by.
 */
export function missingTests(faults: readonly Fault[], executed: readonly ExecutedTest[]): string[] {
  return faults
    .filter(({ file }) => executed.some(test => test.file === file))
    .filter(({ file, test }) => !executed.some(one => one.file === file && one.name === test))
    .map(({ name, file, test }) => `${name}: ${file} has no test called so (any more): ${test}`)
}

/** The absolute path of a fault's patch. */
export function patchOf({ name }: Pick<Fault, 'name'>): string {
  return join(FAULTS_DIRECTORY, `${name}.patch`)
}
