/**
 * Owns test/bridge-rows.yaml: every rule of the bridge, in our own words, and which tests show it, by file
 * and words of their name as the file has them (`%s` and `$name` stand for what a table puts there).
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { lacksSuite, type AbsentSuite } from './absent-suites.ts'
import type { ExecutedTest } from './contract-rows.ts'
import { ROOT } from './repository.ts'

const LIST = z.strictObject({
  rows: z.array(
    z.strictObject({
      id: z.string().regex(/^[a-z0-9-]+$/),
      says: z.string().min(20),
      tests: z.array(z.string().regex(/^test\/\S+\.test\.ts > .+$/)).min(1),
    }),
  ),
})

export type BridgeRow = z.infer<typeof LIST>['rows'][number]

/** The list, which throws if it is malformed or names one id twice. */
export function readBridgeRows(): BridgeRow[] {
  const { rows } = LIST.parse(parse(readFileSync(join(ROOT, 'test', 'bridge-rows.yaml'), 'utf8')))
  const twice = rows.map(({ id }) => id).filter((id, at, all) => all.indexOf(id) !== at)
  if (twice.length > 0) throw new Error(`test/bridge-rows.yaml has this id twice: ${twice.join(', ')}`)
  return rows
}

/** The tests that a row names and that their file has not (any more), a sentence each. */
export function unwrittenTests(rows: readonly BridgeRow[]): string[] {
  return rows.flatMap(({ id, tests }) =>
    tests
      .map(namedIn)
      .filter(({ file, words }) => !textOf(file).includes(words))
      .map(({ file, words }) => `${id}: ${file} has no test called so (any more): ${words}`),
  )
}

/**
 * What is wrong with the rows in view of a whole run, a sentence each. A file that was not run is not judged
 * by, and of one that lacked a suite only what failed is.
 */
export function unshownBridgeRows(
  rows: readonly BridgeRow[],
  executed: readonly ExecutedTest[],
  absent: readonly AbsentSuite[] = [],
): string[] {
  return rows.flatMap(({ id, tests }) =>
    tests.map(namedIn).flatMap(({ file, words }) => {
      const ran = executed.filter(test => test.file === file)
      const shows = ran.filter(({ name }) => patternOf(words).test(name))
      const whole = ran.length > 0 && !lacksSuite(file, absent)
      if (whole && shows.length === 0) return [`${id}: no test is called so (any more): ${words}`]
      return shows.filter(({ passed }) => !passed).map(({ name }) => `${id}: this test of it failed: ${name}`)
    }),
  )
}

function namedIn(test: string): { file: string; words: string } {
  const at = test.indexOf(' > ')
  return { file: test.slice(0, at), words: test.slice(at + 3) }
}

/** The words of a file, without what only its language needs. */
function textOf(file: string): string {
  const path = join(ROOT, file)
  return existsSync(path) ? readFileSync(path, 'utf8').replaceAll("\\'", "'") : ''
}

function patternOf(words: string): RegExp {
  const parts = words.split(/%[a-z]|\$[a-z]+/i)
  return new RegExp(parts.map(part => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)).join('.*'))
}
