/**
 * Owns the record of the suites that a run did without, because this machine lacks what they need
 * (test/support/requirement.ts): .cache/absent-suites.jsonl, a line each. Without it, who asks afterwards
 * which tests were executed (test/support/contract-rows-check.ts) would take an absent test for one that is
 * gone.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { RECORDS } from './closing-line-reporter.ts'

export const ABSENT_SUITES_FILE = join(RECORDS, 'absent-suites.jsonl')

/** One suite that was not registered. */
export interface AbsentSuite {
  /** Its file, relative to the repository. */
  file: string
  title: string
}

/** Puts a suite on record. Workers append beside each other, a line at a time. */
export function recordAbsentSuite(suite: AbsentSuite, record = ABSENT_SUITES_FILE): void {
  mkdirSync(dirname(record), { recursive: true })
  appendFileSync(record, `${JSON.stringify(suite)}\n`)
}

/** All that are on record, in the order of their files. */
export function readAbsentSuites(record = ABSENT_SUITES_FILE): AbsentSuite[] {
  if (!existsSync(record)) return []
  const lines = new Set(readFileSync(record, 'utf8').split('\n'))
  lines.delete('')
  return [...lines].toSorted().map(line => JSON.parse(line) as AbsentSuite)
}

/** What an earlier run put there is not of the next one. @returns what it was. */
export function forgetAbsentSuites(): AbsentSuite[] {
  const before = readAbsentSuites()
  rmSync(ABSENT_SUITES_FILE, { force: true })
  return before
}

/** Whether words that no executed test of the file has in its name may be of an absent one. */
export function lacksSuite(file: string, absent: readonly AbsentSuite[]): boolean {
  return absent.some(suite => suite.file === file)
}

/** Whether the test of this whole name would be of an absent suite. */
export function isAbsent(
  { file, name }: { file: string; name: string },
  absent: readonly AbsentSuite[],
): boolean {
  return absent.some(suite => suite.file === file && ` > ${name}`.includes(` > ${suite.title} > `))
}
