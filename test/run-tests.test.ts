/**
 * How a whole run of the tests ends (test/support/run-tests.ts): what failed is run again alone, and what
 * passes only then is told. Shown by small runs of their own, in folders of their own.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, delimiter, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { readAbsentSuites } from './support/absent-suites.ts'
import { ROOT } from './support/repository.ts'

/** In the repository, so that vitest is found from there. */
const FOLDER = join(ROOT, '.cache', `run-tests-${crypto.randomUUID()}`)
afterAll(() => rmSync(FOLDER, { recursive: true, force: true }))

const PASSES = `it('passes', () => undefined)`
const FAILS = `it('fails', () => { throw new Error('as ever\\nand more') })`
const FAILS_AT_FIRST = `it('fails at first', () => {
  const marker = join(import.meta.dirname, 'ran')
  if (existsSync(marker)) return
  writeFileSync(marker, '')
  throw new Error('too soon\\nand more')
})`
const absent = (when: string): string => `describeWith(
  ${when} ? { missing: 'a thing', inCi: false } : { found: true }, 'A suite', () => it('is run', () => undefined))`
const CONFIG = `
const support = ${JSON.stringify(join(ROOT, 'test', 'support'))}
const reporters = ['executed-tests-reporter.ts', 'closing-line-reporter.ts'].map(name => support + '/' + name)
export default { test: { reporters, include: ['*.test.ts'], exclude: [] } }`
const IMPORTS = `
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'vitest'
import { describeWith } from '${join(ROOT, 'test', 'support', 'requirement.ts')}'
`

interface Ended {
  status: number | null
  /** What was printed, without its last line end. */
  lines: string[]
  flaky: unknown
  executed: { file: string; passed: boolean }[]
  /** Files of which suites are on record as absent. */
  absent: string[]
}

/** Runs these files of tests, each of its name, in a folder of their own. */
function ran(name: string, files: Record<string, string>, more: Record<string, string> = {}): Ended {
  const folder = join(FOLDER, name)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'vitest.config.mjs'), CONFIG)
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), IMPORTS + text)
  const inherited = Object.entries(process.env).filter(([key]) => !/^(VITEST|TEST|REQUIRE_ALL)/.test(key))
  const { status, stdout } = spawnSync(
    process.execPath,
    [join(ROOT, 'test', 'support', 'run-tests.ts'), `--root=${folder}`],
    {
      encoding: 'utf8',
      env: {
        ...Object.fromEntries(inherited),
        PATH: [join(ROOT, 'node_modules', '.bin'), process.env['PATH']].join(delimiter),
        TEST_RECORDS: folder,
        ...more,
      },
    },
  )
  const read = (file: string): unknown => JSON.parse(readFileSync(join(folder, file), 'utf8'))
  return {
    status,
    lines: stdout.trimEnd().split('\n'),
    flaky: read('flaky.json'),
    executed: read('executed-tests.json') as Ended['executed'],
    absent: readAbsentSuites(join(folder, 'absent-suites.jsonl')).map(({ file }) => basename(file)),
  }
}

describe('A run of the tests', () => {
  it('in which all pass is green, and tells of nothing flaky', () => {
    const { status, lines, flaky } = ran('green', { 'a.test.ts': PASSES })
    expect([status, lines.at(-1), flaky]).toEqual([0, '1 passed, 0 failed', []])
  })

  it('is red if a test fails alone, too', () => {
    const { status, lines, flaky } = ran('red', { 'a.test.ts': PASSES, 'b.test.ts': FAILS })
    expect([status, lines.at(-1), flaky]).toEqual([1, '1 passed, 1 failed', []])
    expect(lines).toContain('FAILED, and run again by themselves: b.test.ts')
    expect(lines.filter(line => line === 'FAILED b.test.ts > fails: as ever')).toHaveLength(2)
    expect(lines.some(line => line.startsWith('flaky:'))).toBe(false)
  })

  it('is green if what failed at first passes alone, and says so', () => {
    const { status, lines, flaky, executed } = ran('flaky', {
      'a.test.ts': PASSES,
      'b.test.ts': FAILS_AT_FIRST,
    })
    expect(status).toBe(0)
    expect(lines.slice(-2)).toEqual(['flaky: b.test.ts > fails at first: too soon', '2 passed, 0 failed'])
    expect(flaky).toEqual([{ file: 'b.test.ts', test: 'fails at first', error: 'too soon' }])
    expect(executed.map(({ file, passed }) => [file, passed])).toEqual([
      ['a.test.ts', true],
      ['b.test.ts', true],
    ])
  })

  it('is red if more than three files failed, and runs none of them again', () => {
    const files = ['a', 'b', 'c', 'd'].map(name => [`${name}.test.ts`, FAILS_AT_FIRST])
    const each = files.map(([name, text]) => [name, text!.replace("'ran'", `'ran ${name}'`)])
    const { status, lines, flaky } = ran('many', Object.fromEntries(each) as Record<string, string>)
    expect([status, lines.at(-1), flaky]).toEqual([1, '0 passed, 4 failed', []])
    expect(lines.some(line => line.includes('run again by themselves'))).toBe(false)
  })

  it('puts suites that this machine cannot run on record, as the last run of their file found it', () => {
    const ranNow = "!existsSync(join(import.meta.dirname, 'ran'))"
    const files = {
      'a.test.ts': `${absent(ranNow)}\n${FAILS_AT_FIRST}`,
      'b.test.ts': `${absent('true')}\n${PASSES}`,
    }
    const { lines, absent: suites } = ran('absent', files)
    expect(lines.at(-1)).toBe('3 passed, 0 failed')
    expect(suites).toEqual(['b.test.ts'])
  })

  it('puts none on record where nothing may be absent, though CI cannot get it', () => {
    const { lines, absent: suites } = ran(
      'required',
      { 'a.test.ts': `${absent('true')}\n${PASSES}` },
      { REQUIRE_ALL: '1' },
    )
    expect(lines.at(-1)).toBe('1 passed, 0 failed')
    expect(suites).toEqual([])
  })
})
