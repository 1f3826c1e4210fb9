/**
 * Random operations over two versions of the authority side by side, the last release as it was packed and
 * this one with an added expand and an added contract migration, each killed and started again over the one
 * database. Contract: "What the service does", which an upgrade must not interrupt.
 */
import { existsSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import { describeWith, type Requirement } from '../support/requirement.ts'
import { released, type Released } from '../upgrade/released.ts'
import { nextVersion } from '../upgrade/two-versions.ts'
import { runHistory } from './run.ts'
import { tellViolations } from './tell.ts'

const OPS = 700
const SEED = 3

const RELEASED: Requirement<Released> = existsSync('/proc/self/stat')
  ? released()
  : { missing: 'Linux, whose /proc tells which processes a Postgres has.' }

describeWith(RELEASED, 'A history over two versions', found => {
  it(
    'breaks no promise, whichever of them is asked, killed or started again',
    { timeout: 400_000 },
    async () => {
      const [older, newer] = [found.unpack(), nextVersion()]
      onTestFinished(() => {
        older.remove()
        newer.remove()
      })
      const ran = await runHistory({
        seed: SEED,
        ops: OPS,
        faultEvery: 150,
        spareSidecarsFrom: 0.3,
        versions: { schema: found.schemaOf('authority'), older: older.program, newer: newer.program },
      })
      process.stderr.write(`${ran.count} operations in ${ran.seconds} s: ${JSON.stringify(ran.tally)}\n`)
      expect(tellViolations(ran, SEED)).toBe('')
    },
  )
})
