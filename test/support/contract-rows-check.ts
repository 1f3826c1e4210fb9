/**
 * Run after a whole test run: fails on a due row of the contract that no executed test names, and, where the
 * contract's own text is at hand (SHARED_DIR, ../shared when left out), on a row of it that
 * test/contract-rows.yaml lacks; and on a fault whose test is gone (test/faults), and a rule of
 * the bridge whose test is (test/bridge-rows.yaml). Where a suite is absent, so may those tests be: it says
 * for which files it cannot tell.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { missingTests, readFaults } from '../faults/faults.ts'
import { readAbsentSuites } from './absent-suites.ts'
import { readBridgeRows, unshownBridgeRows } from './bridge-rows.ts'
import { readContractRows, unlistedRows, unshownRows, type ExecutedTest } from './contract-rows.ts'
import { EXECUTED_TESTS_FILE } from './executed-tests-reporter.ts'
import { ROOT } from './repository.ts'

const executed = JSON.parse(readFileSync(EXECUTED_TESTS_FILE, 'utf8')) as ExecutedTest[]
const absent = readAbsentSuites()
const contractFile = join(process.env['SHARED_DIR'] ?? join(ROOT, '..', 'shared'), 'contract.md')
const list = readContractRows()
const faults = [
  ...unshownRows(list, executed, absent),
  ...(existsSync(contractFile) ? unlistedRows(list, readFileSync(contractFile, 'utf8')) : []),
]
const gone = missingTests(readFaults(), executed, absent)
for (const fault of faults) process.stderr.write(`contract rows: ${fault}\n`)
for (const fault of gone) process.stderr.write(`test/faults: ${fault}\n`)
const bridge = unshownBridgeRows(readBridgeRows(), executed, absent)
for (const fault of bridge) process.stderr.write(`test/bridge-rows.yaml: ${fault}\n`)
const unjudged = new Set(absent.map(({ file }) => file))
if (unjudged.size > 0)
  process.stdout.write(
    `tests that lists name are not missed where suites are absent (told above): ${[...unjudged].join(', ')}\n`,
  )
if (faults.length + gone.length + bridge.length > 0) process.exitCode = 1
