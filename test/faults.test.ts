/**
 * Holds test/faults to the tree: each patch is listed and still applies, and the tests that a run is told of
 * exist. `make faults` runs them.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { missingTests, patchOf, readFaults, type Fault } from './faults/faults.ts'
import { whyNotApplying } from './faults/tree.ts'
import { ROOT } from './support/repository.ts'

const faults = readFaults()

describe('a known fault', () => {
  it('is listed beside its patch, and each patch with its fault', () => {
    expect(faults.length).toBeGreaterThan(25)
    expect(new Set(faults.map(({ name }) => name)).size).toBe(faults.length)
  })

  it('names a file of tests that is there', () => {
    const gone = faults.filter(({ file }) => !existsSync(join(ROOT, file)))
    expect(gone.map(({ name, file }) => `${name}: ${file}`)).toEqual([])
  })

  it.each(faults.map(({ name }) => name))('%s still applies to this tree', async name => {
    expect(await whyNotApplying(patchOf({ name }))).toBeUndefined()
  })
})

describe('the test that a fault names', () => {
  const fault: Fault = {
    name: 'x',
    fault: 'Something went wrong here.',
    file: 'test/a.test.ts',
    test: 'a > b',
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
