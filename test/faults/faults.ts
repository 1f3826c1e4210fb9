/**
 * Owns the lists of test/faults (*.yaml): faults that systems of this kind are known to have had, each as the
 * edits that bring it into this tree as a programmer would have made it, with the one test that must then
 * fail.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { isAbsent, type AbsentSuite } from '../support/absent-suites.ts'
import type { ExecutedTest } from '../support/contract-rows.ts'
import { ROOT } from '../support/repository.ts'

export const FAULTS_DIRECTORY = join(ROOT, 'test', 'faults')

const EDIT = z.strictObject({
  /** The file of `src` that is edited. */
  file: z.string().regex(/^src\/\S+$/),
  /** What stands there, once. */
  replace: z.string().min(1),
  with: z.string(),
})

/** One place of the tree, and what a fault makes of it. */
export type Edit = z.infer<typeof EDIT>

const FAULT = z.strictObject({
  name: z.string().regex(/^[a-z0-9-]+$/),
  /** What a programmer would have got wrong, and what it leads to. */
  fault: z.string().min(20),
  /** The test that must fail: its file, and its whole name with the suites around it, joined by ` > `. */
  file: z.string().regex(/^test\/\S+\.test\.ts$/),
  test: z.string().min(1),
  /** In their order: each finds what those before it left. */
  edits: z.array(EDIT).min(1),
})
const LIST = z.strictObject({
  faults: z.array(FAULT),
})

export type Fault = z.infer<typeof FAULT>

/** The faults in their order. @throws if a list is malformed, or names one twice. */
export function readFaults(): Fault[] {
  const lists = readdirSync(FAULTS_DIRECTORY).filter(file => file.endsWith('.yaml'))
  const faults = lists
    .toSorted()
    .flatMap(file => LIST.parse(parse(readFileSync(join(FAULTS_DIRECTORY, file), 'utf8'))).faults)
  const names = faults.map(({ name }) => name)
  const twice = names.filter((name, at) => names.indexOf(name) !== at)
  if (twice.length > 0) throw new Error(`test/faults lists this twice: ${twice.join(', ')}`)
  return faults
}

/**
 * What is wrong with the tests that the faults name, in view of a whole run: a sentence each. A file that was
 * not run is not judged by, and a test of a suite that was absent is not missed.
 */
export function missingTests(
  faults: readonly Fault[],
  executed: readonly ExecutedTest[],
  absent: readonly AbsentSuite[] = [],
): string[] {
  return faults
    .filter(({ file }) => executed.some(test => test.file === file))
    .filter(({ file, test }) => !isAbsent({ file, name: test }, absent))
    .filter(({ file, test }) => !executed.some(one => one.file === file && one.name === test))
    .map(({ name, file, test }) => `${name}: ${file} has no test called so (any more): ${test}`)
}

/**
 * What the edited files become, by their path; `textOf` reads one. @throws with what to do where an edit no
 * longer finds its place.
 */
export function edited(
  { name, edits }: Pick<Fault, 'name' | 'edits'>,
  textOf: (file: string) => string,
): Map<string, string> {
  const texts = new Map<string, string>()
  for (const { file, replace, with: instead } of edits) {
    const text = texts.get(file) ?? textOf(file)
    const [before, after, ...more] = text.split(replace)
    if (after === undefined || more.length > 0)
      throw new Error(
        `${name} no longer fits: ${file} has this ${after === undefined ? 'nowhere' : `${more.length + 1} times`}, so write its edit anew:\n${replace}`,
      )
    texts.set(file, before + instead + after)
  }
  return texts
}
