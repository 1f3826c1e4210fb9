/** Holds what is asked after a whole run (contract-rows-check.ts) to a machine that lacks things. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { missingTests, readFaults } from './faults/faults.ts'
import { readAbsentSuites, recordAbsentSuite, type AbsentSuite } from './support/absent-suites.ts'
import { readBridgeRows, unshownBridgeRows } from './support/bridge-rows.ts'
import { readContractRows, unshownRows, type ExecutedTest } from './support/contract-rows.ts'
import { ROOT } from './support/repository.ts'
import { temporaryFolder } from './support/temporary-folder.ts'

const CALLS = 'test/agent/bridge/calls.test.ts'
const PYTHON: AbsentSuite = { file: CALLS, title: 'The Python SDK' }
/** Of that suite, in test/bridge-rows.yaml. */
const OF_PYTHON = 'is among the clients of each test'

/** Every test that a list names, as if all had passed. */
function named(): ExecutedTest[] {
  const of = (name: string): [string, string] => {
    const at = name.indexOf(' > ')
    return [name.slice(0, at), name.slice(at + 3)]
  }
  const rows = readContractRows().rows
  const tests: [string, string][] = [
    ...rows.map(({ id }): [string, string] => ['test/contract/all.test.ts', `all > ${id}: is shown`]),
    ...[...rows, ...readBridgeRows()].flatMap(({ tests: names = [] }) => names.map(of)),
    ...readFaults().map(({ file, test }): [string, string] => [file, test]),
  ]
  return tests.map(([file, name]) => ({ file, name, passed: true }))
}

/** The check after a run that executed these and lacked those. */
function checked(executed: readonly ExecutedTest[], absent: readonly AbsentSuite[]) {
  const records = temporaryFolder('records')
  writeFileSync(join(records, 'executed-tests.json'), JSON.stringify(executed))
  for (const suite of absent) recordAbsentSuite(suite, join(records, 'absent-suites.jsonl'))
  const env = { ...process.env, TEST_RECORDS: records, SHARED_DIR: records }
  const { status, stdout, stderr } = spawnSync('node', ['test/support/contract-rows-check.ts'], {
    cwd: ROOT,
    encoding: 'utf8',
    env,
  })
  return { status, stdout, stderr }
}

describe('What is asked after a whole run', () => {
  const without = named().filter(({ file, name }) => file !== CALLS || name !== OF_PYTHON)

  it('is content with every test that a list names', () => {
    expect(checked(named(), [])).toEqual({ status: 0, stdout: '', stderr: '' })
  })

  it('tells of a test that is gone', () => {
    expect(checked(without, [])).toEqual({
      status: 1,
      stdout: '',
      stderr: expect.stringMatching(/^test\/bridge-rows\.yaml: revisions-both: no test is called so .*\n$/),
    })
  })

  it('says in which files it misses nothing because a suite is absent, and is not red for them', () => {
    expect(checked(without, [PYTHON])).toEqual({
      status: 0,
      stdout: `tests that lists name are not missed where suites are absent (told above): ${CALLS}\n`,
      stderr: '',
    })
  })
})

describe('A suite that is absent', () => {
  const file = 'test/some.test.ts'
  const other: ExecutedTest = { file, name: 'Another > is there', passed: true }
  const absent = [{ file, title: 'A suite' }]

  it.each([
    {
      list: 'faults',
      judged: (suites: AbsentSuite[]) =>
        missingTests(
          [{ name: 'x', fault: 'What was got wrong here.', file, test: 'A suite > is there', edits: [] }],
          [other],
          suites,
        ),
    },
    {
      list: 'rules of the bridge',
      judged: (suites: AbsentSuite[]) =>
        unshownBridgeRows(
          [{ id: 'x', says: 'It holds.', tests: [`${file} > is there now`] }],
          [other],
          suites,
        ),
    },
    {
      list: 'names in rows of the contract',
      judged: (suites: AbsentSuite[]) => unshownRows(rows(['never']), [other], suites),
    },
    {
      list: 'rows of the contract that are due',
      judged: (suites: AbsentSuite[]) => unshownRows(rows(['issue-2']), [], suites),
    },
  ])('makes none of the $list red, where the same words of another file do', ({ judged }) => {
    expect(judged([])).toHaveLength(1)
    expect(judged(absent)).toEqual([])
    expect(judged([{ file: 'test/other.test.ts', title: 'A suite' }])).toHaveLength(1)
  })

  it('is no reason not to miss a test of another suite that a fault names', () => {
    const fault = {
      name: 'x',
      fault: 'What was got wrong here.',
      file,
      test: 'Another > was there',
      edits: [],
    }
    expect(missingTests([fault], [other], absent)).toHaveLength(1)
    expect(missingTests([{ ...fault, test: 'Around it > A suite > was there' }], [other], absent)).toEqual([])
  })

  it('takes nothing from a test that failed', () => {
    const failed = { ...other, name: 'x > is there now', passed: false }
    const row = { id: 'x', says: 'It holds.', tests: [`${file} > is there now`] }
    expect(unshownBridgeRows([row], [failed], absent)).toEqual([expect.stringContaining('failed')])
    expect(unshownRows(rows(['issue-2']), [failed], absent)).toEqual([expect.stringContaining('failed')])
  })

  it('is put on record once, with its file', () => {
    const record = join(temporaryFolder('records'), 'folder', 'absent-suites.jsonl')
    expect(readAbsentSuites(record)).toEqual([])
    for (const suite of [PYTHON, ...absent, PYTHON]) recordAbsentSuite(suite, record)
    expect(readAbsentSuites(record)).toEqual([PYTHON, ...absent])
  })

  function rows(due: ('issue-2' | 'never')[]): Parameters<typeof unshownRows>[0] {
    const [row] = readContractRows().rows
    return { due, rows: [{ ...row!, of: 'Limits', due: 'issue-2', tests: [`${file} > is there now`] }] }
  }
})
