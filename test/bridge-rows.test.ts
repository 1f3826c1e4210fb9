/** Holds the list of the bridge's rules (test/bridge-rows.yaml) to the tests that it names. */
import { describe, expect, it } from 'vitest'
import { readBridgeRows, unshownBridgeRows, unwrittenTests, type BridgeRow } from './support/bridge-rows.ts'

const FILE = 'test/agent/bridge/calls.test.ts'
const ROW: BridgeRow = {
  id: 'key-client-id',
  says: 'It names the operator to the owner.',
  tests: [`${FILE} > names the operator to the owner; without it none is named`],
}
const named = (words: string): BridgeRow => ({ ...ROW, tests: [`${FILE} > ${words}`] })

describe('The rules of the bridge', () => {
  it('name each a test that stands in its file', () => {
    const rows = readBridgeRows()
    expect(rows.length).toBeGreaterThan(35)
    expect(unwrittenTests(rows)).toEqual([])
  })

  it('are told where a test is missing, or called otherwise', () => {
    expect(unwrittenTests([named('an old name')])).toEqual([expect.stringContaining('an old name')])
    expect(unwrittenTests([{ ...ROW, tests: ['test/agent/bridge/gone.test.ts > x'] }])).toHaveLength(1)
  })

  it('are told after a whole run if a test of theirs was not executed, or failed', () => {
    const executed = { file: FILE, name: `--client-id > ${ROW.tests[0]!.split(' > ')[1]}`, passed: true }
    expect(unshownBridgeRows([ROW], [executed])).toEqual([])
    expect(
      unshownBridgeRows([named('after %s: the')], [{ ...executed, name: 'x > after ticket#1: the' }]),
    ).toEqual([])
    expect(unshownBridgeRows([ROW], [{ ...executed, name: 'another' }])).toHaveLength(1)
    expect(unshownBridgeRows([ROW], [{ ...executed, passed: false }])).toEqual([
      expect.stringContaining('failed'),
    ])
    // Of a file that was not executed nothing is known.
    expect(unshownBridgeRows([ROW], [])).toEqual([])
  })
})
