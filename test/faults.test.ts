/**
 * Holds test/faults to the tree: each fault still fits, and the tests that a run is told of exist.
 * `make faults` runs them.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { edited, missingTests, readFaults, type Fault } from './faults/faults.ts'
import { copyTree } from './faults/tree.ts'
import { ROOT } from './support/repository.ts'

const faults = readFaults()

describe('a known fault', () => {
  it('is one of many', () => expect(faults.length).toBeGreaterThan(300))

  it('names a file of tests that is there', () => {
    const gone = faults.filter(({ file }) => !existsSync(join(ROOT, file)))
    expect(gone.map(({ name, file }) => `${name}: ${file}`)).toEqual([])
  })

  it.each(faults)('$name still fits this tree, and changes it', fault => {
    const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
    for (const [file, text] of edited(fault, textOf)) expect(text).not.toBe(textOf(file))
  })

  it('whose place is gone, or is there twice, is told', () => {
    const edits = [{ file: 'src/a.ts', replace: 'one', with: 'two' }]
    const made = (text: string) => edited({ name: 'x', edits }, () => text).get('src/a.ts')
    expect(made('just one')).toBe('just two')
    expect(() => made('two')).toThrow(/^x no longer fits: src\/a\.ts has this nowhere/)
    expect(() => made('one one')).toThrow(/^x no longer fits: src\/a\.ts has this 2 times/)
  })
})

describe('a copy of the tree that a fault is brought into', () => {
  it('keeps what it builds for itself, and has what was fetched from the tree', async () => {
    const [copy, other] = await Promise.all([copyTree(), copyTree()])
    try {
      const name = join('.cache', 'console', crypto.randomUUID())
      await mkdir(join(copy.directory, '.cache', 'console'), { recursive: true })
      await writeFile(join(copy.directory, name), '')
      expect([other.directory, ROOT].filter(at => existsSync(join(at, name)))).toEqual([])
      const envoyOf = (at: string) => realpathSync(join(at, '.cache', 'envoy'))
      expect([copy, other].map(({ directory }) => envoyOf(directory))).toEqual([envoyOf(ROOT), envoyOf(ROOT)])
    } finally {
      await copy.remove()
      await other.remove()
    }
  })
})

describe('the test that a fault names', () => {
  const fault: Fault = {
    name: 'x',
    fault: 'Something went wrong here.',
    file: 'test/a.test.ts',
    test: 'a > b',
    edits: [{ file: 'src/a.ts', replace: 'one', with: 'two' }],
  }
  const executed = { file: 'test/a.test.ts', name: 'a > b', passed: true }

  it('is one of those that were executed', () => {
    expect(missingTests([fault], [executed])).toEqual([])
  })

  it('is told where it was renamed, or is gone', () => {
    expect(missingTests([fault], [{ ...executed, name: 'a > c' }])).toEqual([
      expect.stringMatching(/^x: test\/a\.test\.ts has no test called so/),
    ])
  })

  it('is not looked for in a file that was not executed', () => {
    expect(missingTests([fault], [{ ...executed, file: 'test/b.test.ts' }])).toEqual([])
  })
})
