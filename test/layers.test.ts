/**
 * The two layers of the tests (CONTRIBUTING.md): what `make test` passes over adds to what it shows, and is
 * the only evidence of nothing.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readFaults } from './faults/faults.ts'
import { readContractRows } from './support/contract-rows.ts'
import { headingsOfFullLayerAlone, isOfFullLayer, isWritten, testFiles } from './support/layer-rules.ts'
import { ROOT, type TextFile } from './support/repository.ts'

const CONTRACT = '# Contract\n## Errors\n## Events\n'
const file = (path: string, cited: string): TextFile => ({
  path,
  text: `/** contract,\n * "${cited}". */\n`,
})

describe('A part of the contract', () => {
  it('that a file of the full layer cites is cited by one of make test as well', () => {
    const contract = readFileSync(join(ROOT, 'docs', 'contract.md'), 'utf8')
    expect(testFiles().filter(({ path }) => isOfFullLayer(path)).length).toBeGreaterThan(20)
    expect(headingsOfFullLayerAlone(testFiles(), contract)).toEqual([])
  })

  it('that the full layer alone cites is told', () => {
    const full = file('test/a.full.test.ts', 'Events')
    expect(headingsOfFullLayerAlone([full, file('test/b.test.ts', 'Errors')], CONTRACT)).toEqual([
      'test/a.full.test.ts: no test of make test cites this part of the contract: Events',
    ])
    expect(headingsOfFullLayerAlone([full, file('test/b.test.ts', 'Events')], CONTRACT)).toEqual([])
  })
})

describe('A file that takes long', () => {
  it('is there, if a clean clone is to begin with it', () => {
    const long = JSON.parse(readFileSync(join(ROOT, 'test', 'long-files.json'), 'utf8')) as Record<
      string,
      number
    >
    const there = new Set(testFiles().map(({ path }) => path))
    expect(Object.keys(long).filter(path => !there.has(path))).toEqual([])
  })
})

describe('A row of the contract', () => {
  it('lists a test of make test, if it lists any of the full layer', () => {
    const alone = readContractRows().rows.filter(
      ({ tests = [] }) => tests.length > 0 && tests.every(name => isOfFullLayer(name.split(' > ')[0]!)),
    )
    expect(alone.map(({ id }) => id)).toEqual([])
  })
})

describe('A test of the full layer', () => {
  it('that a row of the contract or a fault names is written in its file', () => {
    const named = [
      ...readContractRows().rows.flatMap(({ id, tests = [] }) => tests.map(test => ({ by: id, test }))),
      ...readFaults().map(({ name, file, test }) => ({ by: name, test: `${file} > ${test}` })),
    ].map(({ by, test }) => ({
      by,
      file: test.split(' > ', 1)[0]!,
      words: test.slice(test.indexOf(' > ') + 3),
    }))
    const full = named.filter(({ file }) => isOfFullLayer(file))
    expect(full.length).toBeGreaterThan(2)
    expect(full.filter(({ file, words }) => !isWritten(file, words))).toEqual([])
  })

  it('that is called otherwise is told', () => {
    const path = 'test/layers.test.ts'
    expect(isWritten(path, 'A test of the full layer > that is called otherwise is told')).toBe(true)
    expect(isWritten(path, `A test of the full layer > ${crypto.randomUUID()}`)).toBe(false)
  })
})
