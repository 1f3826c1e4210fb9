/**
 * Random operations of ten clients over two authorities and two sidecars on a Postgres that writes to its
 * disk, while each of them is killed, held still and started again: every promise holds, during and after.
 * docs/availability.md; `make history` runs as many operations as it is told. The first sidecar uses answers
 * again under a lease, the second asks about each call; with LEASES=1 both use them.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { describeWith, type Requirement } from '../support/requirement.ts'
import { runHistory } from './run.ts'
import { tellViolations } from './tell.ts'

const ops = Number(process.env['HISTORY_OPS'] ?? 1_000)
const isLong = ops > 10_000
const given = process.env['HISTORY_SECONDS'] ?? ''
const secondsMax = given === '' ? Infinity : Number(given)
const seed = Number(process.env['HISTORY_SEED'] ?? 20)
const PROCESSES: Requirement<string> = existsSync('/proc/self/stat')
  ? { found: '/proc' }
  : { missing: 'Linux, whose /proc tells which processes a Postgres has.' }

describeWith(PROCESSES, 'A history of random operations', () => {
  it(
    'breaks no promise, whatever is killed, held still or started again',
    { timeout: 60_000 + ops * 200 },
    async () => {
      const ran = await runHistory({
        seed,
        ops,
        secondsMax,
        faultEvery: Number(process.env['HISTORY_FAULT_EVERY'] ?? (isLong ? 600 : 150)),
        spareSidecarsFrom: isLong ? 0.95 : ops > 1_000 ? 0.8 : 0.4,
        ...(process.env['HISTORY_LEASES'] === '1' ? { leased: 2 } : {}),
        onProgress: says => process.stderr.write(`${says}\n`),
      })
      process.stderr.write(
        `${ran.count} operations in ${ran.seconds} s, ${ran.parts} parts: ${JSON.stringify(ran.tally)}\n`,
      )
      const dump = process.env['HISTORY_DUMP']
      if (dump !== undefined) writeFileSync(dump, ran.history.map(op => JSON.stringify(op)).join('\n'))
      expect(tellViolations(ran, seed)).toBe('')
    },
  )
})
