/**
 * Owns test/contract-rows.yaml: every row of the contract, in our own words, and which executed tests show
 * it. A test is named after a row by beginning with its id (test/support/contract-row.ts), or the row's
 * `tests` name it by file and words of its name.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { lacksSuite, type AbsentSuite } from './absent-suites.ts'
import { contractItems, type ContractItem } from './contract-items.ts'
import { ROOT } from './repository.ts'

/** When a row must be shown; `never` if it says what is outside. */
const DUE = z.enum(['issue-2', 'issue-3', 'issue-4', 'organization', 'tally', 'never'])

const ROW = z.strictObject({
  id: z.string().regex(/^[a-z0-9-]+$/),
  /** The contract's headings above it. */
  of: z.string(),
  /** The row in our words. */
  says: z.string(),
  due: DUE,
  /** The digest of the contract's own row (`digestOf`). */
  row: z.string().regex(/^[0-9a-f]{12}$/),
  /** `<file> > <words of the test's name>`, beside tests named after the row. */
  tests: z.array(z.string().regex(/^test\/\S+\.test\.ts > .+$/)).optional(),
})
const LIST = z.strictObject({ due: z.array(DUE), rows: z.array(ROW) })

export type ContractRow = z.infer<typeof ROW>
export type ContractRows = z.infer<typeof LIST>

/** One test of a run. */
export interface ExecutedTest {
  /** Relative to the repository. */
  file: string
  /** With the suites around it. */
  name: string
  passed: boolean
}

/** Parts of the contract whose due rows each need a test named after them. */
const NAMED_PARTS = ['States and transitions', 'Endpoints', 'Authentication', 'Errors']

/** The list, which throws if it is malformed or names one id or row twice. */
export function readContractRows(): ContractRows {
  const list = LIST.parse(parse(readFileSync(join(ROOT, 'test', 'contract-rows.yaml'), 'utf8')))
  for (const key of ['id', 'row'] as const) {
    const twice = list.rows.map(row => row[key]).filter((value, at, all) => all.indexOf(value) !== at)
    if (twice.length > 0)
      throw new Error(`test/contract-rows.yaml has this ${key} twice: ${twice.join(', ')}`)
  }
  return list
}

/**
 * What is wrong with the list in view of a whole run, a sentence each. A test that a row names in a file that
 * lacked a suite may be one of those that are absent, and nothing is known of it.
 */
export function unshownRows(
  { due, rows }: ContractRows,
  executed: readonly ExecutedTest[],
  absent: readonly AbsentSuite[] = [],
): string[] {
  return rows.flatMap(one => [
    ...staleNames(one, executed, absent),
    ...(due.includes(one.due) ? unshown(one, executed, absent) : []),
  ])
}

function unshown(
  one: ContractRow,
  executed: readonly ExecutedTest[],
  absent: readonly AbsentSuite[],
): string[] {
  const shows = executed.filter(
    test => isNamedAfter(one, test) || one.tests?.some(name => matches(name, test)),
  )
  const named = shows.filter(test => isNamedAfter(one, test))
  const failed = shows.filter(test => !test.passed)
  if (failed.length > 0) return failed.map(test => `${one.id}: this test of it failed: ${test.name}`)
  if (shows.length === 0 && one.tests?.some(name => lacksSuite(fileOf(name), absent))) return []
  if (shows.length === 0) return [`${one.id} (${one.of}): no executed test names it: ${one.says}`]
  const needsName = NAMED_PARTS.some(part => one.of.startsWith(part))
  if (needsName && named.length === 0) return [`${one.id} (${one.of}): no executed test is named after it`]
  return []
}

/**
 * A name that no test of an executed file has (any more); a file that was not executed, or that lacked a
 * suite, is not judged by.
 */
function staleNames(
  one: ContractRow,
  executed: readonly ExecutedTest[],
  absent: readonly AbsentSuite[],
): string[] {
  return (one.tests ?? [])
    .filter(name => executed.some(({ file }) => file === fileOf(name)))
    .filter(name => !lacksSuite(fileOf(name), absent))
    .filter(name => !executed.some(test => matches(name, test)))
    .map(name => `${one.id}: no test is called so (any more): ${name}`)
}

function isNamedAfter({ id }: ContractRow, { name }: ExecutedTest): boolean {
  return name.startsWith(`${id}: `) || name.includes(` > ${id}: `)
}

function matches(name: string, { file, name: whole }: ExecutedTest): boolean {
  return file === fileOf(name) && whole.includes(name.slice(name.indexOf(' > ') + 3))
}

function fileOf(name: string): string {
  return name.slice(0, name.indexOf(' > '))
}

/** A sentence for each difference between the list and the contract's own text. */
export function unlistedRows({ rows }: ContractRows, contract: string): string[] {
  const items = contractItems(contract)
  const listed = new Set(rows.map(({ row: digest }) => digest))
  const stands = new Set(items.map(digestOf))
  return [
    ...items
      .filter(item => !listed.has(digestOf(item)))
      .map(
        item => `the contract has a row that is not listed (${digestOf(item)}): ${item.cells.join(' | ')}`,
      ),
    ...rows
      .filter(({ row: digest }) => !stands.has(digest))
      .map(({ id }) => `${id}: the contract has no such row (any more)`),
  ]
}

/** Twelve hexadecimal digits that identify one row under one heading, ignoring blanks. */
export function digestOf({ heading, cells }: ContractItem): string {
  const text = [heading, ...cells].join('\n').replace(/\s+/g, ' ')
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}
