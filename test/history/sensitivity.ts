/**
 * Owns `make history-faults`: brings known faults into a copy of this tree, one at a time, and demands that
 * the history of random operations finds each. A judge that lets a known fault pass proves little.
 */
import { readFaults } from '../faults/faults.ts'
import { runTests } from '../faults/one-test.ts'
import { copyTree } from '../faults/tree.ts'

/** The faults that it must find; the others of test/faults have their own tests. */
const FAULTS = [
  'consume-checks-then-acts',
  'later-ticket-spent-twice',
  'owner-request-accepted-twice',
  'readmission-revives-grants',
  'edit-leaves-what-waits',
  'early-consume',
  'outage-told-as-403',
  'late-commit-skipped',
  'positions-without-the-lock',
  'reports-forgotten-at-a-restart',
  'grant-outlives-agreement',
  'report-number-given-twice',
  'window-above-its-max',
  'spent-share-goes-back',
  'share-goes-back-an-hour-late',
]
/** With these, both sidecars use answers again. */
const OF_LEASES = ['lease-dropped-by-word-alone', 'lease-nobody-waited-for']
const HISTORY = {
  file: 'test/history/history.full.test.ts',
  test: 'A history of random operations > breaks no promise, whatever is killed, held still or started again',
}
const SECONDS_MAX = 400

const given = process.argv.slice(2)
const names = given.length === 0 ? [...FAULTS, ...OF_LEASES] : given
const ops = (process.env['HISTORY_OPS'] ??= '3000')
const seed = Number(process.env['HISTORY_SEED'] ?? '20')
/** What a fault needs may not come about with one seed, such as several clients at one window at a time. */
const SEEDS_MAX = 4
const faults = readFaults()
const tree = await copyTree()
const missed: string[] = []

/** Whether the history finds what was brought in, with a seed. */
async function isFound(name: string, seedNow: number): Promise<boolean> {
  process.env['HISTORY_SEED'] = String(seedNow)
  process.env['HISTORY_LEASES'] = OF_LEASES.includes(name) ? '1' : ''
  const began = performance.now()
  const limits = { databaseUrl: undefined, secondsMax: SECONDS_MAX, hasFault: true }
  const [ending] = await runTests(tree.directory, [HISTORY], limits)
  const said = ending!.kind === 'failed' ? ending!.said : ''
  // Any other failure, for example of a start, shows nothing.
  const isCaught = said.includes('violations with seed')
  const seconds = Math.round((performance.now() - began) / 1_000)
  process.stdout.write(
    `${isCaught ? 'caught' : 'MISSED'}  ${name} (OPS=${ops} SEED=${seedNow}${process.env['HISTORY_LEASES'] && ' LEASES=1'}, ${seconds} s): ${JSON.stringify(ending)}\n`,
  )
  return isCaught
}

try {
  for (const name of names) {
    const fault = faults.find(one => one.name === name)
    if (fault === undefined) throw new Error(`No fault is called ${name}.`)
    await tree.bringIn(fault)
    let isCaught = false
    for (let tries = 0; tries < SEEDS_MAX && !isCaught; tries++) isCaught = await isFound(name, seed + tries)
    await tree.restore()
    if (!isCaught) missed.push(name)
  }
} finally {
  await tree.remove()
}
process.stdout.write(`${names.length - missed.length} of ${names.length} faults are found.\n`)
process.exitCode = missed.length === 0 ? 0 : 1
