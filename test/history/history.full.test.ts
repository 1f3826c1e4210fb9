/**
 * Random operations of twelve clients over two authorities and two sidecars on a Postgres that writes to its
 * disk, while each of them is killed, held still and started again: every promise holds, during and after.
 * docs/availability.md; `make history` runs as many operations as it is told. The first sidecar uses answers
 * again under a lease, the second asks about each call; with LEASES=1 both use them. With APART=30 the
 * database comes back by a clock that is 30 s ahead, and the next time by the former one.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { describeWith, type Requirement } from '../support/requirement.ts'
import { runHistory } from './run.ts'
import { tellViolations } from './tell.ts'

/** A number that `make history` was called with; `otherwise` if it was not. */
function setting(name: string, otherwise: number): number {
  const text = process.env[`HISTORY_${name}`] ?? ''
  return text === '' ? otherwise : Number(text)
}

const ops = setting('OPS', 1_000)
const isLong = ops > 10_000
const secondsMax = setting('SECONDS', Infinity)
const seed = setting('SEED', 20)
const leases = process.env['HISTORY_LEASES'] === '1'
/**
 * Of a long one: more clients, so that some go on while others wait for what is disturbed, and several calls
 * at a time, because calls are what a revoke that returned must stop.
 */
const LONG = { clients: 24, callsAtOnce: 10, partOps: 50_000, faultEvery: 600, spareSidecarsFrom: 0.9 }
const SHORT = {
  clients: 10,
  callsAtOnce: 1,
  partOps: 10_000,
  faultEvery: 150,
  spareSidecarsFrom: ops > 1_000 ? 0.8 : 0.4,
}
const usual = isLong ? LONG : SHORT
const PROCESSES: Requirement<string> = existsSync('/proc/self/stat')
  ? { found: '/proc' }
  : { missing: 'Linux, whose /proc tells which processes a Postgres has.' }

describeWith(PROCESSES, 'A history of random operations', () => {
  it(
    'breaks no promise, whatever is killed, held still or started again',
    { timeout: 60_000 + ops * 200 },
    async () => {
      const chosen = {
        clients: setting('CLIENTS', usual.clients),
        callsAtOnce: setting('CALLS', usual.callsAtOnce),
        partOps: setting('PART', usual.partOps),
        faultEvery: setting('FAULT_EVERY', usual.faultEvery),
        spareSidecarsFrom: usual.spareSidecarsFrom,
        ...(leases ? { leased: 2 } : {}),
        clocksApartMs: setting('APART', 0) * 1_000,
      }
      process.stderr.write(`seed ${seed}, ${ops} operations: ${JSON.stringify(chosen)}\n`)
      const onProgress = (says: string): boolean => process.stderr.write(`${says}\n`)
      const ran = await runHistory({ seed, ops, secondsMax, ...chosen, onProgress })
      process.stderr.write(
        `${ran.count} operations in ${ran.seconds} s, ${ran.parts} parts: ${JSON.stringify(ran.tally)}\n`,
      )
      const dump = process.env['HISTORY_DUMP']
      if (dump !== undefined) writeFileSync(dump, ran.history.map(op => JSON.stringify(op)).join('\n'))
      expect(tellViolations(ran, seed)).toBe('')
    },
  )
})
