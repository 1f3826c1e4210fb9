/**
 * Checks the form of the list of the contract's rows (test/contract-rows.yaml), and the messages for its
 * gaps.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { contractItems } from './support/contract-items.ts'
import {
  digestOf,
  readContractRows,
  unlistedRows,
  unshownRows,
  type ContractRow,
  type ExecutedTest,
} from './support/contract-rows.ts'
import { ROOT } from './support/repository.ts'

const ROW: ContractRow = {
  id: 'ticket-declined',
  of: 'States and transitions / Permission ticket',
  says: 'It ends.',
  due: 'issue-2',
  row: digestOf({ heading: 'Permission ticket', cells: ['any negotiation', 'declines', 'ended'] }),
}
const FILE = 'test/contract/states.test.ts'
const shows: ExecutedTest = {
  file: FILE,
  name: 'Permission ticket > ticket-declined: It ends.',
  passed: true,
}
const told = (rows: Partial<ContractRow>[], executed: ExecutedTest[]) =>
  unshownRows({ due: ['issue-2'], rows: rows.map(row => ({ ...ROW, ...row })) }, executed)

describe('a row of the contract', () => {
  test('is shown by an executed test that is named after it', () => {
    expect(told([{}], [shows])).toEqual([])
  })

  test('that is due and that no executed test names is told', () => {
    expect(told([{}], [])).toEqual([expect.stringMatching(/^ticket-declined .*no executed test names it/)])
    expect(
      told([{}], [{ ...shows, name: 'Permission ticket > ticket-declined-twice: It ends.' }]),
    ).toHaveLength(1)
  })

  test('whose test failed is told', () => {
    expect(told([{}], [{ ...shows, passed: false }])).toEqual([expect.stringContaining('failed')])
  })

  test('that is not due yet needs none', () => {
    expect(told([{ due: 'organization' }], [])).toEqual([])
  })

  test('may be shown by a test that it lists, but for those parts whose tests bear its name', () => {
    const other = { file: FILE, name: 'Permission ticket > the agent declines', passed: true }
    const tests = [`${FILE} > the agent declines`]
    expect(told([{ of: 'Limits', tests }], [other])).toEqual([])
    expect(told([{ tests }], [other])).toEqual([expect.stringContaining('named after it')])
  })

  test('that lists a test of another name than it has now is told', () => {
    const tests = [`${FILE} > an old name`]
    expect(told([{ of: 'Limits', tests }], [shows])).toEqual([expect.stringContaining('an old name')])
    // Of a file that was not executed nothing is known.
    expect(told([{ of: 'Limits', tests: ['test/envoy/story.test.ts > x'] }], [shows])).toEqual([])
  })
})

describe('the list', () => {
  test('names files of tests that are there', () => {
    const named = readContractRows().rows.flatMap(({ tests = [] }) => tests.map(one => one.split(' > ')[0]!))
    expect(new Set(named).size).toBeGreaterThan(10)
    expect([...new Set(named)].filter(file => !existsSync(join(ROOT, file)))).toEqual([])
  })
})

describe('the list and the text of the contract', () => {
  const contract =
    '### Permission ticket\n\n| From | Trigger |\n|---|---|\n| any negotiation | declines | ended |\n'

  test('agree, however the text is blanked', () => {
    const blanked = contract.replaceAll(' | ', '   |  ')
    expect(unlistedRows({ due: [], rows: [ROW] }, blanked)).toEqual([])
  })

  test('a row that the list lacks is told, and one that the text has no more', () => {
    const changed = contract.replace('declines', 'withdraws')
    expect(unlistedRows({ due: [], rows: [ROW] }, changed)).toEqual([
      expect.stringMatching(/not listed .*withdraws/),
      expect.stringContaining('ticket-declined'),
    ])
  })

  test('a point of a list is a row too, and a line that names columns is not', () => {
    expect(contractItems('## Limits\n\n1. One.\n- Two.\n\n| A |\n|---|\n| three |\n')).toEqual([
      { heading: 'Limits', cells: ['One.'] },
      { heading: 'Limits', cells: ['Two.'] },
      { heading: 'Limits', cells: ['three'] },
    ])
  })
})

test('the list is well-formed, and each id and each row stands in it once', () => {
  expect(readContractRows().rows.length).toBeGreaterThan(200)
})
